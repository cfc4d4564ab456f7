// Which of very many rows are near the view, and where they stand: TanStack Virtual, brought into Preact.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useReducer, useState } from "preact/hooks";

export interface VirtualList {
  /** The first that is drawn, and the one after the last. */
  first: number;
  last: number;
  /** What stands in for the rows before and after these. */
  before: number;
  after: number;
  total: number;
  /** Scrolls as little as needed to show a row. */
  reveal: (index: number) => void;
}

/** sizeOf: the height of a row in pixels; another function when any height changed. head: what stays on top of the
    scrolled rows. */
export function useVirtual(
  scroller: RefObject<HTMLElement | null>,
  count: number,
  sizeOf: (index: number) => number,
  { head, height, beyond }: { head: number; height: number; beyond: number },
): VirtualList {
  const [, redraw] = useReducer((n: number, _: undefined) => n + 1, 0);
  // The library measures anew when this is another function.
  const getItemKey = useMemo(() => (index: number) => index, [sizeOf]);
  const options = {
    count,
    estimateSize: sizeOf,
    getItemKey,
    getScrollElement: () => scroller.current,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    overscan: beyond,
    scrollMargin: head,
    scrollPaddingStart: head,
    initialRect: { width: 0, height },
    onChange: () => redraw(undefined),
  };
  const [list] = useState(() => new Virtualizer<HTMLElement, Element>(options));
  list.setOptions(options);
  useLayoutEffect(() => list._didMount(), []);
  useLayoutEffect(() => list._willUpdate());
  const items = list.getVirtualItems(),
    total = list.getTotalSize(),
    first = items[0],
    last = items[items.length - 1];
  return {
    first: first?.index ?? 0,
    last: last ? last.index + 1 : 0,
    before: first ? first.start - head : 0,
    after: last ? total - (last.end - head) : 0,
    total,
    reveal: (index) => list.scrollToIndex(index, { align: "auto" }),
  };
}
