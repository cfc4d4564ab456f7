// Charts and histograms of a report, each with its numbers as a table behind it.
import uPlot from "uplot";
import { useMemo, useState } from "preact/hooks";
import { Plot } from "../parts/Plot";
import type { ChartBlock, HistogramBlock, TableBlock } from "../lib/document";
import { count, durationNs, plural, value, visible } from "../lib/format";
import { Bar } from "./pieces";
import { Rows } from "./Rows";

const INKS = ["--data", "--k-code", "--k-gc", "--k-nat", "--k-fw", "--k-jit", "--k-ker"];

function asTable(block: ChartBlock): TableBlock {
  const rows: TableBlock["rows"] = [];
  for (const b of block.bars) rows.push({ cells: [b.x, b.y, b.label ?? ""] });
  for (const l of block.lines) for (const [x, y] of l.points) rows.push({ cells: [x, y, l.name ?? ""] });
  const named = rows.some((r) => r.cells[2] !== "");
  const columns: TableBlock["columns"] = [
    { name: "After", kind: "ns", bar: false, main: false },
    { name: "Value", kind: block.kind, bar: true, main: false },
    { name: "What", kind: "text", bar: false, main: false },
  ];
  return {
    block: "table",
    title: block.title,
    columns: named ? columns : columns.slice(0, 2),
    rows,
    rowsCut: block.barsCut,
  };
}

function Numbers({ block, id }: { block: ChartBlock; id: string }) {
  const [open, setOpen] = useState(false),
    table = useMemo(() => (open ? asTable(block) : null), [block, open]);
  return (
    <details class="numbers" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>The numbers as a table</summary>
      {table && <Rows block={table} id={id} heading={false} />}
    </details>
  );
}

export function TimeChart({ block, id }: { block: ChartBlock; id: string }) {
  const [range, setRange] = useState<[number, number] | null>(null),
    [at, setAt] = useState<{ x: number | null; i: number | null }>({ x: null, i: null });
  const data = useMemo(() => {
    const lines = block.lines.map((l) => [l.points.map((p) => p[0]), l.points.map((p) => p[1])] as uPlot.AlignedData);
    return lines.length
      ? ((lines.length > 1 ? uPlot.join(lines) : lines[0]!) as unknown as (number | null)[][])
      : [
          [0, block.windowNs],
          [null, null],
        ];
  }, [block]);
  const near =
    at.x === null || !block.bars.length
      ? null
      : block.bars.reduce((a, b) =>
          Math.abs(b.x + b.length / 2 - at.x!) < Math.abs(a.x + a.length / 2 - at.x!) ? b : a,
        );
  let says = "";
  if (at.x !== null && near)
    says = `${near.label ? `${visible(near.label)}, ` : ""}${value(block.kind, near.y)} at ${durationNs(near.x)}`;
  else if (at.i !== null && block.lines.length) {
    const values = block.lines.map((l, k) => {
      const y = data[k + 1]?.[at.i!];
      return y === null || y === undefined ? "" : `${l.name ? `${visible(l.name)} ` : ""}${value(block.kind, y)}`;
    });
    says = `${values.filter(Boolean).join(", ")} at ${durationNs(data[0]![at.i] ?? 0)}`;
  }
  const most = Math.max(0, ...block.bars.map((b) => b.y), ...block.lines.flatMap((l) => l.points.map((p) => p[1])));
  const what = [
    block.bars.length ? plural(block.bars.length, "bar", "bars") : "",
    block.lines.length ? plural(block.lines.length, "line", "lines") : "",
  ]
    .filter(Boolean)
    .join(" and ");
  return (
    <section class="panel">
      <div class="ph">
        <h2>{visible(block.title)}</h2>
        <span class="dim">{says || (block.windowNs ? `over ${durationNs(block.windowNs)}` : "")}</span>
        <div class="end">
          {range && (
            <button type="button" class="btn sm quiet" onClick={() => setRange(null)}>
              Whole window
            </button>
          )}
        </div>
      </div>
      <div class="chart-in">
        <Plot
          data={data}
          height={170}
          label={`${block.title}: over ${durationNs(block.windowNs)}, from zero up to ${value(block.kind, most)}, ${what}`}
          show={(y) => value(block.kind, y)}
          showX={durationNs}
          second={1e9}
          bytes={block.kind === "bytes"}
          from={range?.[0] ?? 0}
          to={range?.[1] ?? (block.windowNs || undefined)}
          colours={INKS}
          filled={block.lines.length === 1 && !block.bars.length}
          bars={block.bars}
          onRange={(a, b) => setRange([a, b])}
          onReset={() => setRange(null)}
          onCursor={(x, i) => setAt({ x, i })}
        />
        {block.lines.length > 1 && (
          <ul class="lg">
            {block.lines.map((l, i) => (
              <li>
                <i class={`kd ink${i % INKS.length}`} />
                {visible(l.name ?? "")}
              </li>
            ))}
          </ul>
        )}
      </div>
      <Numbers block={block} id={`${id}.n`} />
    </section>
  );
}

export function Histogram({ block }: { block: HistogramBlock }) {
  const most = Math.max(1, ...block.buckets.map((b) => b[2]));
  return (
    <section class="panel">
      <div class="ph">
        <h2>{visible(block.title)}</h2>
        <span class="dim">
          {plural(
            block.buckets.reduce((s, b) => s + b[2], 0),
            "value",
            "values",
          )}
        </span>
      </div>
      <table class="hist">
        <thead class="sr">
          <tr>
            <th scope="col">From</th>
            <th scope="col">Count</th>
            <th scope="col">Bar</th>
          </tr>
        </thead>
        <tbody>
          {block.buckets.map(([from, to, n]) => (
            <tr>
              <td class="num">
                {value(block.kind, from)} – {value(block.kind, to)}
              </td>
              <td class="num">{count(n)}</td>
              <td class="wide">
                <Bar share={n / most} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
