// Counters as people know them: a few curated charts out of what the runtime counts, whichever of its two dialects it
// speaks (EventCounters, or meters from .NET 9), and every counter by itself.

/** Its time, then a value for each of the series' columns. */
export type Point = [number, ...(number | null)[]];

/** One counter with its history. First column: gauges as they are, rates per second, histograms their median. */
export interface CounterSeries {
  provider: string;
  name: string;
  tags: string | null;
  displayName: string | null;
  unit: string | null;
  kind: "gauge" | "rate" | "histogram";
  points: Point[];
  /** Of a meter, not of an event source. */
  meter?: boolean;
}

export type Unit = "cores" | "bytes" | "bytes/s" | "ratio" | "/s" | "count" | "s" | "ms" | "";

export interface Curve {
  id: string;
  title: string;
  unit: Unit;
  t: number[];
  v: (number | null)[];
}

interface Recipe {
  id: string;
  title: string;
  unit: Unit;
  /** The first that is there is taken; series that differ only in tags are added up. */
  from: { provider: string; name: string; scale?: number }[];
}

const MB = 1e6;
export const RECIPES: Recipe[] = [
  {
    id: "heap",
    title: "GC heap",
    unit: "bytes",
    from: [
      { provider: "System.Runtime", name: "dotnet.gc.last_collection.heap.size" },
      { provider: "System.Runtime", name: "gc-heap-size", scale: MB },
    ],
  },
  {
    id: "rss",
    title: "RSS",
    unit: "bytes",
    from: [
      { provider: "System.Runtime", name: "dotnet.process.memory.working_set" },
      { provider: "System.Runtime", name: "working-set", scale: MB },
    ],
  },
  {
    id: "alloc",
    title: "Allocations",
    unit: "bytes/s",
    from: [
      { provider: "System.Runtime", name: "dotnet.gc.heap.total_allocated" },
      { provider: "System.Runtime", name: "alloc-rate" },
    ],
  },
  {
    id: "gc",
    title: "Time in GC",
    unit: "ratio",
    from: [
      { provider: "System.Runtime", name: "dotnet.gc.pause.time" },
      { provider: "System.Runtime", name: "time-in-gc", scale: 0.01 },
    ],
  },
  {
    id: "exceptions",
    title: "Exceptions",
    unit: "/s",
    from: [
      { provider: "System.Runtime", name: "dotnet.exceptions" },
      { provider: "System.Runtime", name: "exception-count" },
    ],
  },
  {
    id: "queue",
    title: "Thread pool queue",
    unit: "count",
    from: [
      { provider: "System.Runtime", name: "dotnet.thread_pool.queue.length" },
      { provider: "System.Runtime", name: "threadpool-queue-length" },
    ],
  },
  {
    id: "threads",
    title: "Thread pool threads",
    unit: "count",
    from: [
      { provider: "System.Runtime", name: "dotnet.thread_pool.thread.count" },
      { provider: "System.Runtime", name: "threadpool-thread-count" },
    ],
  },
  {
    id: "locks",
    title: "Lock waits",
    unit: "/s",
    from: [
      { provider: "System.Runtime", name: "dotnet.monitor.lock_contentions" },
      { provider: "System.Runtime", name: "monitor-lock-contention-count" },
    ],
  },
  {
    id: "requests",
    title: "Requests",
    unit: "/s",
    from: [{ provider: "Microsoft.AspNetCore.Hosting", name: "requests-per-second" }],
  },
];

/** Adds up series point by point; a time that only some have counts with what is there. */
export function addUp(all: CounterSeries[], scale = 1, column = 1): { t: number[]; v: (number | null)[] } {
  const scaled = (p: Point) => (p[column] == null ? null : p[column] * scale);
  if (all.length === 1) return { t: all[0]!.points.map((p) => p[0]), v: all[0]!.points.map(scaled) };
  const at = new Map<number, number | null>();
  for (const s of all)
    for (const p of s.points)
      at.set(p[0], scaled(p) === null ? (at.get(p[0]) ?? null) : (at.get(p[0]) ?? 0) + scaled(p)!);
  const t = [...at.keys()].sort((a, b) => a - b);
  return { t, v: t.map((x) => at.get(x)!) };
}

export function curated(series: CounterSeries[]): Curve[] {
  const curves: Curve[] = [];
  for (const r of RECIPES) {
    for (const f of r.from) {
      const found = series.filter((s) => s.provider === f.provider && s.name === f.name && s.points.length);
      if (!found.length) continue;
      curves.push({ id: r.id, title: r.title, unit: r.unit, ...addUp(found, f.scale) });
      break;
    }
  }
  return curves;
}

const UNITS: Record<string, Unit> = { By: "bytes", "By/s": "bytes/s", s: "s", ms: "ms", "%": "count", MB: "count" };

const P95 = 2;

/** Every counter by itself, for those who pick their own; of a histogram its 95th percentile. */
export function single(s: CounterSeries): Curve {
  const rate = s.kind === "rate",
    histogram = s.kind === "histogram",
    base = UNITS[s.unit ?? ""] ?? "";
  const unit: Unit = rate ? (base === "bytes" ? "bytes/s" : "/s") : base;
  const name = `${s.displayName || s.name}${histogram ? ", p95" : ""}`;
  return { id: keyOf(s), title: s.tags ? `${name} (${s.tags})` : name, unit, ...addUp([s], 1, histogram ? P95 : 1) };
}

const METER = "meter:";
export function isMeterKey(key: string): boolean {
  return key.startsWith(METER);
}

export function keyOf(s: CounterSeries): string {
  return `${s.meter ? METER : ""}${s.provider}/${s.name}${s.tags ? `[${s.tags}]` : ""}`;
}
