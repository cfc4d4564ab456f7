// Empty, waiting, trouble: what is missing, why, what to do.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ApiError } from "../lib/api";
import { Mark } from "./marks";

export function Empty({
  title,
  children,
  acts,
}: {
  title?: string;
  children: ComponentChildren;
  acts?: ComponentChildren;
}) {
  return (
    <div class="panel empty">
      {title && <h2>{title}</h2>}
      <p>{children}</p>
      {acts && <div class="acts">{acts}</div>}
    </div>
  );
}

/** Grey blocks in final size, and only when it takes a moment. */
export function Waiting({ rows = 3 }: { rows?: number }) {
  const [late, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), 200);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="panel wait" role="status" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <div class={late ? "" : "hid"}>
          <span class="sk" style={{ width: `${34 - i * 6}%` }} />
          <span class="sk lo" style={{ width: `${24 - i * 4}%` }} />
        </div>
      ))}
    </div>
  );
}

export function Trouble({ error, what, retry }: { error: ApiError; what: string; retry?: () => void }) {
  return (
    <section class="verdict" role="alert">
      <div class="vl">
        <Mark is="off" />
        <p class="say">
          {what} {error.message}
        </p>
        {retry && (
          <div class="next">
            <button type="button" class="btn" onClick={retry}>
              Try again
            </button>
          </div>
        )}
      </div>
    </section>
  );
}
