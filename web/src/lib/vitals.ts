// Live values of all patients, from the list and, where counters are open, from them. One store for the whole program, so
// that leaving the list and coming back keeps the lines.
import { useEffect, useState } from "preact/hooks";
import { api, ApiError, type Process } from "./api";
import { newVital, push, type Vital } from "./history";

const vitals = new Map<number, Vital>();

export function vitalOf(id: number): Vital {
  let v = vitals.get(id);
  if (!v) vitals.set(id, (v = newVital()));
  return v;
}

export function note(processes: Process[], at: number): void {
  const seen = new Set(processes.map((p) => p.id));
  for (const id of vitals.keys()) if (!seen.has(id)) vitals.delete(id);
  for (const p of processes) {
    const v = vitalOf(p.id);
    push(v.cpu, at, p.cpuPercent == null || p.cpuWindowMs === null ? null : p.cpuPercent / 100);
    push(v.rss, at, p.rssBytes);
    push(v.heap, at, p.gcHeapBytes);
    push(v.exceptions, at, p.exceptionsPerSecond);
  }
}

const EVERY_MS = 2000;

export function usePatients(): { list: Process[] | null; error: ApiError | null; reload: () => void; at: number } {
  const [state, set] = useState<{ list: Process[] | null; error: ApiError | null; at: number }>({ list: null, error: null, at: 0 });
  const [turn, again] = useState(0);
  useEffect(() => {
    let over = false, timer = 0;
    const ask = async () => {
      if (!document.hidden) {
        try {
          const list = await api.processes(), at = Date.now();
          note(list, at);
          if (!over) set({ list, error: null, at });
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
