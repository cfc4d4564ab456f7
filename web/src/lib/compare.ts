// What changed between two reports of one profiler: figures by label, rows by name, frames by name. Biggest change first.
import {
  cellNumber,
  cellValue,
  isTextKind,
  type Bare,
  type Column,
  type Fact,
  type FlameBlock,
  type Kind,
  type ReportDocument,
  type TableBlock,
} from "./document";
import { flameTree } from "./flame";
import { mainColumn } from "./rows";

export interface FigureChange {
  label: string;
  kind: Kind;
  a: number | null;
  b: number | null;
}

export function compareFigures(a: Fact[], b: Fact[]): FigureChange[] {
  const before = new Map(a.map((f) => [f.label, f])),
    changes: FigureChange[] = [];
  const numeric = (f: Fact | undefined) => (typeof f?.value === "number" ? f.value : null);
  for (const f of b) {
    const was = before.get(f.label);
    if (isTextKind(f.kind) || f.kind === "time" || (was && was.kind !== f.kind)) continue;
    changes.push({ label: f.label, kind: f.kind, a: numeric(was), b: numeric(f) });
  }
  return changes;
}

/** "Bytes" as it stands within a sentence; "In RAM" keeps its capitals. */
function inSentence(name: string): string {
  return name.replace(/^[A-Z](?=[a-z ])/, (c) => c.toLowerCase());
}

/** Rows by their texts: a type alone may stand in several rows. */
function named(t: TableBlock, texts: number[], main: number): Map<string, number> {
  const found = new Map<string, number>();
  for (const r of t.rows) {
    if ((r.depth ?? 0) > 0) continue;
    const key = JSON.stringify(texts.map((i) => cellValue(r.cells[i] ?? null))),
      n = cellNumber(r.cells[main] ?? null);
    if (!Number.isNaN(n)) found.set(key, (found.get(key) ?? 0) + n);
  }
  return found;
}

/** A table of names: before, after, difference. */
function changeTable(
  title: string,
  names: Column[],
  kind: Kind,
  a: Map<string, number>,
  b: Map<string, number>,
): TableBlock | null {
  const rows: TableBlock["rows"] = [];
  for (const key of new Set([...a.keys(), ...b.keys()])) {
    const x = a.get(key) ?? null,
      y = b.get(key) ?? null,
      d = (y ?? 0) - (x ?? 0);
    if (d !== 0) rows.push({ cells: [...(JSON.parse(key) as Bare[]), x, y, d] });
  }
  const last = names.length + 2;
  rows.sort((p, q) => Math.abs(q.cells[last] as number) - Math.abs(p.cells[last] as number));
  if (!rows.length) return null;
  const number = (name: string, main = false): Column => ({ name, kind, bar: false, main });
  return {
    block: "table",
    title,
    rowsCut: 0,
    rows,
    columns: [
      ...names.map((c) => ({ ...c, bar: false, main: false })),
      number("Before"),
      number("After"),
      { ...number("Change", true), signed: true },
    ],
  };
}

/** Shares of all that each frame has with its callees; a frame that calls itself counts once. */
export function frameShares(block: FlameBlock): Map<string, number> {
  const tree = flameTree(block),
    all = tree.total[0] || 1,
    shares = new Map<string, number>(),
    open = new Map<number, number>(),
    path: number[] = [];
  for (let i = 0; i < tree.n; i++) {
    const f = tree.frame[i]!;
    while (path.length > tree.depth[i]!) {
      const g = path.pop()!;
      open.set(g, open.get(g)! - 1);
    }
    if (i > 0 && !open.get(f)) {
      const name = JSON.stringify([block.frames[f]?.[0] ?? ""]);
      shares.set(name, (shares.get(name) ?? 0) + tree.total[i]! / all);
    }
    open.set(f, (open.get(f) ?? 0) + 1);
    path.push(f);
  }
  return shares;
}

export function compareBlocks(a: ReportDocument, b: ReportDocument): TableBlock[] {
  const found: TableBlock[] = [];
  for (const block of b.blocks) {
    const was = a.blocks.find(
      (x) => x.block === block.block && "title" in x && "title" in block && x.title === block.title,
    );
    if (!was) continue;
    let t: TableBlock | null = null;
    if (block.block === "flame")
      t = changeTable(
        `${block.title}: by frame`,
        [{ name: "Frame, with what it calls", kind: "code", bar: false, main: false }],
        "ratio",
        frameShares(was as FlameBlock),
        frameShares(block),
      );
    else if (block.block === "table" || block.block === "tree") {
      const old = was as TableBlock,
        main = mainColumn(block.columns),
        number = block.columns[main];
      if (!number || isTextKind(number.kind) || number.kind === "time" || old.columns[main]?.name !== number.name)
        continue;
      const texts = block.columns.flatMap((c, i) => (isTextKind(c.kind) ? [i] : [])).slice(0, 3);
      t = changeTable(
        `${block.title}: ${inSentence(number.name)}`,
        texts.map((i) => block.columns[i]!),
        number.kind,
        named(old, texts, main),
        named(block, texts, main),
      );
    }
    if (t) found.push(t);
  }
  return found;
}
