// Live counters with history: the same window in every chart, one crosshair through all of them.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api, type Session } from "../lib/api";
import { bytes, clock, number, percent } from "../lib/format";
import { curated, isMeterKey, keyOf, single, type CounterSeries, type Curve, type Unit } from "../lib/counters";
import { go, useQuery } from "../lib/router";
import { refreshVitals, vitalOf } from "../lib/vitals";
import { Dialog } from "../parts/Dialog";
import { Plot } from "../parts/Plot";

const EVERY_MS = 1000,
  KEPT_MS = 3600e3,
  WINDOWS: [string, string, number][] = [
    ["1m", "1 min", 60e3],
    ["5m", "5 min", 300e3],
    ["15m", "15 min", 900e3],
    ["1h", "1 h", 3600e3],
  ];

export function show(unit: Unit, y: number): string {
  switch (unit) {
    case "bytes":
      return bytes(y);
    case "bytes/s":
      return `${bytes(y)}/s`;
    case "ratio":
      return percent(y);
    case "/s":
      return `${number(y)} /s`;
    case "cores":
      return `${number(y)} cores`;
    case "s":
    case "ms":
      return `${number(y)} ${unit}`;
    default:
      return number(y);
  }
}

function Chart({
  curve,
  range,
  marks,
  onRange,
  onReset,
}: {
  curve: Curve;
  range: [number, number];
  marks: { x: number; open: () => void }[];
  onRange: (a: number, b: number) => void;
  onReset: () => void;
}) {
  const [at, setAt] = useState<number | null>(null);
  const [from, to] = range,
    inside = curve.v.filter((v, i) => v !== null && curve.t[i]! >= from && curve.t[i]! <= to) as number[];
  const last = curve.v.length ? curve.v[curve.v.length - 1] : null,
    point = at === null ? last : (curve.v[at] ?? null);
  const average = inside.length ? inside.reduce((a, b) => a + b, 0) / inside.length : 0,
    most = inside.reduce((a, b) => Math.max(a, b), 0);
  const text = point == null ? "–" : show(curve.unit, point),
    m = /^([\d.,-]+)(.*)$/.exec(text);
  return (
    <figure class="chart">
      <figcaption>
        <span class="n" title={curve.title}>
          {curve.title}
        </span>
        <span class="v">
          {m ? m[1] : text}
          <small>{m ? m[2] : ""}</small>
        </span>
        <span class="d">
          {at !== null && curve.t[at]
            ? `at ${clock(curve.t[at]!)}`
            : inside.length
              ? `average ${show(curve.unit, average)}, highest ${show(curve.unit, most)}`
              : "nothing yet"}
        </span>
      </figcaption>
      <Plot
        data={[curve.t, curve.v]}
        height={104}
        label={`${curve.title}: now ${last == null ? "not measured" : show(curve.unit, last)}, highest ${show(curve.unit, most)} in this window`}
        show={(y) => show(curve.unit, y).replace(/ (cores|\/s)$/, "")}
        showX={(x) => clock(x, to - from < 10 * 60e3)}
        from={from}
        to={to}
        second={1000}
        bytes={curve.unit.startsWith("bytes")}
        filled
        marks={marks}
        sync="counters"
        top={curve.unit === "ratio" ? 0.01 : curve.unit === "bytes" ? 1e6 : undefined}
        onRange={onRange}
        onReset={onReset}
        onCursor={(_, i) => setAt(i)}
      />
    </figure>
  );
}

function Pick({
  series,
  meters,
  picked,
  onPick,
  onClose,
}: {
  series: CounterSeries[];
  meters: string;
  picked: string[];
  onPick: (keys: string[]) => void;
  onClose: () => void;
}) {
  const [term, setTerm] = useState("");
  const shown = series.filter((s) => `${keyOf(s)} ${s.displayName ?? ""}`.toLowerCase().includes(term.toLowerCase()));
  return (
    <Dialog title="Pick counters" onClose={onClose} wide>
      <input
        class="field"
        type="search"
        data-safe
        placeholder="Filter"
        aria-label="Filter counters"
        value={term}
        onInput={(e) => setTerm(e.currentTarget.value)}
      />
      <ul class="pick">
        {shown.map((s) => {
          const key = keyOf(s),
            on = picked.includes(key);
          return (
            <li>
              <label>
                <input
                  type="checkbox"
                  checked={on}
                  onChange={() => onPick(on ? picked.filter((k) => k !== key) : [...picked, key])}
                />{" "}
                {single(s).title}{" "}
                <span class="dim">
                  {s.meter ? "meter " : ""}
                  {s.provider}
                </span>
              </label>
            </li>
          );
        })}
      </ul>
      {meters && (
        <p class="dim" role="status">
          {meters}
        </p>
      )}
      <div class="acts">
        <button type="button" class="btn" onClick={() => onPick([])}>
          The usual ones
        </button>
        <button type="button" class="btn" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

/** Joins what is new to what was there; points of one series stand in order of time. */
export function merge(old: CounterSeries[], fresh: CounterSeries[], keepMs: number, now: number): CounterSeries[] {
  const known = new Map(old.map((s) => [keyOf(s), s]));
  for (const s of fresh) {
    const was = known.get(keyOf(s)),
      last = was?.points.length ? was.points[was.points.length - 1]![0] : -1;
    const points = [...(was?.points ?? []), ...s.points.filter((p) => p[0] > last)];
    let first = 0;
    while (first < points.length && points[first]![0] < now - keepMs) first++;
    known.set(keyOf(s), { ...s, points: first ? points.slice(first) : points });
  }
  return [...known.values()];
}

interface Heard {
  series: CounterSeries[];
  now: number;
  problem: string;
}

/** Asks for what is new once a second while the page is seen; null asks nothing and keeps what was heard. */
function useHeard(
  key: string,
  ask: ((since: number) => Promise<{ now: number; series: CounterSeries[] }>) | null,
): Heard {
  const [heard, set] = useState<Heard>(() => ({ series: [], now: Date.now(), problem: "" })),
    since = useRef(0),
    latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    let over = false,
      timer = 0;
    const turn = async () => {
      if (!document.hidden && latest.current) {
        try {
          const answer = await latest.current(since.current);
          if (over) return;
          since.current = answer.now;
          set((old) => ({
            series: merge(old.series, answer.series, KEPT_MS, answer.now),
            now: answer.now,
            problem: "",
          }));
        } catch (e) {
          if (!over) set((old) => ({ ...old, problem: (e as Error).message }));
        }
      }
      if (!over) timer = window.setTimeout(turn, EVERY_MS);
    };
    void turn();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key, ask === null]);
  return heard;
}

export function LiveCounters({ id, sessions }: { id: number; sessions: Session[] }) {
  const [span, setSpan] = useQuery("window", "5m"),
    [pick, setPick] = useQuery("counters"),
    [zoom, setZoom] = useState<[number, number] | null>(null),
    [picking, setPicking] = useState(false);
  const picked = pick ? pick.split(" ").map(decodeURIComponent) : [];
  const counters = useHeard(
    `counters ${id}`,
    async (since) => (await Promise.all([api.counters(id, since), refreshVitals()]))[0],
  );
  // All who listen to the meters of a process share them: nobody does before somebody wants to see one.
  const meters = useHeard(`meters ${id}`, picking || picked.some(isMeterKey) ? (since) => api.meters(id, since) : null);
  const series = useMemo(() => [...counters.series, ...meters.series], [counters.series, meters.series]),
    { now, problem } = counters;
  const curves = useMemo(() => {
    const { t, v } = vitalOf(id).cpu,
      usual = curated(counters.series);
    // The processor's time as the kernel counts it: the runtime knows only its share of all cores.
    if (t.length) usual.unshift({ id: "cpu", title: "CPU", unit: "cores", t: [...t], v: [...v] });
    return picked.length ? series.filter((s) => picked.includes(keyOf(s))).map(single) : usual;
  }, [series, pick]);
  const length = WINDOWS.find((w) => w[0] === span)?.[2] ?? 300e3,
    range: [number, number] = zoom ?? [now - length, now];
  const marks = useMemo(
    () => sessions.filter((s) => s.startedMs).map((s) => ({ x: s.startedMs, open: () => go(`/sessions/${s.guid}`) })),
    [sessions],
  );
  return (
    <section class="panel">
      <div class="ph">
        <h2>Live counters</h2>
        <span class="dim">
          {zoom ? "zoomed; double click goes back" : marks.length ? "dashed lines are sessions" : ""}
        </span>
        <div class="end">
          {series.length > 0 && (
            <button type="button" class="btn sm quiet" onClick={() => setPicking(true)}>
              Pick counters
            </button>
          )}
          <span class="seg" role="group" aria-label="Window">
            {WINDOWS.map(([key, words]) => (
              <button
                type="button"
                aria-pressed={span === key && !zoom}
                onClick={() => {
                  setZoom(null);
                  setSpan(key);
                }}
              >
                {words}
              </button>
            ))}
          </span>
        </div>
      </div>
      {problem && !series.length ? (
        <p class="nothing">Not measured: {problem}</p>
      ) : !curves.length ? (
        <p class="nothing">
          {picked.length
            ? "None of the picked counters has said anything yet."
            : "Listening; the first values come within a few seconds."}
        </p>
      ) : (
        <div class="charts">
          {curves.map((c) => (
            <Chart
              key={c.id}
              curve={c}
              range={range}
              marks={marks}
              onRange={(a, b) => setZoom([a, b])}
              onReset={() => setZoom(null)}
            />
          ))}
        </div>
      )}
      {picking && (
        <Pick
          series={series}
          picked={picked}
          meters={meters.problem || (meters.series.length ? "" : "Its meters come within a few seconds.")}
          onPick={(keys) => setPick(keys.map(encodeURIComponent).join(" "))}
          onClose={() => setPicking(false)}
        />
      )}
    </section>
  );
}
