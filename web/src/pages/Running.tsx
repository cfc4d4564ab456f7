// A session that runs: how far, how long, what it says. Leaving the page loses nothing.
import type { Session } from "../lib/api";
import { elapsed, visible } from "../lib/format";
import { useNow } from "../lib/hooks";
import { Copy } from "../parts/Dialog";
import { LogView } from "../parts/LogView";
import { Icon, Mark } from "../parts/marks";
import { wordsOf } from "../parts/SessionList";

export interface LogEvent {
  number: number;
  time: string;
  text: string;
}

const STEPS: { state: Session["state"]; name: string; what: string }[] = [
  { state: "queued", name: "Wait for its turn", what: "nothing is touched yet" },
  { state: "running", name: "Measure", what: "the process runs on" },
  { state: "analysing", name: "Explain", what: "the process is left alone" },
];

/** What is left, when the pace so far says it. */
export function leftMs(s: Session, now: number): number | null {
  const since = now - (s.startedMs || s.createdMs),
    done = s.progress ?? 0;
  return s.state === "running" && done > 0.05 ? Math.max(0, since / done - since) : null;
}

/** What is known before the report is there; of a diagnosis there will be something, so its place is there from the start. */
function SoFar({ s }: { s: Session }) {
  const lines = s.news ? s.news.split("\n") : [];
  if (!lines.length && s.profiler.id !== "diagnose") return null;
  return (
    <section class="panel so-far" aria-label="First impression" aria-live="polite">
      <Mark is={lines.length ? "info" : "run"} />
      <div>
        {lines.map((line) => (
          <p key={line}>{visible(line)}</p>
        ))}
        {!lines.length && <p class="dim">First impression in a few seconds.</p>}
      </div>
    </section>
  );
}

export function Running({ s, log }: { s: Session; log: LogEvent[] }) {
  const now = useNow(500),
    ratio = s.progress ?? 0,
    left = leftMs(s, now),
    at = STEPS.findIndex((x) => x.state === s.state);
  return (
    <>
      <SoFar s={s} />
      <div class="panel run-panel">
        <div class="runhead">
          <div>
            <span class="lab">Elapsed</span>
            <span class="big">{elapsed(now - (s.startedMs || s.createdMs))}</span>
          </div>
          {left !== null && (
            <div>
              <span class="lab">About</span>
              <span class="big">{elapsed(left + 999)}</span> <span class="sub">left</span>
            </div>
          )}
          <div
            role="progressbar"
            aria-label="Progress"
            aria-valuemin={0}
            aria-valuemax={100}
            aria-valuenow={Math.round(ratio * 100)}
          >
            <span class="lab">Progress</span>
            <span class="big">{Math.round(ratio * 100)}</span> <span class="sub">%</span>
          </div>
          <div class="grow" />
          <div class="status" role="status">
            <Mark is="run" />
            {visible(wordsOf(s))}
          </div>
        </div>
        <ol class="steps" aria-label="Steps">
          {STEPS.map((x, i) => (
            <li
              class={i < at ? "done" : i === at ? "now" : "todo"}
              aria-current={i === at ? "step" : undefined}
              style={i === at ? { "--p": x.state === "running" ? ratio : 0.5 } : undefined}
            >
              <b>{x.name}</b>
              <span>{i < at ? "done" : x.what}</span>
            </li>
          ))}
        </ol>
      </div>
      <div class="cols">
        <section class="panel">
          <div class="ph">
            <h2>Log</h2>
            <span class="dim">live</span>
            <div class="end">
              <Copy
                small
                text={log.map((l) => `${l.time} ${l.text}`).join("\n")}
                icon={<Icon name="copy" size={12} />}
              />
            </div>
          </div>
          <LogView
            lines={log.map((l) => ({ time: l.time, text: l.text }))}
            label="Session log"
            empty="Nothing said yet."
          />
        </section>
        <aside>
          <section class="panel">
            <div class="ph">
              <h2>Parameters</h2>
            </div>
            <dl class="params one">
              {s.profiler.parameters.map((p) => {
                const value = s.parameters?.[p.key] ?? p.value,
                  unit = p.unit ? ` ${p.unit}` : "";
                return (
                  <div>
                    <dt>{p.name}</dt>
                    <dd>
                      {visible(value)}
                      {unit} <span class="def">{value === (p.defaultValue ?? p.value) ? "default" : "set"}</span>
                    </dd>
                  </div>
                );
              })}
              {!s.profiler.parameters.length && (
                <div>
                  <dt>None</dt>
                </div>
              )}
            </dl>
          </section>
        </aside>
      </div>
      <p class="dim after">
        You can leave this page: the session goes on and is listed under {visible(s.processName)}. Cancel keeps what was
        seen so far and leaves nothing behind in the process.
      </p>
    </>
  );
}
