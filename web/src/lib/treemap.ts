// What a treemap shows and where one goes in it; the report has the boxes' places. Boxes are in shares of the picture, a
// parent's before its parts'.
import { type Cell, cellValue, type TableBlock } from "./document";
import { nameColumn } from "./rows";

/** In place of a row: those too small to be seen, together. */
const SMALLER = -1;

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

/** Boxes of a table or tree, where the report has placed them; null when there is nothing to draw. */
export function treemap(block: TableBlock): Map | null {
  const { areas, rows, rest, columns } = block,
    name = nameColumn(columns);
  if (!areas?.boxes.length) return null;
  const nameOf = (cells: Cell[] | undefined, otherwise: string) =>
      String(cellValue(cells?.[name] ?? null) ?? otherwise),
    boxes: Box[] = [];
  for (const [row, parent, weight, x, y, w, h] of areas.boxes) {
    const above = boxes[parent],
      words = row === SMALLER ? "smaller ones" : above ? "itself" : nameOf(rest, "all others");
    boxes.push({
      name: row >= 0 ? nameOf(rows[row]?.cells, "–") : above ? `${above.name}, ${words}` : words,
      weight,
      depth: above ? above.depth + 1 : 0,
      parent,
      branch: row >= 0 && (rows[row + 1]?.depth ?? 0) > (rows[row]?.depth ?? 0),
      main: above ? above.main : row === 0,
      rest: row < 0 && !above,
      x,
      y,
      w,
      h,
    });
  }
  return { boxes, whole: areas.whole, column: areas.column };
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
