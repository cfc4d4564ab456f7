// Data of pages: loaded, loaded again, and told about failures without losing what was there.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, route } from "./api";

export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
  /** When the data came. */
  at: number;
  reload: () => void;
}

/** Asks once for each key, and then every so many ms while the page is seen (0 = never again). */
export function useLoad<T>(key: string, ask: () => Promise<T>, everyMs = 0): Loaded<T> {
  const [state, set] = useState<{ key: string; data: T | null; error: ApiError | null; at: number }>({
    key,
    data: null,
    error: null,
    at: 0,
  });
  const latest = useRef(ask),
    current = useRef(key);
  latest.current = ask;
  current.current = key;
  const reload = useCallback(() => {
    const mine = current.current;
    latest.current().then(
      (data) => mine === current.current && set({ key: mine, data, error: null, at: Date.now() }),
      (e: unknown) =>
        mine === current.current &&
        set((old) => ({
          ...old,
          key: mine,
          data: old.key === mine ? old.data : null,
          error: e instanceof ApiError ? e : new ApiError(0, String(e)),
        })),
    );
  }, []);
  useEffect(() => {
    reload();
    if (!everyMs) return;
    const timer = setInterval(() => document.hidden || reload(), everyMs);
    const seen = () => document.hidden || reload();
    document.addEventListener("visibilitychange", seen);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key, everyMs]);
  return state.key === key ? { ...state, reload } : { data: null, error: null, at: 0, reload };
}

/** Server-sent events of an address; comes back by itself. onOpen is told each time, so that what was missed is asked for. */
export function useEvents(url: string | null, on: Record<string, (data: unknown) => void>, onOpen?: () => void): void {
  const handlers = useRef(on),
    opened = useRef(onOpen);
  handlers.current = on;
  opened.current = onOpen;
  useEffect(() => {
    if (!url) return;
    const source = new EventSource(route(url));
    source.onopen = () => opened.current?.();
    for (const name of Object.keys(handlers.current)) {
      source.addEventListener(name, (e) => {
        try {
          handlers.current[name]?.(JSON.parse((e as MessageEvent<string>).data));
        } catch {
          // Half an event says nothing.
        }
      });
    }
    return () => source.close();
  }, [url]);
}
