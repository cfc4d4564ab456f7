// What the registry of profilers means for people: effects, and forms that check in place.
import type { Process, Profiler, ProfilerParameter } from "./api";
import { durationNs } from "./format";

export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** In the order of the registry, by what they are about. */
export function chapters(all: Profiler[]): [string, Profiler[]][] {
  const found = new Map<string, Profiler[]>();
  for (const p of all) found.set(p.chapter, [...(found.get(p.chapter) ?? []), p]);
  return [...found];
}

/** The first of every chapter, then the second: a few of them show everything that can be wrong. */
export function varied(all: Profiler[]): Profiler[] {
  const lists = chapters(all).map(([, list]) => list),
    longest = Math.max(0, ...lists.map((l) => l.length));
  return Array.from({ length: longest }, (_, i) => lists.map((l) => l[i]))
    .flat()
    .filter((p) => p !== undefined);
}

/** The first way of the profiler that this process has open; null when none is. */
export function wayFor(p: Profiler, process: Process | null): string | null {
  for (const way of p.ways ?? []) {
    const known = process?.ways?.find((w) => w.way === way);
    if (!known || known.open) return way;
  }
  return (p.ways ?? []).length ? null : "events";
}

/** Parameters of those that go another way and take a look into memory all the same, unless told not to. */
const UNLESS = ["no_look", "gentle"];

/** Does it hold the process still for a moment? */
export function stops(p: Profiler, way = p.ways?.[0]): boolean {
  return way === "image" || way === "agent" || p.parameters.some((x) => UNLESS.includes(x.key));
}

/** "about 2.4 ms", as long as a copy of its memory takes; null when that is not known. */
export function pauseWords(process: Process | null): string | null {
  const ms = process?.ways?.find((w) => w.way === "image")?.pauseMs;
  return ms == null ? null : `about ${durationNs(ms * 1e6)}`;
}

export function effect(p: Profiler, process: Process | null): string {
  const way = wayFor(p, process),
    ms = process?.ways?.find((w) => w.way === "image")?.pauseMs;
  if (way && stops(p, way)) return `pauses ${ms == null ? "for a moment" : `~${durationNs(ms * 1e6)}`}`;
  return p.effect;
}

/** How long a run takes, by its parameters. */
export function takes(p: Profiler, values: Record<string, string> = {}): string {
  const d = p.parameters.find((x) => x.key === p.durationKey);
  return d ? `${values[d.key] ?? d.value} ${d.unit}` : "seconds";
}

function rangeWords(p: ProfilerParameter): string {
  const unit = p.unit ? ` ${p.unit}` : "";
  if (p.min == null || p.max == null) return "";
  return `${p.min}${unit} to ${p.max}${unit}`;
}

/** What is wrong with a value, in words that say what would be right; null when nothing is. */
export function check(p: ProfilerParameter, value: string): string | null {
  const text = value.trim();
  if (p.type === 2 || p.type === 3) {
    const plain = p.unit && text.endsWith(p.unit) ? text.slice(0, -p.unit.length).trim() : text,
      n = Number(plain);
    if (!plain || Number.isNaN(n) || !/^[-+]?[\d.]+(e[-+]?\d+)?$/i.test(plain))
      return `Not a number. Use ${rangeWords(p) || "digits"}.`;
    if (p.type === 2 && !Number.isInteger(n)) return `Whole numbers only. Use ${rangeWords(p) || "digits"}.`;
    if (p.max != null && n > p.max) return `At most ${p.max}${p.unit ? ` ${p.unit}` : ""}. Use ${rangeWords(p)}.`;
    if (p.min != null && n < p.min) return `At least ${p.min}${p.unit ? ` ${p.unit}` : ""}. Use ${rangeWords(p)}.`;
  }
  if (p.type === 4 && !/^(true|false)$/.test(text)) return "Yes or no.";
  if (p.type === 1 && p.choices.length && !p.choices.includes(text)) return `One of ${p.choices.join(", ")}.`;
  if (p.maxBytes != null && new TextEncoder().encode(value).length > p.maxBytes) return `At most ${p.maxBytes} bytes.`;
  return null;
}

/** As the server wants it: without the unit somebody typed. */
export function clean(p: ProfilerParameter, value: string): string {
  const text = value.trim();
  return (p.type === 2 || p.type === 3) && p.unit && text.endsWith(p.unit)
    ? text.slice(0, -p.unit.length).trim()
    : text;
}

export function hint(p: ProfilerParameter): string {
  const value = p.defaultValue ?? p.value,
    unit = p.unit ? ` ${p.unit}` : "",
    words = [rangeWords(p), value && `default ${value}${unit}`].filter(Boolean).join(", ");
  return words && `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}
