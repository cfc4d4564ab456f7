// The arithmetic of a treemap: no drawing here. Boxes are in shares of the picture, a parent's before its parts'.
import { cellNumber, cellValue, isTextKind, type TableBlock } from "./document";
import { nameColumn } from "./rows";

export interface Box {
  name: string;
  /** The number of the area's column. */
  weight: number;
  depth: number;
  parent: number;
  /** Has parts: then they are drawn instead of it. */
  branch: boolean;
  /** Belongs to the first of all. */
  main: boolean;
  /** Sums up what is not shown. */
  rest: boolean;
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Map {
  boxes: Box[];
  whole: number;
  column: number;
}

/** What is smaller is drawn as one: nobody sees it. */
const LEAST = 0.00005;

export function areaColumn(block: TableBlock): number {
  return block.columns.findIndex((c) => c.area && !isTextKind(c.kind));
}

function worst(weights: number[], from: number, to: number, each: number, length: number): number {
  let sum = 0,
    bad = 1;
  for (let i = from; i < to; i++) sum += weights[i]! * each;
  const depth = sum / length;
  for (let i = from; i < to; i++) {
    const side = (weights[i]! * each) / depth;
    bad = Math.max(bad, side > depth ? side / depth : depth / side);
  }
  return bad;
}

/** Places boxes (largest first) inside of one in strips along its shorter side, each filled until its boxes would become
    narrower than before. aspect: width of the picture over its height. */
function place(parts: Box[], into: { x: number; y: number; w: number; h: number }, aspect: number): void {
  const weights = parts.map((p) => p.weight);
  let { x, y, w, h } = into,
    left = weights.reduce((a, b) => a + b, 0);
  for (let i = 0; i < parts.length; ) {
    const wide = w * aspect,
      length = Math.min(wide, h),
      each = (wide * h) / left;
    if (!(length > 0) || !(left > 0)) return;
    let n = i + 1,
      shape = worst(weights, i, n, each, length);
    for (; n < parts.length; n++) {
      const next = worst(weights, i, n + 1, each, length);
      if (next > shape) break;
      shape = next;
    }
    let sum = 0;
    for (let k = i; k < n; k++) sum += weights[k]!;
    const upright = wide >= h,
      depth = (upright ? w : h) * Math.min(sum / left, 1);
    for (let k = i, at = 0; k < n; k++) {
      const share = weights[k]! / sum,
        p = parts[k]!;
      Object.assign(
        p,
        upright ? { x, y: y + at * h, w: depth, h: share * h } : { x: x + at * w, y, w: share * w, h: depth },
      );
      at += share;
    }
    if (upright) {
      x += depth;
      w -= depth;
    } else {
      y += depth;
      h -= depth;
    }
    left -= sum;
    i = n;
  }
}

/** Boxes of a table or tree; null when there is nothing to draw. */
export function treemap(block: TableBlock, aspect: number): Map | null {
  const column = areaColumn(block),
    name = nameColumn(block.columns);
  if (column < 0) return null;
  const rows = block.rows.map((r) => ({
    depth: r.depth ?? 0,
    name: String(cellValue(r.cells[name] ?? null) ?? "–"),
    weight: Math.max(0, cellNumber(r.cells[column] ?? null) || 0),
  }));
  const ends = new Array<number>(rows.length);
  for (let i = rows.length - 1; i >= 0; i--) {
    ends[i] = i + 1;
    while (ends[i]! < rows.length && rows[ends[i]!]!.depth > rows[i]!.depth) ends[i] = ends[ends[i]!]!;
  }
  const rest = block.rest ? Math.max(0, cellNumber(block.rest[column] ?? null) || 0) : 0;
  let whole = rest;
  for (let i = 0; i < rows.length; i = ends[i]!) whole += rows[i]!.weight;
  if (!(whole > 0) || !Number.isFinite(whole)) return null;
  const boxes: Box[] = [],
    restName = block.rest ? String(cellValue(block.rest[name] ?? null) ?? "all others") : "all others";
  const make = (text: string, weight: number, depth: number, parent: number, main: boolean, isRest: boolean): Box => ({
    name: text,
    weight,
    depth,
    parent,
    branch: false,
    main,
    rest: isRest,
    x: 0,
    y: 0,
    w: 0,
    h: 0,
  });

  function below(
    from: number,
    to: number,
    parent: number,
    depth: number,
    box: Box | { name: string; weight: number; x: number; y: number; w: number; h: number },
  ): void {
    const parts: { box: Box; row: number }[] = [];
    let sum = 0,
      small = 0;
    for (let i = from; i < to; i = ends[i]!) {
      const r = rows[i]!,
        main = depth ? boxes[parent]!.main : i === 0;
      sum += r.weight;
      if (r.weight < LEAST * whole) small += r.weight;
      else parts.push({ box: make(r.name, r.weight, depth, parent, main, false), row: i });
    }
    const main = depth > 0 && boxes[parent]!.main,
      other = (words: string, weight: number) => {
        if (weight >= LEAST * whole)
          parts.push({ box: make(words, weight, depth, parent, main, depth === 0), row: -1 });
      };
    other(depth ? `${box.name}, smaller ones` : "smaller ones", small);
    other(depth ? `${box.name}, itself` : restName, box.weight - sum);
    parts.sort((a, b) => b.box.weight - a.box.weight);
    place(
      parts.map((p) => p.box),
      box,
      aspect,
    );
    for (const p of parts) {
      const at = boxes.push(p.box) - 1;
      if (p.row >= 0 && ends[p.row]! > p.row + 1) {
        p.box.branch = true;
        below(p.row + 1, ends[p.row]!, at, depth + 1, p.box);
      }
    }
  }
  below(0, rows.length, -1, 0, { name: "", weight: whole, x: 0, y: 0, w: 1, h: 1 });
  return { boxes, whole, column };
}

/** What is drawn: of the zoomed box all its parts; of the whole the parts of the first and the others as they are. */
export function isDrawn(map: Map, box: number, zoom: number): boolean {
  const b = map.boxes[box]!;
  if (zoom >= 0) return !b.branch && isInside(map, box, zoom);
  return b.main ? !b.branch : b.depth === 0;
}

function same(a: Box, b: Box): boolean {
  return a.w * a.h > 0.99 * b.w * b.h;
}

export function isInside(map: Map, box: number, zoom: number): boolean {
  for (; box >= 0; box = map.boxes[box]!.parent) if (box === zoom) return true;
  return zoom < 0;
}

/** One step from the zoomed box towards another one; through what is as good as all of the box at once. */
export function stepIn(map: Map, zoom: number, to: number): number {
  const way: number[] = [];
  for (let i = to; i >= 0 && i !== zoom; i = map.boxes[i]!.parent) if (map.boxes[i]!.branch) way.unshift(i);
  while (way.length > 1 && same(map.boxes[way[1]!]!, map.boxes[way[0]!]!)) way.shift();
  return way[0] ?? zoom;
}

export function stepOut(map: Map, zoom: number): number {
  const from = map.boxes[zoom];
  if (!from) return -1;
  do zoom = map.boxes[zoom]!.parent;
  while (zoom >= 0 && same(from, map.boxes[zoom]!));
  return zoom;
}

/** The names from the outermost down: an address that holds when the document is read again. */
export function wayTo(map: Map, box: number): string[] {
  const names: string[] = [];
  for (let i = box; i >= 0; i = map.boxes[i]!.parent) names.unshift(map.boxes[i]!.name);
  return names;
}
