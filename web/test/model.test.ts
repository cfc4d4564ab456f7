import { describe, expect, it } from "vitest";
import type { Column, FlameBlock, FrameKind, Row } from "../src/lib/document";
import { flameTree, nodeAt, nodeOfPath, pathOf, search, transform } from "../src/lib/flame";
import { roundUp, timeSteps } from "../src/lib/axes";
import { match } from "../src/lib/router";
import {
  barWhole,
  filtered,
  haystack,
  heaviestPath,
  keysOf,
  sorted,
  treeEnds,
  treeFiltered,
  treeVisible,
} from "../src/lib/rows";

const frames: [string, FrameKind][] = [
  ["all", "other"],
  ["Main", "code"],
  ["Regex.Match", "framework"],
  ["memcpy", "native"],
  ["gc", "gc"],
];
const block: FlameBlock = {
  block: "flame",
  title: "",
  kind: "count",
  cut: 0,
  frames,
  // all > Main > Regex.Match > (memcpy, Regex.Match again); all > gc > memcpy
  nodes: [
    [0, 0, 0],
    [1, 1, 10],
    [2, 2, 20],
    [3, 3, 5],
    [2, 3, 5],
    [4, 1, 40],
    [3, 2, 20],
  ],
};
const kinds = frames.map((f) => f[1]),
  names = frames.map((f) => f[0]);

describe("flame graph", () => {
  const tree = flameTree(block);
  it("sums and lays out", () => {
    expect([...tree.total]).toEqual([100, 40, 30, 5, 5, 60, 20]);
    expect([...tree.x]).toEqual([0, 0, 0, 0, 5, 40, 40]);
    expect([...tree.end]).toEqual([7, 5, 5, 4, 5, 7, 7]);
  });
  it("finds boxes by place", () => {
    expect(nodeAt(tree, 0, 0)).toBe(0);
    expect(nodeAt(tree, 45, 1)).toBe(5);
    expect(nodeAt(tree, 7, 3)).toBe(4);
    expect(nodeAt(tree, 35, 2)).toBe(-1);
    expect(nodeAt(tree, 100, 0)).toBe(-1);
  });
  it("counts nested hits once", () => {
    const found = search(tree, names, "regex");
    expect(found.places).toBe(2);
    expect(found.share).toBeCloseTo(0.3);
    expect(search(tree, names, "").places).toBe(0);
    expect(search(tree, names, "nothing").share).toBe(0);
  });
  it("gives the time of hidden frames to their caller", () => {
    const plain = transform(tree, kinds, { native: false, kernel: true, inverted: false });
    expect(plain.total[0]).toBe(100);
    expect([...plain.frame]).toEqual([0, 4, 1, 2, 2]);
    expect([...plain.self]).toEqual([0, 60, 10, 25, 5]);
  });
  it("turns over", () => {
    const over = transform(tree, kinds, { native: true, kernel: true, inverted: true });
    expect(over.total[0]).toBe(100);
    // gc itself 40, memcpy 25 (20 of it from gc), Regex.Match 25, Main 10
    expect(names[over.frame[1]!]).toBe("gc");
    const mem = [...over.frame.keys()].find((i) => over.depth[i] === 1 && names[over.frame[i]!] === "memcpy")!;
    expect(over.total[mem]).toBe(25);
    expect(over.total[mem + 1]).toBe(20);
  });
  it("keeps the address of a node", () => {
    expect(nodeOfPath(tree, pathOf(tree, 4))).toBe(4);
    expect(nodeOfPath(tree, [1, 99])).toBe(1);
  });
  it("survives a damaged list", () => {
    const broken = flameTree({
      ...block,
      nodes: [
        [0, 0, 1],
        [1, 7, 2],
        [2, 0, 3],
      ],
    });
    expect(broken.total[0]).toBe(3);
    expect(broken.n).toBe(3);
  });
});

const columns: Column[] = [
  { name: "Name", kind: "code", bar: false, main: false },
  { name: "Count", kind: "count", bar: true, main: true },
];
const rows: Row[] = [
  { cells: ["b", 2] },
  { cells: ["a", null] },
  { cells: ["c", 10], lines: [{ kind: "code", text: "Deep.Inside" }] },
  { cells: ["d", { kind: "text", value: "x" }] },
];

describe("rows", () => {
  it("sorts, with what was not measured at the end both ways", () => {
    expect([...sorted(keysOf(rows, 1, columns), true)]).toEqual([2, 0, 1, 3]);
    expect([...sorted(keysOf(rows, 1, columns), false)]).toEqual([0, 2, 1, 3]);
    expect([...sorted(keysOf(rows, 0, columns), false)]).toEqual([1, 0, 2, 3]);
  });
  it("filters by names and lines", () => {
    const order = sorted(keysOf(rows, 1, columns), true);
    expect([...filtered(order, haystack(rows), "inside")]).toEqual([2]);
    expect(filtered(order, haystack(rows), "  ").length).toBe(4);
  });
  it("measures bars against the largest", () => {
    expect(barWhole(rows, 1, columns)).toBe(10);
    expect(barWhole(rows, 0, [{ ...columns[0]!, kind: "ratio" }])).toBe(1);
  });
  const tree: Row[] = [
    { depth: 0, cells: ["a"] },
    { depth: 1, cells: ["b"] },
    { depth: 2, cells: ["c"] },
    { depth: 1, cells: ["d"] },
    { depth: 0, cells: ["e"] },
  ];
  it("opens trees along the heaviest path", () => {
    const ends = treeEnds(tree);
    expect([...ends]).toEqual([4, 3, 3, 4, 5]);
    const open = heaviestPath(tree, ends);
    expect([...open]).toEqual([0, 1]);
    expect([...treeVisible(tree, ends, open)]).toEqual([0, 1, 2, 3, 4]);
    expect([...treeVisible(tree, ends, new Set())]).toEqual([0, 4]);
    expect([...treeFiltered(tree, haystack(tree), "d")]).toEqual([0, 3]);
  });
});

describe("addresses", () => {
  it("match their pages", () => {
    expect(match("/sessions/:guid", "/sessions/abc")).toEqual({ guid: "abc" });
    expect(match("/sessions/:guid", "/Sessions/abc/")).toEqual({ guid: "abc" });
    expect(match("/sessions/:guid", "/sessions")).toBeNull();
    expect(match("/sessions/:guid", "/sessions/%zz")).toBeNull();
  });
});

describe("axes", () => {
  it("end at round numbers, bytes at round ones of their own", () => {
    expect(roundUp(0)).toBe(1);
    expect(roundUp(3.4)).toBe(4);
    expect(roundUp(97)).toBe(100);
    expect(roundUp(60.7 * 2 ** 20, true)).toBe(80 * 2 ** 20);
  });
  it("have a few labels at times that people like", () => {
    expect(timeSteps(0, 300e3, 1000, 3)).toEqual([0, 120e3, 240e3]);
    expect(timeSteps(0, 3e9, 1e9, 3)).toEqual([0, 1e9, 2e9, 3e9]);
    expect(timeSteps(0, 40e6, 1e9, 4)).toEqual([0, 10e6, 20e6, 30e6, 40e6]);
    expect(timeSteps(5, 5, 1000)).toEqual([5]);
  });
});
