// Tables and trees. Rows outside the view are not in the document, so that a hundred thousand of them scroll as well as
// ten. A row has one height; what opens under it is measured once it is there.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import {
  cellKind,
  cellNumber,
  cellValue,
  isTextKind,
  type Cell,
  type Column,
  type Row,
  type TableBlock,
} from "../lib/document";
import { count, plural, visible } from "../lib/format";
import { useQuery } from "../lib/router";
import {
  barWhole,
  haystack,
  heaviestPath,
  mainColumn,
  nameColumn,
  treeEnds,
  treeFiltered,
  treeVisible,
} from "../lib/rows";
import { Bar, Name, Value, valueText } from "./pieces";
import { useOrder } from "./order";
import { useNarrow } from "../lib/hooks";
import { useVirtual } from "./virtual";

const ROW = 34,
  TREE_ROW = 28,
  NARROW_ROW = 62,
  NARROW_TREE_ROW = 32,
  MAX_HEIGHT = 680,
  BEYOND = 8,
  HEAD = 33,
  OPENED = 60;

/** Numbers get what their longest text needs; only names stretch. */
function template(block: TableBlock, name: number): string {
  const sample = block.rows.length > 400 ? block.rows.slice(0, 400) : block.rows;
  return block.columns
    .map((c, i) => {
      if (i === name) return "minmax(0,1fr)";
      let most = c.name.length * 0.92 + 2.6;
      for (const r of sample) {
        const cell = r.cells[i] ?? null;
        most = Math.max(most, valueText(cellKind(cell, c.kind), cellValue(cell)).length);
      }
      if (isTextKind(c.kind)) return `minmax(60px,${Math.min(0.9, Math.max(0.12, most / 60)).toFixed(2)}fr)`;
      return `${Math.round(Math.min(Math.max(most, 6), 24) * 7.1 + (c.bar ? 128 : 0))}px`;
    })
    .join(" ");
}

interface Drawn {
  cells: Cell[];
  columns: Column[];
  name: number;
  main: number;
  wholes: number[];
  dayNs: number;
  rest?: boolean;
  role: "cell" | "gridcell";
  lead?: preact.ComponentChildren;
  depth?: number;
}

function Cells({ cells, columns, name, main, wholes, dayNs, rest, role, lead, depth }: Drawn) {
  const barColumn = columns.findIndex((c) => c.bar && !isTextKind(c.kind));
  return (
    <>
      {columns.map((c, i) => {
        const cell = cells[i] ?? null,
          v = cellValue(cell),
          kind = cellKind(cell, c.kind),
          text = isTextKind(c.kind);
        const cls = i === name ? "c-name" : `${text ? "c-text" : "c-num"} ${i === main ? "c-main" : "c-opt"}`;
        const shown = rest && v === null ? null : <Value kind={kind} signed={c.signed} v={v} dayNs={dayNs} />;
        if (i === name) {
          return (
            <div role={role} class={cls} style={depth ? { "--d": Math.min(depth, 24) } : undefined}>
              {lead}
              {kind === "code" && v !== null ? (
                shown
              ) : (
                <span class="plain" title={typeof v === "string" ? visible(v) : undefined}>
                  {shown}
                </span>
              )}
            </div>
          );
        }
        return (
          <div role={role} class={cls}>
            {text && kind !== "code" ? (
              <span class="plain" title={typeof v === "string" ? visible(v) : undefined}>
                {shown}
              </span>
            ) : (
              <span class="v">{shown}</span>
            )}
            {!c.bar && i === main && barColumn >= 0 && !rest && (
              <span class="only-narrow">
                <Bar share={wholes[barColumn]! > 0 ? cellNumber(cells[barColumn] ?? null) / wholes[barColumn]! : 0} />
              </span>
            )}
            {!text &&
              c.bar &&
              (rest ? <i class="bar none" /> : <Bar share={wholes[i]! > 0 ? cellNumber(cell) / wholes[i]! : 0} />)}
          </div>
        );
      })}
    </>
  );
}

function Opened({
  row,
  columns,
  name,
  main,
  dayNs,
  narrow,
  onHeight,
}: {
  row: Row;
  columns: Column[];
  name: number;
  main: number;
  dayNs: number;
  narrow: boolean;
  onHeight: (px: number) => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => onHeight(box.current!.offsetHeight));
  return (
    <div role="row" class="detail" ref={box}>
      <div role="gridcell" aria-colspan={columns.length}>
        {narrow && (
          <dl class="rest-cols">
            {columns.map(
              (c, i) =>
                i !== name &&
                i !== main && (
                  <div>
                    <dt>{c.name}</dt>
                    <dd>
                      <Value
                        kind={cellKind(row.cells[i] ?? null, c.kind)}
                        signed={c.signed}
                        v={cellValue(row.cells[i] ?? null)}
                        dayNs={dayNs}
                      />
                    </dd>
                  </div>
                ),
            )}
          </dl>
        )}
        {row.lines && (
          <ol class="lines">
            {row.lines.map((l) => (
              <li>
                {l.kind === "code" ? <Name text={l.text} /> : <span>{visible(l.text)}</span>}
                {l.right && <span class="right">{visible(l.right)}</span>}
              </li>
            ))}
            {row.linesCut ? <li class="none">{plural(row.linesCut, "more line", "more lines")} not kept</li> : null}
          </ol>
        )}
      </div>
    </div>
  );
}

export function Rows({
  block,
  id,
  dayNs = 0,
  heading = true,
}: {
  block: TableBlock;
  id: string;
  dayNs?: number;
  heading?: boolean;
}) {
  const { columns, rows } = block,
    tree = block.block === "tree",
    narrow = useNarrow(860);
  const name = nameColumn(columns),
    main = mainColumn(columns);
  const [sort, setSort] = useQuery(`${id}.sort`),
    [term, setTerm] = useQuery(`${id}.find`);
  const given = columns.findIndex((c) => c.main && !isTextKind(c.kind));
  const [by, way] = sort ? sort.split(".") : [String(given), "down"];
  const column = sort && columns[Number(by)] ? Number(by) : given,
    down = way !== "up";

  const ends = useMemo(() => (tree ? treeEnds(rows) : new Int32Array()), [block]);
  const hay = useMemo(() => (tree ? haystack(rows) : []), [block]);
  const [open, setOpen] = useState<Set<number>>(() =>
    tree ? heaviestPath(rows, ends) : rows[0]?.lines && !narrow ? new Set([0]) : new Set(),
  );
  const flat = useOrder(block, tree || (!sort && given < 0) ? -1 : sort ? column : -1, down, tree ? "" : term);
  const order = useMemo(
    () => (tree ? (term.trim() ? treeFiltered(rows, hay, term) : treeVisible(rows, ends, open)) : flat),
    [block, flat, open, term],
  );

  const rowHeight = tree ? (narrow ? NARROW_TREE_ROW : TREE_ROW) : narrow ? NARROW_ROW : ROW;
  const heights = useRef(new Map<number, number>()),
    [version, bump] = useState(0);
  const sizeOf = useMemo(
    () => (i: number) => rowHeight + (!tree && open.has(order[i]!) ? (heights.current.get(order[i]!) ?? OPENED) : 0),
    [order, open, rowHeight, version],
  );
  const scroller = useRef<HTMLDivElement>(null),
    [focus, setFocus] = useState(0),
    // The row that shall have the focus once it is in the document, or -1.
    wanted = useRef(-1);
  const list = useVirtual(scroller, order.length, sizeOf, { head: HEAD, height: MAX_HEIGHT + HEAD, beyond: BEYOND });
  const tall = list.total > MAX_HEIGHT + rowHeight,
    first = tall ? list.first : 0,
    last = tall ? list.last : order.length;
  const wholes = useMemo(() => columns.map((c, i) => (c.bar ? barWhole(rows, i, columns) : 0)), [block]);
  const cols = useMemo(() => template(block, name), [block]),
    hasLead = useMemo(() => tree || rows.some((r) => r.lines), [block]);

  function toggle(row: number) {
    const next = new Set(open);
    if (!next.delete(row)) next.add(row);
    setOpen(next);
  }
  function canOpen(row: number): boolean {
    if (tree) return ends[row]! > row + 1;
    return !!rows[row]!.lines || (narrow && columns.length > 2);
  }
  function onKey(e: KeyboardEvent) {
    if (!(e.target as Element).matches("[role=row]")) return;
    const row = order[focus]!,
      page = Math.floor(MAX_HEIGHT / rowHeight) - 1;
    let to = focus;
    if (e.key === "ArrowDown") to++;
    else if (e.key === "ArrowUp") to--;
    else if (e.key === "PageDown") to += page;
    else if (e.key === "PageUp") to -= page;
    else if (e.key === "Home") to = 0;
    else if (e.key === "End") to = order.length - 1;
    else if (e.key === "ArrowRight" && canOpen(row)) open.has(row) ? to++ : toggle(row);
    else if (e.key === "ArrowLeft" && open.has(row)) toggle(row);
    else if (e.key === "ArrowLeft" && tree)
      while (to > 0 && (rows[order[to]!]!.depth ?? 0) >= (rows[row]!.depth ?? 0)) to--;
    else if (e.key === "Enter" && canOpen(row)) toggle(row);
    else return;
    e.preventDefault();
    to = Math.min(Math.max(to, 0), order.length - 1);
    if (to !== focus) wanted.current = to;
    setFocus(to);
    if (tall && to !== focus) list.reveal(to);
  }
  useEffect(() => {
    if (wanted.current < 0) return;
    const row = scroller.current!.querySelector<HTMLElement>(`[data-at="${wanted.current}"]`);
    if (row) {
      wanted.current = -1;
      row.focus({ preventScroll: tall });
    }
  });

  // Rows that open need the role of a tree's rows.
  const opens = hasLead || (narrow && columns.length > 2),
    cellRole = opens ? ("gridcell" as const) : ("cell" as const),
    drawn = { columns, name, main, wholes, dayNs, role: cellRole };
  const grid = {
    role: opens ? "treegrid" : "table",
    "aria-label": block.title,
    "aria-rowcount": order.length + 1,
  } as const;
  const tabAt = focus >= first && focus < last ? focus : first;
  // Elements are used again by rows that come into view: a jump through a long table makes none anew.
  const slots = Math.ceil((MAX_HEIGHT + HEAD) / rowHeight) + 2 * BEYOND + 4;
  const shown: preact.ComponentChildren[] = [];
  for (let i = first; i < last; i++) {
    const row = order[i]!,
      r = rows[row]!,
      openable = canOpen(row),
      isOpen = open.has(row);
    const twist = openable && (tree || r.lines);
    shown.push(
      <div
        role="row"
        class={`r${openable ? " can" : ""}${isOpen ? " open" : ""}`}
        key={tall ? i % slots : row}
        data-at={i}
        tabIndex={i === tabAt ? 0 : -1}
        aria-rowindex={i + 2}
        aria-expanded={openable ? isOpen : undefined}
        aria-level={tree ? (r.depth ?? 0) + 1 : undefined}
        onClick={() => {
          setFocus(i);
          if (openable && !getSelection()?.toString()) toggle(row);
        }}
        onFocus={() => focus !== i && setFocus(i)}
      >
        <Cells
          {...drawn}
          cells={r.cells}
          depth={tree ? r.depth : 0}
          lead={hasLead ? <span class={twist ? "tw" : "tw no"} aria-hidden="true" /> : undefined}
        />
      </div>,
    );
    if (!tree && isOpen && openable)
      shown.push(
        <Opened
          key={`o${row}`}
          row={r}
          {...{ columns, name, main, dayNs, narrow }}
          onHeight={(px) => {
            if (heights.current.get(row) !== px) {
              heights.current.set(row, px);
              bump((n) => n + 1);
            }
          }}
        />,
      );
  }

  const filterable = rows.length > 8;
  return (
    <section class="panel rows-panel">
      {heading && (
        <div class="ph">
          <h2>{visible(block.title)}</h2>
          <span class="dim" role="status">
            {term
              ? `${count(order.length)} of ${plural(rows.length, "row", "rows")}`
              : rows.length > 8
                ? plural(rows.length, "row", "rows")
                : ""}
          </span>
          {(filterable || (tree && branches(ends) > 0)) && (
            <div class="end">
              {tree && branches(ends) > heaviestPath(rows, ends).size && (
                <button
                  type="button"
                  class="btn sm quiet"
                  onClick={() => setOpen(open.size >= branches(ends) ? heaviestPath(rows, ends) : new Set(rows.keys()))}
                >
                  {open.size >= branches(ends) ? "Close" : "Open all"}
                </button>
              )}
              {filterable && (
                <input
                  class="field sm"
                  type="search"
                  placeholder="Filter"
                  aria-label={`Filter ${block.title}`}
                  value={term}
                  onInput={(e) => setTerm(e.currentTarget.value)}
                />
              )}
            </div>
          )}
        </div>
      )}
      {!rows.length || !columns.length ? (
        <p class="nothing">None.</p>
      ) : (
        <div class={`scroll${tall ? " tall" : ""}`} ref={scroller} onKeyDown={onKey}>
          <div {...grid} class={tree ? "rows tree" : "rows"} style={{ "--cols": cols }}>
            <div role="rowgroup" class="rhead">
              <div role="row" aria-rowindex={1}>
                {columns.map((c, i) => (
                  <div
                    role="columnheader"
                    class={
                      i === name
                        ? "c-name"
                        : `${isTextKind(c.kind) ? "c-text" : "c-num"} ${i === main ? "c-main" : "c-opt"}`
                    }
                    aria-sort={!tree && i === column ? (down ? "descending" : "ascending") : undefined}
                  >
                    {tree ? (
                      <span>{c.name}</span>
                    ) : (
                      <button
                        type="button"
                        onClick={() =>
                          setSort(`${i}.${i === column ? (down ? "up" : "down") : isTextKind(c.kind) ? "up" : "down"}`)
                        }
                      >
                        {c.name}
                        {i === column && (
                          <svg width="9" height="9" viewBox="0 0 9 9" fill="currentColor" aria-hidden="true">
                            <path d={down ? "M1 3h7L4.5 7z" : "M1 6h7L4.5 2z"} />
                          </svg>
                        )}
                      </button>
                    )}
                    {c.bar && !isTextKind(c.kind) && <i class="bar none" />}
                  </div>
                ))}
              </div>
            </div>
            <div
              role="rowgroup"
              style={tall ? { paddingTop: `${list.before}px`, paddingBottom: `${list.after}px` } : undefined}
            >
              {shown}
              {!order.length && (
                <div role="row" class="r">
                  <div role={cellRole} class="c-name">
                    <span class="plain">No row matches "{term}".</span>
                  </div>
                </div>
              )}
              {block.rest && last === order.length && !term && (
                <div role="row" class="r rest" aria-rowindex={order.length + 2}>
                  <Cells
                    {...drawn}
                    cells={block.rest}
                    rest
                    lead={hasLead ? <span class="tw no" aria-hidden="true" /> : undefined}
                  />
                </div>
              )}
            </div>
          </div>
        </div>
      )}
      {block.rowsCut > 0 && (
        <p class="pfoot">{plural(block.rowsCut, "more row was", "more rows were")} not kept in this report.</p>
      )}
    </section>
  );
}

function branches(ends: Int32Array): number {
  let n = 0;
  for (const [i, end] of ends.entries()) n += Number(end > i + 1);
  return n;
}
