// Numbers as people read them, by the same rules as src/base/fmt.c: every view and the command line agree.
import type { Kind } from "./document";

function group(n: number): string {
  return Math.round(n)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function count(n: number): string {
  return group(n);
}

function threeDigits(x: number): string {
  const a = Math.abs(x);
  if (a >= 99.95 || a === 0) return x.toFixed(0);
  const places = a >= 9.995 ? 1 : a >= 0.9995 ? 1 : a >= 0.09995 ? 2 : a >= 0.009995 ? 3 : 4;
  return x.toFixed(places).replace(/\.?0+$/, "");
}

export function number(x: number): string {
  if (!Number.isFinite(x)) return "unknown";
  if (Math.abs(x) >= 999.5 && Math.abs(x) < 1e18) return (x < 0 ? "-" : "") + group(Math.abs(x));
  return threeDigits(x);
}

export function bytes(n: number): string {
  if (n < 1024) return `${Math.round(n)} byte${Math.round(n) === 1 ? "" : "s"}`;
  const units = ["KB", "MB", "GB", "TB", "PB", "EB"];
  let x = n / 1024,
    unit = 0;
  while (x >= 999.5 && unit + 1 < units.length) {
    x /= 1024;
    unit++;
  }
  return `${threeDigits(x)} ${units[unit]}`;
}

export function durationNs(ns: number): string {
  if (ns < 1000) return `${threeDigits(ns)} ns`;
  if (ns < 999500) return `${threeDigits(ns / 1e3)} µs`;
  if (ns < 999500000) return `${threeDigits(ns / 1e6)} ms`;
  const s = ns / 1e9;
  if (s < 59.95) return `${threeDigits(s)} s`;
  const whole = Math.floor(s + 0.5);
  if (whole < 3600) return whole % 60 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${whole / 60} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole / 3600) % 24} h`;
}

export function percent(ratio: number): string {
  const p = ratio * 100;
  if (!Number.isFinite(p)) return "unknown";
  if (p > 0 && p < 0.01) return "below 0.01 %";
  // Never rounded up to all of it.
  if (p > 99.5 && p < 100) return `${threeDigits(Math.floor(p * 10) / 10)} %`;
  if (p >= 9.95) return `${p.toFixed(0)} %`;
  return `${threeDigits(p)} %`;
}

export function rate(perSecond: number): string {
  const slow = perSecond > 0 && perSecond < 0.1;
  return slow ? `${number(perSecond * 60)} per min` : `${number(perSecond)}/s`;
}

export function plural(n: number, one: string, many: string): string {
  return `${group(n)} ${n === 1 ? one : many}`;
}

/** A number of a kind; times are given without their date when they are of the same day as `day` (unix ns). */
export function value(kind: Kind, x: number, dayNs = 0): string {
  if (kind === "time") return timeNs(x, dayNs);
  const a = Math.abs(x);
  let text: string;
  switch (kind) {
    case "count":
      text = count(a);
      break;
    case "bytes":
      text = bytes(a);
      break;
    case "ns":
      text = durationNs(a);
      break;
    case "ratio":
      text = percent(a);
      break;
    case "rate":
      text = rate(a);
      break;
    default:
      text = number(a);
  }
  // "-0" says less than "0".
  return x < 0 && /[1-9]/.test(text) ? `-${text}` : text;
}

function timeNs(ns: number, dayNs: number): string {
  const iso = isoOf(Math.round(ns / 1e6)),
    day = dayNs ? isoOf(Math.round(dayNs / 1e6)) : "";
  if (!iso) return "unknown time";
  if (day && ns > 0 && iso.slice(0, 11) === day.slice(0, 11)) return iso.slice(11);
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)}Z`;
}

function isoOf(ms: number): string {
  const d = new Date(ms);
  return Number.isNaN(d.getTime()) ? "" : d.toISOString();
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** "15 Nov 2026, 03:12:09 UTC" */
export function dateUtc(ms: number): string {
  const iso = isoOf(ms);
  if (!iso) return "unknown time";
  return `${Number(iso.slice(8, 10))} ${MONTHS[Number(iso.slice(5, 7)) - 1]} ${iso.slice(0, 4)}, ${iso.slice(11, 19)} UTC`;
}

/** "03:12 UTC" of a time within a day of that one, else the date too. */
export function timeUtc(ms: number, nearMs: number): string {
  const iso = isoOf(ms);
  return iso && Math.abs(ms - nearMs) < 86400e3 ? `${iso.slice(11, 16)} UTC` : dateUtc(ms);
}

/** "03:12:09" of the reader's own clock, for axes of live charts. */
export function clock(ms: number, seconds = true): string {
  const d = new Date(ms),
    two = (n: number) => String(n).padStart(2, "0");
  return `${two(d.getHours())}:${two(d.getMinutes())}${seconds ? `:${two(d.getSeconds())}` : ""}`;
}

/** "4 min ago" */
export function ago(thenMs: number, nowMs: number): string {
  const s = Math.max(0, (nowMs - thenMs) / 1000);
  if (s < 5) return "just now";
  if (s < 60) return `${Math.floor(s)} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ago`;
  if (s < 2 * 86400) return "yesterday";
  if (s < 30 * 86400) return `${Math.floor(s / 86400)} days ago`;
  return dateUtc(thenMs).split(",")[0]!;
}

/** "0:31", "1:02:03" */
export function elapsed(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000)),
    two = (n: number) => String(n).padStart(2, "0");
  return s < 3600
    ? `${Math.floor(s / 60)}:${two(s % 60)}`
    : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

/** The number and the unit apart, so that the unit can be smaller: "402 MB" -> ["402", " MB"]. */
export function splitUnit(text: string): [string, string] {
  const m = /^(-?\d[\d,.]*)([ /].*)$/.exec(text);
  return m ? [m[1]!, m[2]!] : [text, ""];
}

/** Control characters and marks that steer the direction of text or cannot be seen, as \u{..}. */
export function visible(s: string): string {
  return s.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}
