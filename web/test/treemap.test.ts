import { describe, expect, it } from "vitest";
import type { Row, TableBlock } from "../src/lib/document";
import { isDrawn, isInside, stepIn, stepOut, treemap, wayTo } from "../src/lib/treemap";

const row = (depth: number, name: string, bytes: number | null): Row => ({ depth, cells: [name, bytes] });
const tree: TableBlock = {
  block: "tree",
  title: "Who keeps what",
  rowsCut: 0,
  columns: [
    { name: "Kept alive by", kind: "code", bar: false, main: false },
    { name: "Retained", kind: "bytes", bar: false, main: true, area: true },
  ],
  rows: [
    row(0, "Cache._orders", 60),
    row(1, "Dictionary", 60),
    row(2, "Order[]", 40),
    row(2, "Int32[]", 10),
    row(0, "Bus", 30),
    row(1, "Handler[]", 30),
    row(0, "tiny", 0.000001),
    row(0, "unknown", null),
  ],
  rest: [{ kind: "text", value: "all others" }, 10],
  // As src/report/treemap.c places them: row, parent's box, number, x, y, width, height.
  areas: {
    column: 1,
    whole: 100,
    boxes: [
      [0, -1, 60, 0, 0, 0.6, 1],
      [1, 0, 60, 0, 0, 0.6, 1],
      [2, 1, 40, 0, 0, 0.4, 1],
      [3, 1, 10, 0.4, 0, 0.2, 0.5],
      [-2, 1, 10, 0.4, 0.5, 0.2, 0.5],
      [4, -1, 30, 0.6, 0, 0.4, 0.75],
      [5, 5, 30, 0.6, 0, 0.4, 0.75],
      [-2, -1, 10, 0.6, 0.75, 0.4, 0.25],
    ],
  },
};

describe("treemap", () => {
  const map = treemap(tree)!,
    at = (name: string) => map.boxes.findIndex((b) => b.name === name);
  it("names what stands where", () => {
    expect(map.whole).toBe(100);
    expect(map.boxes.map((b) => [b.name, b.depth, b.branch, b.main, b.rest])).toEqual([
      ["Cache._orders", 0, true, true, false],
      ["Dictionary", 1, true, true, false],
      ["Order[]", 2, false, true, false],
      ["Int32[]", 2, false, true, false],
      ["Dictionary, itself", 2, false, true, false],
      ["Bus", 0, true, false, false],
      ["Handler[]", 1, false, false, false],
      ["all others", 0, false, false, true],
    ]);
    const small = treemap({
      ...tree,
      rest: undefined,
      areas: { column: 1, whole: 1, boxes: [[-1, -1, 1, 0, 0, 1, 1]] },
    });
    expect(small!.boxes[0]!.name).toBe("smaller ones");
  });
  it("goes in and out, through what is all of a box", () => {
    const leaf = at("Order[]"),
      inner = stepIn(map, -1, leaf);
    expect(map.boxes[inner]!.name).toBe("Dictionary");
    expect(stepIn(map, inner, leaf)).toBe(inner);
    expect(isInside(map, leaf, inner)).toBe(true);
    expect(isInside(map, at("Bus"), inner)).toBe(false);
    expect(stepOut(map, inner)).toBe(-1);
    expect(stepOut(map, -1)).toBe(-1);
    expect(wayTo(map, leaf)).toEqual(["Cache._orders", "Dictionary", "Order[]"]);
  });
  it("draws the parts of the first, and others whole until somebody goes in", () => {
    const drawn = (zoom: number) =>
      map.boxes
        .filter((_, i) => isDrawn(map, i, zoom))
        .map((b) => b.name)
        .sort();
    expect(drawn(-1)).toEqual(["Bus", "Dictionary, itself", "Int32[]", "Order[]", "all others"]);
    expect(drawn(at("Bus"))).toEqual(["Handler[]"]);
    expect(drawn(at("Dictionary"))).toEqual(["Dictionary, itself", "Int32[]", "Order[]"]);
  });
  it("draws nothing of nothing", () => {
    expect(treemap({ ...tree, areas: undefined })).toBeNull();
    expect(treemap({ ...tree, areas: { column: 1, whole: 0, boxes: [] } })).toBeNull();
  });
});
