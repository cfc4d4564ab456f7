// One patient: what is wrong, what will be done, its counters, its profilers, its sessions.
import { useMemo, useRef, useState } from "preact/hooks";
import { api, type Process, type Profiler } from "../lib/api";
import { durationNs, plural, visible } from "../lib/format";
import { canBeExamined, closedBecause, conditionOf, findingOf, profilerFor } from "../lib/history";
import { useTitle } from "../lib/hooks";
import { useLoad } from "../lib/load";
import { chapters, effect, pauseWords, sentence, stops, takes, varied, wayFor } from "../lib/registry";
import { go, replace, useQuery } from "../lib/router";
import { useReadOnly } from "../lib/scope";
import { useSessions } from "../lib/sessions";
import { vitalOf } from "../lib/vitals";
import { Copy } from "../parts/Dialog";
import { Icon, Mark, Pause } from "../parts/marks";
import { SessionList } from "../parts/SessionList";
import { Empty, Trouble, Waiting } from "../parts/states";
import { LiveCounters } from "./LiveCounters";
import { nameOf } from "./PatientsPage";
import { StartDialog } from "./StartDialog";
import { TakeDialog } from "./TakeDialog";

const COMPLAINTS = 9;

function Facts({ p }: { p: Process }) {
  const open = (p.ways ?? []).filter((w) => w.open).map((w) => w.way);
  const facts: [string, preact.ComponentChildren][] = [
    ["Pid", p.pid ?? "hidden"],
    ["Runtime", [p.version ? `.NET ${visible(p.version)}` : "hidden", p.architecture].filter(Boolean).join(", ")],
    ["Up", p.uptimeSeconds == null ? "hidden" : durationNs(p.uptimeSeconds * 1e9)],
    [p.pod ? "Pod" : "Container", p.container ? visible(p.pod ?? p.container) : "on the host"],
    ["User", p.user ? visible(p.user) : "hidden"],
    ["Ways open", open.length ? open.join(", ") : "none"],
  ];
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
      {p.commandLine && (
        <div class="cmd">
          <dt>Command</dt>
          <dd class="mono" title={visible(p.commandLine)}>
            {visible(p.commandLine)}
          </dd>
        </div>
      )}
    </dl>
  );
}

function Closed({ p }: { p: Process }) {
  const rows = (p.ways ?? []).filter((w) => !w.open);
  const remark = closedBecause(p);
  return (
    <section class="panel closed-panel">
      <div class="ph">
        <h2>Cannot be examined</h2>
      </div>
      {rows.length ? (
        rows.map((w) => (
          <div class="closed-note">
            <div>
              <b>{w.way}:</b> {visible(w.why ?? "closed")}
              {w.fix && <> To open it: {visible(w.fix)}</>}
            </div>
            {w.fix && <Copy small text={w.fix} icon={<Icon name="copy" size={12} />} />}
          </div>
        ))
      ) : (
        <p class="nothing">{visible(remark?.why ?? "It does not answer.")}</p>
      )}
    </section>
  );
}

function Examine({
  p,
  profilers,
  chosen,
  onChoose,
  onStart,
  onParameters,
}: {
  p: Process;
  profilers: Profiler[];
  chosen: Profiler;
  onChoose: (p: Profiler) => void;
  onStart: () => void;
  onParameters: () => void;
}) {
  const [all, setAll] = useState(false),
    way = wayFor(chosen, p);
  const living = profilers.filter((x) => !x.forCore),
    few = varied(living).slice(0, COMPLAINTS);
  const shown = all ? varied(living) : few.includes(chosen) ? few : [...few.slice(0, -1), chosen];
  return (
    <section class="panel exam" aria-label="Examine">
      <div class="q">
        <h2 id="wrong">What is wrong?</h2>
        <div class="sym" role="radiogroup" aria-labelledby="wrong">
          {shown.map((x) => (
            <label>
              <input type="radio" name="symptom" checked={x.uuid === chosen.uuid} onChange={() => onChoose(x)} />
              <b>{x.label}</b>
              <span>{x.name}</span>
            </label>
          ))}
        </div>
        {living.length > COMPLAINTS && (
          <button type="button" class="link more-sym" onClick={() => setAll(!all)}>
            {all ? "Fewer complaints" : plural(living.length - COMPLAINTS, "more complaint", "more complaints")}
          </button>
        )}
      </div>
      <div class="plan" aria-live="polite">
        <div>
          <span class="dim">Will run</span>
          <p class="what">{chosen.name}</p>
          <p class="sub">{chosen.summary}</p>
        </div>
        <dl>
          <dt>Way</dt>
          <dd>{way ?? "none of its ways is open"}</dd>
          <dt>Pause</dt>
          <dd>{way && stops(chosen, way) ? `${pauseWords(p) ?? "a moment"}, once` : "none"}</dd>
          <dt>Takes</dt>
          <dd>{takes(chosen)}</dd>
        </dl>
        <div class="go">
          <button type="button" class="btn primary big" data-examine disabled={!way} onClick={onStart}>
            Examine
          </button>
          <button type="button" class="btn big quiet-edge" onClick={onParameters}>
            Parameters
          </button>
        </div>
      </div>
    </section>
  );
}

/** Who was restarted goes on as another process. */
function Ended({ p }: { p: Process }) {
  const heirs = (useLoad("heirs", api.processes, 3000).data ?? []).filter(
    (x) => x.name === p.name && x.managedAssemblyName === p.managedAssemblyName && x.id !== p.id,
  );
  const heir = heirs.sort((a, b) => (a.uptimeSeconds ?? 0) - (b.uptimeSeconds ?? 0))[0];
  return (
    <div class="say-bar gap" role="status">
      <Mark is="off" />
      <span>
        {nameOf(p)} (pid {p.id}) has ended. Its sessions are kept.
        {heir ? ` Another ${nameOf(heir)} runs as pid ${heir.id}.` : ""}
      </span>
      {heir && (
        <span class="end">
          <a class="btn sm" href={`/profilers/${heir.id}`}>
            Open pid {heir.id}
          </a>
        </span>
      )}
    </div>
  );
}

function AllProfilers({ p, profilers, onRun }: { p: Process; profilers: Profiler[]; onRun: (x: Profiler) => void }) {
  const [term, setTerm] = useQuery("profiler"),
    living = profilers.filter((x) => !x.forCore);
  const shown = living.filter((x) => `${x.name} ${x.symptom} ${x.id}`.toLowerCase().includes(term.toLowerCase()));
  return (
    <section class="panel">
      <div class="ph">
        <h2>All profilers</h2>
        <span class="dim">{plural(living.filter((x) => wayFor(x, p)).length, "fits", "fit")} this process</span>
        <div class="end">
          <input
            class="field sm"
            type="search"
            placeholder="Filter"
            aria-label="Filter profilers"
            value={term}
            onInput={(e) => setTerm(e.currentTarget.value)}
          />
        </div>
      </div>
      <table class="plist">
        <thead>
          <tr>
            <th scope="col">Profiler</th>
            <th scope="col" class="c-ans">
              Answers
            </th>
            <th scope="col" class="c-way">
              Way
            </th>
            <th scope="col">Effect on it</th>
            <th scope="col" class="num c-t">
              Takes
            </th>
            <td />
          </tr>
        </thead>
        {chapters(shown).map(([chapter, list]) => (
          <tbody>
            <tr>
              <th colSpan={6} scope="rowgroup">
                {chapter}
              </th>
            </tr>
            {list.map((x) => {
              const way = wayFor(x, p),
                stop = !!way && stops(x, way);
              return (
                <tr>
                  <td class="pn">
                    {x.name}
                    {x.experimental && <span class="tag exp">trial</span>}
                  </td>
                  <td class="c-ans sub">{sentence(x.symptom)}</td>
                  <td class="c-way sub">{way ?? "closed"}</td>
                  <td class={stop ? "cost pause" : "cost"}>
                    <Pause stops={stop} />
                    {effect(x, p)}
                  </td>
                  <td class="num sub c-t">{takes(x)}</td>
                  <td class="num">
                    <button
                      type="button"
                      class="btn sm"
                      disabled={!way}
                      aria-label={`Run ${x.name}`}
                      onClick={() => onRun(x)}
                    >
                      Run
                    </button>
                  </td>
                </tr>
              );
            })}
          </tbody>
        ))}
      </table>
      {!shown.length && <p class="nothing">No profiler matches.</p>}
    </section>
  );
}

export function PatientPage({ id, profiler }: { id: number; profiler?: string }) {
  const process = useLoad(`process ${id}`, () => api.process(id), 5000),
    profilers = useLoad("profilers", api.profilers),
    sessions = useSessions("sessions-of");
  const [symptom, setSymptom] = useQuery("symptom"),
    [like] = useQuery("like"),
    [last, setLast] = useState<Process | null>(null),
    [trouble, setTrouble] = useState(""),
    [taking, setTaking] = useState(false),
    readOnly = useReadOnly();
  if (process.data && process.data !== last) setLast(process.data);
  const p = process.data ?? last,
    list = profilers.data;
  const asked = profiler
    ? list?.find((x) => x.uuid.toLowerCase() === profiler.toLowerCase() || x.id === profiler)
    : undefined;
  const mine = useMemo(() => (sessions.data ?? []).filter((s) => s.processId === id), [sessions.data, id]);
  const suggested = useRef("");
  useTitle(p ? nameOf(p) : "Patient");
  if (process.error && !p)
    return process.error.status === 404 ? (
      <>
        <nav class="crumbs" aria-label="Breadcrumb">
          <a href="/processes">Patients</a>
          <span>/</span>
          <span>pid {id}</span>
        </nav>
        <h1>There is no process {id} any more</h1>
        {mine.length ? (
          <section>
            <div class="sec-h">
              <h2>Its sessions are kept</h2>
            </div>
            <SessionList sessions={mine} />
          </section>
        ) : (
          <Empty
            acts={
              <a class="btn" href="/processes">
                Patients
              </a>
            }
          >
            It may have ended, or its pid was never a .NET process.
          </Empty>
        )}
      </>
    ) : (
      <Trouble error={process.error} what="The process could not be read." retry={process.reload} />
    );
  if (!p || !list) return <Waiting rows={5} />;
  // What can be seen to be wrong is chosen first, once: nothing changes under somebody's hands.
  const state = conditionOf(p, vitalOf(id).judged, findingOf(p, sessions.data ?? [], Date.now()));
  suggested.current ||= profilerFor(state);
  const fit = list.filter((x) => wayFor(x, p)),
    chosen = list.find((x) => x.id === symptom) ?? fit.find((x) => x.id === suggested.current) ?? fit[0] ?? list[0]!,
    gone = process.error?.status === 404,
    open = canBeExamined(p) && !gone,
    able = open && !readOnly;
  const close = () => replace(`/profilers/${id}${symptom ? `?symptom=${symptom}` : ""}`);
  async function begin(uuid: string) {
    try {
      go(`/sessions/${(await api.start(uuid, id, [])).guid}`);
    } catch (e) {
      setTrouble((e as Error).message);
    }
  }
  const start = (x: Profiler) => begin(x.uuid),
    diagnose = () => begin("diagnose");
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href="/processes">Patients</a>
        <span>/</span>
        <span>{nameOf(p)}</span>
      </nav>
      <div class="head">
        <div>
          <h1>{nameOf(p)}</h1>
          {p.remark ? (
            <p class="status">
              <Mark is="warn" />
              {visible(p.remark)}
            </p>
          ) : (
            !gone &&
            state.profiler && (
              <p class="status">
                <Mark is={state.is} />
                {state.session ? <a href={`/sessions/${state.session}`}>{state.why}</a> : state.why}
              </p>
            )
          )}
        </div>
        <div class="acts">
          {able && (
            <>
              <button type="button" class="btn primary lab" onClick={() => void diagnose()}>
                Diagnose
              </button>
              <a class="btn lab" href={`/stacks/${id}`}>
                <Icon name="stacks" />
                Stacks now
              </a>
              <button type="button" class="btn lab" onClick={() => setTaking(true)}>
                <Icon name="download" />
                Dump or trace
              </button>
            </>
          )}
        </div>
      </div>
      <Facts p={p} />
      {gone && <Ended p={p} />}
      {trouble && (
        <div class="say-bar bad gap" role="alert">
          <Mark is="bad" />
          <span>Not started: {visible(trouble)} The process was not touched.</span>
          <span class="end">
            <button type="button" class="btn sm" onClick={() => setTrouble("")}>
              Close
            </button>
          </span>
        </div>
      )}
      {able ? (
        <Examine
          p={p}
          profilers={list}
          chosen={chosen}
          onChoose={(x) => setSymptom(x.id)}
          onStart={() => start(chosen)}
          onParameters={() => go(`/job/${id}/${chosen.uuid}`)}
        />
      ) : open ? (
        <div class="say-bar gap" role="status">
          <Mark is="info" />
          <span>
            Your token is for reading: you see its counters and sessions. To examine it, enter with the full one.
          </span>
        </div>
      ) : (
        !gone && <Closed p={p} />
      )}
      <div class="cols">
        <div>
          {open && <LiveCounters id={id} sessions={mine} />}
          {able && <AllProfilers p={p} profilers={list} onRun={(x) => go(`/job/${id}/${x.uuid}`)} />}
        </div>
        <aside aria-label="Sessions of this patient">
          <section class="side">
            <div class="panel">
              <div class="ph">
                <h2>Sessions of {nameOf(p)}</h2>
              </div>
              {mine.length ? <SessionList narrow sessions={mine.slice(0, 8)} /> : <p class="nothing">None yet.</p>}
              {mine.length > 8 && (
                <p class="pfoot">
                  <a href={`/sessions?process=${encodeURIComponent(p.name ?? "")}`}>All {mine.length} sessions</a>
                </p>
              )}
            </div>
          </section>
        </aside>
      </div>
      {taking && <TakeDialog p={p} onClose={() => setTaking(false)} />}
      {asked && !readOnly && <StartDialog p={p} profiler={asked} like={like} onClose={close} />}
    </>
  );
}
