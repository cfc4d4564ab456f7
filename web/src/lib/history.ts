// Short history of the patients, kept by the page itself.
import type { Judged, Process, Session } from "./api";
import { visible } from "./format";

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
  /** What the server's rules say of it; null = not yet. */
  judged: Judged | null;
}

export function newVital(): Vital {
  const none = (): Series => ({ t: [], v: [] });
  return { cpu: none(), rss: none(), heap: none(), exceptions: none(), judged: null };
}

export interface Condition {
  is: "ok" | "warn" | "bad" | "off";
  why: string;
  where?: "cpu" | "rss" | "heap" | "exceptions";
  profiler?: string;
  /** The session that found it; none when it is from the vital signs. */
  session?: string;
  /** When it did. */
  seenMs?: number;
}

const SERIOUS = 75;
/** The list of processes is some seconds old when it is drawn. */
const UPTIME_IS_OLD_MS = 10000;

/** The figure of the row that a finding is about. */
function columnOf(finding: string): Condition["where"] {
  if (finding.startsWith("exceptions")) return "exceptions";
  if (finding.startsWith("cpu-")) return "cpu";
  if (finding.startsWith("gc-")) return "heap";
  return /^(memory|native)-/.test(finding) ? "rss" : undefined;
}

/** What the newest examination of each kind found of the process as it runs now, the worst; a diagnosis says more than all
 * before it, and is told also when it found nothing. */
export function findingOf(p: Process, sessions: Session[], now: number): Session | null {
  const from = p.uptimeSeconds == null ? now : now - p.uptimeSeconds * 1000 - UPTIME_IS_OLD_MS;
  const seen = new Set<string>(),
    newest: Session[] = [];
  const all = sessions.filter((s) => s.processId === p.id && s.state === "done" && s.createdMs >= from);
  for (const s of all.sort((a, b) => b.finishedMs - a.finishedMs)) {
    if (seen.has("diagnose")) break;
    if (!seen.has(s.profiler.id)) newest.push(s);
    seen.add(s.profiler.id);
  }
  const healthy = newest.find((s) => s.profiler.id === "diagnose" && s.health === "ok");
  return newest.find((s) => s.health === "bad") ?? newest.find((s) => s.health === "warn") ?? healthy ?? null;
}

/** "One sentence." of many. */
function firstSentence(text: string): string {
  return text.split(/(?<=[.!?]) /, 1)[0]!;
}

/** What an examination found, else the fact worth a look in the words of the server's rules; colour goes where it is. */
export function conditionOf(p: Process, judged: Judged | null, found: Session | null = null): Condition {
  if (!canBeExamined(p)) return { is: "off", why: "Cannot be examined" };
  if (found?.health === "bad" || found?.health === "warn")
    return {
      is: found.health,
      why: visible(firstSentence(found.verdict ?? "")),
      profiler: found.profiler.id,
      session: found.guid,
      seenMs: found.finishedMs,
    };
  if (!judged) return { is: "off", why: "Being looked at" };
  if (!judged.finding || !judged.text)
    return found
      ? { is: "ok", why: "Healthy", session: found.guid, seenMs: found.finishedMs }
      : { is: "ok", why: "Nothing unusual" };
  return {
    is: judged.severity >= SERIOUS ? "bad" : "warn",
    why: visible(judged.text),
    where: columnOf(judged.finding),
    profiler: judged.profiler ?? "diagnose",
  };
}

/** The profiler that looks at what is wrong; "" when nothing can be seen to be. */
export function profilerFor(c: Condition): string {
  return c.profiler ?? "";
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
