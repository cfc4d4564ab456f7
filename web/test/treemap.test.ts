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
};

describe("treemap", () => {
  const map = treemap(tree, 2.6)!,
    at = (name: string) => map.boxes.findIndex((b) => b.name === name);
  const leaves = map.boxes.filter((b) => !b.branch);
  it("gives every number its area", () => {
    expect(map.whole).toBeCloseTo(100);
    for (const b of map.boxes) expect(b.w * b.h).toBeCloseTo(b.weight / 100, 5);
    expect(leaves.map((b) => b.name).sort()).toEqual([
      "Dictionary, itself",
      "Handler[]",
      "Int32[]",
      "Order[]",
      "all others",
    ]);
  });
  it("covers the picture without overlap", () => {
    expect(leaves.reduce((sum, b) => sum + b.w * b.h, 0)).toBeCloseTo(1, 5);
    for (const [i, a] of leaves.entries())
      for (const b of leaves.slice(i + 1)) {
        const w = Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x),
          h = Math.min(a.y + a.h, b.y + b.h) - Math.max(a.y, b.y);
        expect(w < 1e-9 || h < 1e-9).toBe(true);
      }
  });
  it("keeps parts inside of their whole", () => {
    for (const b of map.boxes) {
      const p = map.boxes[b.parent];
      if (!p) continue;
      expect(b.x).toBeGreaterThanOrEqual(p.x - 1e-9);
      expect(b.y + b.h).toBeLessThanOrEqual(p.y + p.h + 1e-9);
    }
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
    expect(treemap({ ...tree, rows: [], rest: undefined }, 2)).toBeNull();
    expect(treemap({ ...tree, columns: tree.columns.map((c) => ({ ...c, area: false })) }, 2)).toBeNull();
    expect(treemap({ ...tree, rows: [row(0, "a", Infinity)] }, 2)).toBeNull();
  });
});
