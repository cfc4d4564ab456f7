import { useEffect, useRef, useState } from "preact/hooks";

/** Whether the page is at most so wide. */
export function useNarrow(px: number): boolean {
  const [narrow, set] = useState(() => matchMedia(`(max-width:${px}px)`).matches);
  useEffect(() => {
    const m = matchMedia(`(max-width:${px}px)`),
      update = () => set(m.matches);
    update();
    m.addEventListener("change", update);
    return () => m.removeEventListener("change", update);
  }, [px]);
  return narrow;
}

/** The width of an element, whenever it changes. */
export function useWidth<T extends HTMLElement>(): [preact.RefObject<T | null>, number] {
  const ref = useRef<T>(null),
    [width, set] = useState(0);
  useEffect(() => {
    const box = ref.current;
    if (!box) return;
    const observer = new ResizeObserver(() => set(box.clientWidth));
    observer.observe(box);
    set(box.clientWidth);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** The time, again and again while the page is seen. */
export function useNow(everyMs: number): number {
  const [now, set] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || set(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** Counts up whenever colours change: by the system or by hand. */
export function useColours(): number {
  const [version, set] = useState(0);
  useEffect(() => {
    const bump = () => set((n) => n + 1),
      m = matchMedia("(prefers-color-scheme: dark)");
    m.addEventListener("change", bump);
    const observer = new MutationObserver(bump);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      m.removeEventListener("change", bump);
      observer.disconnect();
    };
  }, []);
  return version;
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${title} · drdotnet` : "drdotnet";
  }, [title]);
}
