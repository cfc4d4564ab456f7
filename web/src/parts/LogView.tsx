import { useLayoutEffect, useRef } from "preact/hooks";
import { visible } from "../lib/format";

export interface LogEntry {
  time: string;
  text: string;
  loud?: boolean;
}

/** "03:16:02.201" of an ISO time, in UTC as in the files. */
function short(time: string): string {
  return /T(\d\d:\d\d:\d\d(\.\d{1,3})?)/.exec(time)?.[1] ?? time;
}

export function LogView({ lines, label, empty }: { lines: LogEntry[]; label: string; empty: string }) {
  const box = useRef<HTMLDivElement>(null),
    follow = useRef(true);
  useLayoutEffect(() => {
    if (follow.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines.length]);
  return (
    <div
      class="log"
      role="log"
      tabIndex={0}
      aria-label={label}
      ref={box}
      onScroll={(e) => {
        const b = e.currentTarget;
        follow.current = b.scrollTop + b.clientHeight > b.scrollHeight - 24;
      }}
    >
      {lines.map((l, i) => (
        <div class={l.loud || i === lines.length - 1 ? "new" : ""}>
          <time dateTime={l.time}>{short(l.time)}</time>
          <span>{visible(l.text)}</span>
        </div>
      ))}
      {!lines.length && empty && <p class="dim">{empty}</p>}
    </div>
  );
}
