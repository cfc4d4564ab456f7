// The arithmetic of a flame graph: no drawing here. A tree is a preorder list in typed arrays; node 0 is the root.
import type { FlameBlock, FrameKind } from "./document";

export interface FlameTree {
  n: number;
  frame: Int32Array;
  depth: Int32Array;
  parent: Int32Array;
  /** Index after the last node below it. */
  end: Int32Array;
  self: Float64Array;
  total: Float64Array;
  /** Left edge, in weight. */
  x: Float64Array;
  maxDepth: number;
}

export interface FlameView {
  native: boolean;
  kernel: boolean;
  inverted: boolean;
}
export const PLAIN_VIEW: FlameView = { native: true, kernel: true, inverted: false };

function sum(frame: Int32Array, depth: Int32Array, self: Float64Array): FlameTree {
  const n = frame.length;
  const parent = new Int32Array(n).fill(-1),
    end = new Int32Array(n),
    total = Float64Array.from(self),
    x = new Float64Array(n);
  const path: number[] = [];
  let maxDepth = 0;
  for (let i = 0; i < n; i++) {
    // A document that skips a level is damaged: the node hangs on the nearest one above.
    const d = Math.min(depth[i]!, path.length);
    depth[i] = d;
    path.length = d;
    parent[i] = d ? path[d - 1]! : -1;
    path.push(i);
    maxDepth = Math.max(maxDepth, d);
  }
  for (let i = n - 1; i >= 0; i--) {
    end[i] = Math.max(end[i]!, i + 1);
    const p = parent[i]!;
    if (p >= 0) {
      total[p] = total[p]! + total[i]!;
      end[p] = Math.max(end[p]!, end[i]!);
    }
  }
  const next = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const p = parent[i]!;
    x[i] = p < 0 ? 0 : next[p]!;
    if (p >= 0) next[p] = next[p]! + total[i]!;
    next[i] = x[i]!;
  }
  return { n, frame, depth, parent, end, self, total, x, maxDepth };
}

export function flameTree(block: FlameBlock): FlameTree {
  const n = block.nodes.length,
    frame = new Int32Array(n),
    depth = new Int32Array(n),
    self = new Float64Array(n);
  block.nodes.forEach(([f, d, s], i) => {
    frame[i] = f;
    depth[i] = d;
    self[i] = s;
  });
  return sum(frame, depth, self);
}

interface Branch {
  frame: number;
  self: number;
  total: number;
  below: Map<number, Branch>;
}

/** Hides kinds (their time counts for their caller) and turns the tree over (hottest first, callers below it). */
export function transform(tree: FlameTree, kinds: FrameKind[], view: FlameView): FlameTree {
  if (view.native && view.kernel && !view.inverted) return tree;
  const hidden = (f: number) => (!view.native && kinds[f] === "native") || (!view.kernel && kinds[f] === "kernel");
  const root: Branch = { frame: tree.frame[0] ?? 0, self: 0, total: 0, below: new Map() };
  for (let i = 0; i < tree.n; i++) {
    const weight = tree.self[i]!;
    if (!weight) continue;
    const path: number[] = [];
    for (let k = i; k > 0; k = tree.parent[k]!) if (!hidden(tree.frame[k]!)) path.push(tree.frame[k]!);
    if (!view.inverted) path.reverse();
    let at = root;
    at.total += weight;
    for (const f of path) {
      let next = at.below.get(f);
      if (!next) {
        next = { frame: f, self: 0, total: 0, below: new Map() };
        at.below.set(f, next);
      }
      next.total += weight;
      at = next;
    }
    at.self += weight;
  }
  const frame: number[] = [],
    depth: number[] = [],
    self: number[] = [];
  const stack: [Branch, number][] = [[root, 0]];
  while (stack.length) {
    const [b, d] = stack.pop()!;
    frame.push(b.frame);
    depth.push(d);
    self.push(b.self);
    const below = [...b.below.values()].sort((p, q) => p.total - q.total);
    for (const c of below) stack.push([c, d + 1]);
  }
  return sum(Int32Array.from(frame), Int32Array.from(depth), Float64Array.from(self));
}

/** Which nodes match, and their share of all: a hit below another hit is not counted twice. */
export function search(
  tree: FlameTree,
  names: string[],
  term: string,
): { hits: Uint8Array; share: number; places: number } {
  const hits = new Uint8Array(tree.n),
    word = term.trim().toLowerCase();
  if (!word || !tree.n) return { hits, share: 0, places: 0 };
  const matches = names.map((name) => name.toLowerCase().includes(word));
  let counted = 0,
    places = 0,
    inside = -1;
  for (let i = 1; i < tree.n; i++) {
    if (!matches[tree.frame[i]!]) continue;
    hits[i] = 1;
    places++;
    if (i >= inside) {
      counted += tree.total[i]!;
      inside = tree.end[i]!;
    }
  }
  return { hits, share: tree.total[0] ? counted / tree.total[0]! : 0, places };
}

/** The node at a depth whose box covers a weight; -1 where there is none. Boxes of one depth stand in order of x. */
export function nodeAt(tree: FlameTree, at: number, depth: number): number {
  let i = 0;
  if (at < 0 || at >= (tree.total[0] ?? 0)) return -1;
  for (let d = 0; d < depth; d++) {
    let found = -1;
    for (let c = i + 1; c < tree.end[i]!; c = tree.end[c]!) {
      if (at < tree.x[c]!) break;
      if (at < tree.x[c]! + tree.total[c]!) {
        found = c;
        break;
      }
    }
    if (found < 0) return -1;
    i = found;
  }
  return i;
}

/** Frame indices from the root down: an address of a node that survives another drawing. */
export function pathOf(tree: FlameTree, node: number): number[] {
  const path: number[] = [];
  for (let i = node; i > 0; i = tree.parent[i]!) path.push(tree.frame[i]!);
  return path.reverse();
}

export function nodeOfPath(tree: FlameTree, path: number[]): number {
  let i = 0;
  for (const f of path) {
    let found = -1;
    for (let c = i + 1; c < tree.end[i]!; c = tree.end[c]!) {
      if (tree.frame[c] === f) {
        found = c;
        break;
      }
    }
    if (found < 0) return i;
    i = found;
  }
  return i;
}
