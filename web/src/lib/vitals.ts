// Live values of all patients. One store for the whole program, so that leaving the list and coming back keeps the lines.
import { useEffect, useState } from "preact/hooks";
import { api, type ApiError, type Process, type Vitals } from "./api";
import { newVital, push, type Vital } from "./history";

const vitals = new Map<number, Vital>();
let since = 0;

export function vitalOf(id: number): Vital {
  let v = vitals.get(id);
  if (!v) {
    v = newVital();
    vitals.set(id, v);
  }
  return v;
}

/** Takes in what is new; processes that are gone are forgotten. */
export function note(answer: Vitals): void {
  const at = (name: string) => answer.columns.indexOf(name) + 1;
  const cpu = at("cpuPercent"),
    rss = at("rssBytes"),
    heap = at("gcHeapBytes"),
    thrown = at("exceptionsPerSecond");
  const seen = new Set(answer.processes.map((p) => p.id));
  for (const id of vitals.keys()) if (!seen.has(id)) vitals.delete(id);
  for (const p of answer.processes) {
    const v = vitalOf(p.id);
    v.judged = p.condition;
    for (const point of p.points) {
      const t = point[0] ?? 0,
        cores = point[cpu];
      push(v.cpu, t, cores == null ? null : cores / 100);
      push(v.rss, t, point[rss]);
      push(v.heap, t, point[heap]);
      push(v.exceptions, t, point[thrown]);
      since = Math.max(since, t);
    }
  }
}

const EVERY_MS = 2000;
let asked = 0;

/** What is new of all patients; never fails, and not more often than there is something new. */
export async function refreshVitals(): Promise<void> {
  if (Date.now() - asked < EVERY_MS * 0.9) return;
  asked = Date.now();
  await api.vitals(since).then(note, () => undefined);
}

export function usePatients(): { list: Process[] | null; error: ApiError | null; reload: () => void } {
  const [state, set] = useState<{ list: Process[] | null; error: ApiError | null }>({ list: null, error: null });
  const [turn, again] = useState(0);
  useEffect(() => {
    let over = false,
      timer = 0;
    const ask = async () => {
      if (!document.hidden) {
        try {
          const [list] = await Promise.all([api.processes(), refreshVitals()]);
          if (!over) set({ list, error: null });
        } catch (e) {
          if (!over) set((old) => ({ ...old, error: e as ApiError }));
        }
      }
      if (!over) timer = window.setTimeout(ask, EVERY_MS);
    };
    void ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [turn]);
  return { ...state, reload: () => again((n) => n + 1) };
}
