// All .NET processes: worst first, then by name. The order holds while the pointer or the focus is in the table.
import { useRef, useState } from "preact/hooks";
import { api, type Process } from "../lib/api";
import { ago, bytes, plural, splitUnit, visible } from "../lib/format";
import {
  canBeExamined,
  closedBecause,
  conditionOf,
  findingOf,
  type Condition,
  type Series,
  type Vital,
} from "../lib/history";
import { useTitle } from "../lib/hooks";
import { useLoad } from "../lib/load";
import { go, useQuery } from "../lib/router";
import { useReadOnly } from "../lib/scope";
import { useSessions } from "../lib/sessions";
import { usePatients, vitalOf } from "../lib/vitals";
import { Copy } from "../parts/Dialog";
import { Icon, Mark } from "../parts/marks";
import { SessionList } from "../parts/SessionList";
import { Spark } from "../parts/Spark";
import { Empty, Trouble, Waiting } from "../parts/states";

export function nameOf(p: Process): string {
  return visible(p.name || p.managedAssemblyName || `pid ${p.id}`);
}

function Metric({
  label,
  text,
  series,
  tone,
  open,
}: {
  label: string;
  text: string | null;
  series: Series;
  tone: string;
  open: boolean;
}) {
  const [number, unit] = splitUnit(text ?? "");
  return (
    <td class="c-m">
      <div class="metric">
        <span class="ml">{label}</span>
        {text === null ? (
          <span class="v none" title={open ? "not measured yet" : "it cannot be asked"}>
            {open ? "–" : "hidden"}
          </span>
        ) : (
          <span class={`v ${tone}`}>
            {number}
            <small>{unit}</small>
          </span>
        )}
        {text !== null && <Spark series={series} tone={tone} />}
      </div>
    </td>
  );
}

function now(series: Series): number | null {
  return series.v.length ? series.v[series.v.length - 1]! : null;
}

function Row({
  p,
  vital,
  state,
  readOnly,
  onDiagnose,
}: {
  p: Process;
  vital: Vital;
  state: Condition;
  readOnly: boolean;
  onDiagnose: (p: Process) => void;
}) {
  const cpu = now(vital.cpu) ?? (p.cpuPercent != null ? p.cpuPercent / 100 : null),
    heap = now(vital.heap),
    thrown = now(vital.exceptions);
  const tone = (where: Condition["where"]) => (state.where === where ? (state.is === "bad" ? "bad" : "warn") : "");
  const pid = p.pid ? String(p.pid) : "hidden",
    open = canBeExamined(p),
    closed = open ? null : closedBecause(p);
  const runtime = p.version;
  return (
    <>
      <tr class={open ? "" : "closed"}>
        <td class="c-who">
          <div class="who">
            <Mark is={state.is} />
            <a class="nm" href={`/profilers/${p.id}`}>
              {nameOf(p)}
            </a>
            <span class={`why ${state.is === "bad" ? "bad" : ""}`}>
              {state.session ? <a href={`/sessions/${state.session}`}>{state.why}</a> : state.why}
              {state.seenMs && <span class="dim"> {ago(state.seenMs, Date.now())}</span>}
            </span>
          </div>
        </td>
        <td class="c-pid">
          <div class="two">
            <b>{pid}</b>
            <br />
            {runtime ? `.NET ${visible(runtime)}` : "hidden"}
          </div>
        </td>
        <td class="c-where">
          <div class="two">
            <b>{p.container ? visible(p.pod ?? p.container) : "on the host"}</b>
            <br />
            <span>
              {p.user ? `user ${visible(p.user)}` : ""}
              <span class="mob">
                , pid {pid}
                {runtime ? `, .NET ${visible(runtime)}` : ""}
              </span>
            </span>
          </div>
        </td>
        <Metric
          label="CPU"
          text={cpu === null ? null : `${cpu.toFixed(1)} cores`}
          series={vital.cpu}
          tone={tone("cpu")}
          open={open}
        />
        <Metric
          label="RSS"
          text={p.rssBytes == null ? null : bytes(p.rssBytes)}
          series={vital.rss}
          tone={tone("rss")}
          open={open}
        />
        <Metric
          label="GC heap"
          text={heap === null ? null : bytes(heap)}
          series={vital.heap}
          tone={tone("heap")}
          open={open}
        />
        <Metric
          label="Exceptions"
          text={thrown === null ? null : `${thrown >= 10 ? Math.round(thrown) : Number(thrown.toFixed(1))} /s`}
          series={vital.exceptions}
          tone={tone("exceptions")}
          open={open}
        />
        <td class="c-act">
          {open && (
            <button
              type="button"
              class="btn"
              disabled={readOnly}
              aria-label={`Diagnose ${nameOf(p)}, pid ${pid}`}
              onClick={() => onDiagnose(p)}
            >
              Diagnose
            </button>
          )}
        </td>
      </tr>
      {closed && (
        <tr class="note">
          <td colSpan={8}>
            <div class="closed-note">
              <div>
                <b>{visible(closed.why)}</b>
                {closed.fix && <> To open it: {visible(closed.fix)}</>}
              </div>
              {closed.fix && <Copy small text={closed.fix} label="Copy" icon={<Icon name="copy" size={12} />} />}
            </div>
          </td>
        </tr>
      )}
    </>
  );
}

const ORDER = { bad: 0, warn: 1, ok: 2, off: 3 };

export function PatientsPage() {
  useTitle("Patients");
  const { list, error, reload } = usePatients(),
    server = useLoad("server-of-patients", api.server).data;
  const sessions = useSessions("sessions");
  const [term, setTerm] = useQuery("find"),
    held = useRef<number[] | null>(null),
    [, redraw] = useState(0),
    [refused, setRefused] = useState(""),
    readOnly = useReadOnly();
  async function diagnose(p: Process) {
    try {
      go(`/sessions/${(await api.start("diagnose", p.id, [])).guid}`);
    } catch (e) {
      setRefused((e as Error).message);
    }
  }
  const rows = (list ?? []).map((p) => {
    const vital = vitalOf(p.id);
    return { p, vital, state: conditionOf(p, vital.judged, findingOf(p, sessions.data ?? [], Date.now())) };
  });
  const shown = rows.filter(({ p }) => {
    const words =
      `${p.name} ${p.managedAssemblyName} ${p.id} ${p.pid} ${p.user} ${p.container} ${p.pod} ${p.version}`.toLowerCase();
    return term
      .toLowerCase()
      .split(/\s+/)
      .every((w) => words.includes(w));
  });
  shown.sort(
    (a, b) => ORDER[a.state.is] - ORDER[b.state.is] || nameOf(a.p).localeCompare(nameOf(b.p)) || a.p.id - b.p.id,
  );
  if (held.current) {
    const at = new Map(held.current.map((id, i) => [id, i]));
    shown.sort((a, b) => (at.get(a.p.id) ?? 1e9) - (at.get(b.p.id) ?? 1e9));
  }
  const hold = () => (held.current ??= shown.map((r) => r.p.id)),
    release = () => {
      held.current = null;
      redraw((n) => n + 1);
    };
  const want = rows.filter((r) => r.state.is === "bad" || r.state.is === "warn").length,
    closed = rows.filter((r) => !canBeExamined(r.p)).length;
  const host = server?.host ?? location.hostname;
  return (
    <>
      <div class="head">
        <div>
          <h1>Patients</h1>
          <p class="sub">
            {list
              ? `${plural(rows.length, ".NET process", ".NET processes")} on ${host}.${want ? ` ${want} ${want === 1 ? "wants" : "want"} a look.` : ""}${closed ? ` ${closed} cannot be examined.` : ""}`
              : " "}
          </p>
        </div>
        <div class="acts">
          <input
            class="field"
            type="search"
            placeholder="Filter by name, pid, user"
            aria-label="Filter patients"
            value={term}
            onInput={(e) => setTerm(e.currentTarget.value)}
          />
          <a class="btn lab" href="/cores">
            <Icon name="file" />
            Open core file
          </a>
        </div>
      </div>
      {refused && (
        <div class="say-bar bad gap" role="alert">
          <Mark is="bad" />
          <span>Not started: {visible(refused)} The process was not touched.</span>
        </div>
      )}
      {error && !list ? (
        <Trouble error={error} what="The list of processes could not be read." retry={reload} />
      ) : !list ? (
        <Waiting />
      ) : !rows.length ? (
        <Empty
          title="No .NET process is visible from here"
          acts={
            <a class="btn" href="/cores">
              <Icon name="file" />
              Open core file
            </a>
          }
        >
          drdotnet looks at every process of this machine that it may see. In a container it sees only its own
          processes: share the pid namespace, or share <code>/tmp</code> with the container you want to examine.
        </Empty>
      ) : !shown.length ? (
        <Empty>
          No patient matches "{term}".{" "}
          <button type="button" class="link" onClick={() => setTerm("")}>
            Clear the filter
          </button>
        </Empty>
      ) : (
        <div
          class="panel first-panel"
          onMouseEnter={hold}
          onMouseLeave={release}
          onFocusCapture={hold}
          onBlurCapture={(e) => e.currentTarget.contains(e.relatedTarget as Node) || release()}
        >
          <table class="pt">
            <colgroup>
              <col />
              <col class="w-pid" />
              <col class="w-where" />
              <col span={4} class="w-m" />
              <col class="w-act" />
            </colgroup>
            <thead>
              <tr>
                <th scope="col" class="th-who">
                  Process
                </th>
                <th scope="col">Pid, runtime</th>
                <th scope="col">Container, user</th>
                <th scope="col" class="m">
                  <span>CPU</span>
                </th>
                <th scope="col" class="m">
                  <span>RSS</span>
                </th>
                <th scope="col" class="m">
                  <span>GC heap</span>
                </th>
                <th scope="col" class="m">
                  <span>Exceptions</span>
                </th>
                <td />
              </tr>
            </thead>
            <tbody>
              {shown.map((r) => (
                <Row key={r.p.id} {...r} readOnly={readOnly} onDiagnose={(p) => void diagnose(p)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <section>
        <div class="sec-h">
          <h2>Recent sessions</h2>
          <span class="end">
            {sessions.data && sessions.data.length > 7 && <a href="/sessions">All {sessions.data.length} sessions</a>}
          </span>
        </div>
        {sessions.data &&
          (sessions.data.length ? (
            <SessionList sessions={sessions.data.slice(0, 7)} />
          ) : (
            <Empty>Nothing has been examined yet. Choose a patient above.</Empty>
          ))}
      </section>
    </>
  );
}
