// Sessions as a list: what was found, or how far it is.
import { isOver, type Session } from "../lib/api";
import { ago, dateUtc, elapsed, percent, visible } from "../lib/format";
import { useNow } from "../lib/hooks";
import { sentence } from "../lib/registry";
import { Mark, type Condition } from "./marks";

export function conditionOf(s: Session): Condition {
  if (!isOver(s)) return "run";
  if (s.state === "failed") return "off";
  return s.health ?? (s.state === "cancelled" ? "off" : "info");
}

export function wordsOf(s: Session): string {
  if (s.state === "queued") return "Waiting for its turn.";
  if (!isOver(s))
    return s.progressText ? sentence(s.progressText) : s.state === "analysing" ? "Making the report." : "Listening.";
  if (s.state === "failed") return `Not measured: ${s.error ?? "the reason is not known"}`;
  if (s.verdict) return s.verdict;
  return s.state === "cancelled" ? "Cancelled; nothing was kept." : "No verdict was reached.";
}

function When({ s, now }: { s: Session; now: number }) {
  if (!isOver(s))
    return (
      <>
        {s.state}, {elapsed(now - (s.startedMs || s.createdMs))}
      </>
    );
  return (
    <>
      <time dateTime={new Date(s.createdMs).toISOString()} title={dateUtc(s.createdMs)}>
        {ago(s.createdMs, now)}
      </time>
      {s.state !== "done" && (
        <span class="c">
          <br />
          {s.state}
        </span>
      )}
    </>
  );
}

export function Progress({ ratio, label }: { ratio: number; label: string }) {
  return (
    <div
      class="prog"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(ratio * 100)}
      aria-valuetext={percent(ratio)}
    >
      <i style={{ width: `${ratio * 100}%` }} />
    </div>
  );
}

export function SessionList({
  sessions,
  narrow,
  pick,
}: {
  sessions: Session[];
  narrow?: boolean;
  pick?: (s: Session) => preact.ComponentChildren;
}) {
  const now = useNow(1000);
  return (
    <ul class={`panel slist${narrow ? " narrow" : ""}${pick ? " picks" : ""}`}>
      {sessions.map((s) => (
        <li key={s.guid}>
          <Mark is={conditionOf(s)} />
          <div class="tp">
            {pick?.(s)}
            <a class="t" href={`/sessions/${s.guid}`}>
              {s.profiler.name}
            </a>
            {!narrow && <span class="p">{visible(s.processName)}</span>}
          </div>
          <div class="vx">
            {visible(wordsOf(s))}
            {!isOver(s) && <Progress ratio={s.progress ?? 0} label={`${s.profiler.name} of ${s.processName}`} />}
          </div>
          <span class="w">
            <When s={s} now={now} />
          </span>
        </li>
      ))}
    </ul>
  );
}
