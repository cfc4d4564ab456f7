// Short history of the patients, kept by the page itself.
import type { Process } from "./api";

export const KEEP_MS = 60 * 60 * 1000;

export interface Series {
  t: number[];
  v: (number | null)[];
}

export function push(series: Series, t: number, v: number | null | undefined): void {
  if (series.t.length && t <= series.t[series.t.length - 1]!) return;
  series.t.push(t);
  series.v.push(v ?? null);
  while (series.t.length && series.t[0]! < t - KEEP_MS) {
    series.t.shift();
    series.v.shift();
  }
}

export interface Vital {
  cpu: Series;
  rss: Series;
  heap: Series;
  exceptions: Series;
}

export function newVital(): Vital {
  const none = (): Series => ({ t: [], v: [] });
  return { cpu: none(), rss: none(), heap: none(), exceptions: none() };
}

export interface Condition {
  is: "ok" | "warn" | "bad" | "off";
  why: string;
  where?: "cpu" | "rss" | "heap" | "exceptions";
}

function last(series: Series): number | null {
  return series.v.length ? series.v[series.v.length - 1]! : null;
}

/** How long the newest values have been at or above a limit. */
export function aboveForMs(series: Series, limit: number): number {
  let i = series.t.length;
  while (i > 0 && series.v[i - 1] !== null && series.v[i - 1]! >= limit) i--;
  return i < series.t.length ? series.t[series.t.length - 1]! - series.t[i]! : -1;
}

export const MANY_EXCEPTIONS = 100,
  SOME_EXCEPTIONS = 10,
  STEADY_MS = 8000;

function forWords(ms: number): string {
  const s = Math.round(ms / 1000);
  return s < 60 ? `${s} s` : `${Math.round(s / 60)} min`;
}

/** The fact worth a look, in words; colour goes where it is. Only what was measured counts. */
export function conditionOf(p: Process, vital: Vital, cores: number): Condition {
  if (!canBeExamined(p)) return { is: "off", why: "Cannot be examined" };
  const thrown = last(vital.exceptions);
  if (thrown !== null && thrown >= SOME_EXCEPTIONS) {
    const long = aboveForMs(vital.exceptions, thrown >= MANY_EXCEPTIONS ? MANY_EXCEPTIONS : SOME_EXCEPTIONS);
    if (long >= STEADY_MS)
      return {
        is: thrown >= MANY_EXCEPTIONS ? "bad" : "warn",
        why: `${Math.round(thrown)} exceptions/s for ${forWords(long)}`,
        where: "exceptions",
      };
  }
  const cpu = last(vital.cpu),
    limit = Math.max(0.9, cores * 0.45);
  if (cores && cpu !== null && cpu >= limit) {
    const long = aboveForMs(vital.cpu, limit);
    if (long >= STEADY_MS)
      return { is: "warn", why: `${cpu.toFixed(1)} of ${cores} cores busy for ${forWords(long)}`, where: "cpu" };
  }
  return { is: "ok", why: "Nothing unusual" };
}

const LOOKS: Record<string, string> = { exceptions: "exceptions", cpu: "cpu-hotpaths" };

/** The profiler that looks at what is wrong; "" when nothing can be seen to be. */
export function profilerFor(c: Condition): string {
  return LOOKS[c.where ?? ""] ?? "";
}

/** A list says only whether the runtime answered; one process alone says which ways are open. */
export function canBeExamined(p: Process): boolean {
  return p.ways ? p.ways.some((w) => w.open) : p.answered !== false;
}

/** Why it is closed, and what would open it. */
export function closedBecause(p: Process): { why: string; fix: string | null } | null {
  for (const w of p.ways ?? []) if (!w.open && w.why) return { why: w.why, fix: w.fix };
  return p.remark ? { why: p.remark, fix: null } : null;
}
