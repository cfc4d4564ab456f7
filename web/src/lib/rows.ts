// Which rows of a table or tree are shown, and in which order. Pure, so that it can run in a worker.
import { cellNumber, cellValue, isTextKind, type Column, type Row } from "./document";

export type Keys = Float64Array | string[];

export function keysOf(rows: Row[], column: number, columns: Column[]): Keys {
  const c = columns[column]!;
  if (isTextKind(c.kind)) return rows.map((r) => String(cellValue(r.cells[column] ?? null) ?? ""));
  return Float64Array.from(rows, (r) => cellNumber(r.cells[column] ?? null));
}

/** What a filter looks into: all texts of a row and of its lines. */
export function haystack(rows: Row[]): string[] {
  return rows.map((r) => {
    let text = "";
    for (const cell of r.cells) {
      const v = cellValue(cell);
      if (typeof v === "string") text += `${v}\n`;
    }
    for (const l of r.lines ?? []) text += `${l.text}\n`;
    return text.toLowerCase();
  });
}

const words =
  typeof Intl === "undefined"
    ? null
    : (() => {
        try {
          return new Intl.Collator("en");
        } catch {
          return null;
        }
      })();

/** Indices in order; what was not measured stays at the end, whichever way. Stable. */
export function sorted(keys: Keys, down: boolean): Uint32Array {
  const order = Uint32Array.from({ length: keys.length }, (_, i) => i);
  const sign = down ? -1 : 1;
  if (keys instanceof Float64Array) {
    order.sort((a, b) => {
      const x = keys[a]!,
        y = keys[b]!;
      const nx = Number.isNaN(x),
        ny = Number.isNaN(y);
      if (nx || ny) return Number(nx) - Number(ny) || a - b;
      return sign * (x - y) || a - b;
    });
  } else {
    order.sort(
      (a, b) =>
        sign * (words ? words.compare(keys[a]!, keys[b]!) : keys[a]! < keys[b]! ? -1 : Number(keys[a]! > keys[b]!)) ||
        a - b,
    );
  }
  return order;
}

export function filtered(order: Uint32Array, hay: string[], term: string): Uint32Array {
  const word = term.trim().toLowerCase();
  return word ? order.filter((i) => hay[i]!.includes(word)) : order;
}

/** For each row of a tree the index after its last descendant. */
export function treeEnds(rows: Row[]): Int32Array {
  const ends = new Int32Array(rows.length),
    path: number[] = [];
  for (let i = 0; i <= rows.length; i++) {
    const depth = i < rows.length ? (rows[i]!.depth ?? 0) : 0;
    while (path.length > depth) ends[path.pop()!] = i;
    path.push(i);
  }
  return ends;
}

/** Open along the heaviest path: each first child of an open row. */
export function heaviestPath(rows: Row[], ends: Int32Array): Set<number> {
  const open = new Set<number>();
  for (let i = 0; i < rows.length && ends[i]! > i + 1; i++) open.add(i);
  return open;
}

export function treeVisible(rows: Row[], ends: Int32Array, open: Set<number>): Uint32Array {
  const shown: number[] = [];
  for (let i = 0; i < rows.length; i = open.has(i) ? i + 1 : ends[i]!) shown.push(i);
  return Uint32Array.from(shown);
}

/** The rows that match and all above them. */
export function treeFiltered(rows: Row[], hay: string[], term: string): Uint32Array {
  const word = term.trim().toLowerCase(),
    keep = new Uint8Array(rows.length),
    path: number[] = [];
  rows.forEach((r, i) => {
    path.length = Math.min(r.depth ?? 0, path.length);
    path.push(i);
    if (hay[i]!.includes(word)) for (const above of path) keep[above] = 1;
  });
  return Uint32Array.from(rows.keys()).filter((i) => keep[i]);
}

/** The column that names the row, and the number that stays on a narrow page. */
export function nameColumn(columns: Column[]): number {
  return Math.max(
    columns.findIndex((c) => isTextKind(c.kind)),
    0,
  );
}

export function mainColumn(columns: Column[]): number {
  const main = columns.findIndex((c) => c.main);
  return main >= 0 ? main : columns.findIndex((c) => !isTextKind(c.kind));
}

/** What a full bar stands for: a ratio is part of one, all else is measured against the largest. */
export function barWhole(rows: Row[], column: number, columns: Column[]): number {
  if (columns[column]!.kind === "ratio") return 1;
  let most = 0;
  for (const r of rows) {
    const x = cellNumber(r.cells[column] ?? null);
    if (x > most) most = x;
  }
  return most;
}
