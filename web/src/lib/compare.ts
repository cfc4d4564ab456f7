// What changed between two reports of one profiler: figures by label, rows by name, frames by name. Biggest change first.
import { cellKind, cellNumber, cellValue, isTextKind, type Fact, type FlameBlock, type Kind, type ReportDocument, type TableBlock } from "./document";
import { flameTree } from "./flame";
import { mainColumn, nameColumn } from "./rows";

export interface FigureChange { label: string; kind: Kind; a: number | null; b: number | null }

export function compareFigures(a: Fact[], b: Fact[]): FigureChange[] {
  const before = new Map(a.map((f) => [f.label, f])), changes: FigureChange[] = [];
  const numeric = (f: Fact | undefined) => (typeof f?.value === "number" ? f.value : null);
  for (const f of b) {
    const was = before.get(f.label);
    if (isTextKind(f.kind) || f.kind === "time" || (was && was.kind !== f.kind)) continue;
    changes.push({ label: f.label, kind: f.kind, a: numeric(was), b: numeric(f) });
  }
  return changes;
}

function named(t: TableBlock): Map<string, number> {
  const name = nameColumn(t.columns), main = mainColumn(t.columns), found = new Map<string, number>();
  for (const r of t.rows) {
    if ((r.depth ?? 0) > 0) continue;
    const key = String(cellValue(r.cells[name] ?? null) ?? ""), n = cellNumber(r.cells[main] ?? null);
    if (key && !Number.isNaN(n)) found.set(key, (found.get(key) ?? 0) + n);
  }
  return found;
}

/** A table of names: before, after, difference. */
function changeTable(title: string, nameTitle: string, nameKind: Kind, kind: Kind, a: Map<string, number>, b: Map<string, number>): TableBlock | null {
  const rows: TableBlock["rows"] = [];
  for (const key of new Set([...a.keys(), ...b.keys()])) {
    const x = a.get(key) ?? null, y = b.get(key) ?? null, d = (y ?? 0) - (x ?? 0);
    if (d !== 0) rows.push({ cells: [key, x, y, d] });
  }
  rows.sort((p, q) => Math.abs(q.cells[3] as number) - Math.abs(p.cells[3] as number));
  if (!rows.length) return null;
  return {
    block: "table", title, rowsCut: 0, rows,
    columns: [{ name: nameTitle, kind: nameKind, bar: false, main: false }, { name: "Before", kind, bar: false, main: false }, { name: "After", kind, bar: false, main: false }, { name: "Change", kind, bar: false, main: true }],
  };
}

/** Shares of all that each frame has with its callees; a frame that calls itself counts once. */
export function frameShares(block: FlameBlock): Map<string, number> {
  const tree = flameTree(block), all = tree.total[0] || 1, shares = new Map<string, number>(), open = new Map<number, number>(), path: number[] = [];
  for (let i = 0; i < tree.n; i++) {
    const f = tree.frame[i]!;
    while (path.length > tree.depth[i]!) {
      const g = path.pop()!;
      open.set(g, open.get(g)! - 1);
    }
    if (i > 0 && !open.get(f)) {
      const name = block.frames[f]?.[0] ?? "";
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
    const was = a.blocks.find((x) => x.block === block.block && "title" in x && "title" in block && x.title === block.title);
    if (!was) continue;
    let t: TableBlock | null = null;
    if (block.block === "flame") t = changeTable(`${block.title}: by frame`, "Frame, with what it calls", "code", "ratio", frameShares(was as FlameBlock), frameShares(block));
    else if (block.block === "table" || block.block === "tree") {
      const old = was as TableBlock, name = nameColumn(block.columns), main = mainColumn(block.columns);
      if (main < 0 || isTextKind(block.columns[main]!.kind) || block.columns[main]!.kind === "time" || old.columns[main]?.name !== block.columns[main]!.name) continue;
      const kind = block.rows.length ? cellKind(block.rows[0]!.cells[name] ?? null, block.columns[name]!.kind) : "code";
      t = changeTable(`${block.title}: ${block.columns[main]!.name.toLowerCase()}`, block.columns[name]!.name, kind, block.columns[main]!.kind, named(old), named(block));
    }
    if (t) found.push(t);
  }
  return found;
}
