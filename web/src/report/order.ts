import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TableBlock } from "../lib/document";
import type { Answer, Ask } from "../lib/order.worker";
import { filtered, haystack, keysOf, sorted } from "../lib/rows";

/** Above this a sort could cost a frame. */
const BESIDE = 3000;

/** Indices of the rows in order; long tables are sorted beside the page and keep the old order until it is done. */
export function useOrder(block: TableBlock, column: number, down: boolean, term: string): Uint32Array {
  const long = block.rows.length > BESIDE;
  const hay = useMemo(() => (long ? [] : haystack(block.rows)), [block]);
  const short = useMemo(() => {
    if (long) return null;
    const order =
      column < 0 ? Uint32Array.from(block.rows.keys()) : sorted(keysOf(block.rows, column, block.columns), down);
    return filtered(order, hay, term);
  }, [block, column, down, term]);
  const [beside, setBeside] = useState<Uint32Array>(() => Uint32Array.from(block.rows.keys()));
  const worker = useRef<Worker | null>(null),
    last = useRef(0);
  useEffect(() => {
    if (!long) return;
    const w = new Worker(new URL("../lib/order.worker.ts", import.meta.url), { type: "module" });
    worker.current = w;
    w.onmessage = (e: MessageEvent<Answer>) => e.data.id === last.current && setBeside(e.data.order);
    w.postMessage({
      load: { keys: block.columns.map((_, i) => keysOf(block.rows, i, block.columns)), hay: haystack(block.rows) },
    } satisfies Ask);
    return () => w.terminate();
  }, [block]);
  useEffect(() => {
    if (long) worker.current?.postMessage({ id: ++last.current, column, down, term } satisfies Ask);
  }, [block, column, down, term]);
  return short ?? beside;
}
