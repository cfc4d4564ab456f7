// The flame graph on a canvas: callers above callees. The line above it names the box under the pointer or the focus.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { colour, forgetColours } from "../lib/colours";
import type { FlameBlock, FrameKind } from "../lib/document";
import { type FlameTree, flameTree, nodeAt, nodeOfPath, PLAIN_VIEW, pathOf, search, transform } from "../lib/flame";
import { percent, plural, value, visible } from "../lib/format";
import { useColours, useWidth } from "../lib/hooks";
import { shortName } from "../lib/names";
import { useQuery } from "../lib/router";

const ROW = 20,
  LEAST = 0.5,
  MAX_HEIGHT = 620;
const FILL: Record<FrameKind, string> = {
  code: "--k-code-f",
  framework: "--k-fw-f",
  gc: "--k-gc-f",
  jit: "--k-jit-f",
  native: "--k-nat-f",
  kernel: "--k-ker-f",
  other: "--track",
};
export const KIND_WORDS: Record<FrameKind, string> = {
  code: "your code",
  framework: "framework",
  gc: "GC",
  jit: "JIT",
  native: "native",
  kernel: "kernel",
  other: "other",
};

/** Of a comparison: colour and words by how much more or less of the whole a box is. */
const CHANGES: { level: number; fill: string; words: string }[] = [
  { level: 3, fill: "--c-up3", words: "10 points more or above" },
  { level: 2, fill: "--c-up2", words: "3 points more" },
  { level: 1, fill: "--c-up1", words: "a little more" },
  { level: 0, fill: "--track", words: "as before" },
  { level: -1, fill: "--c-down1", words: "a little less" },
  { level: -2, fill: "--c-down2", words: "3 points less" },
  { level: -3, fill: "--c-down3", words: "10 points less or below" },
];

interface Picture {
  block: FlameBlock;
  tree: FlameTree;
  names: string[];
  kinds: FrameKind[];
  zoom: number;
  hits: Uint8Array | null;
  focus: number;
  hover: number;
  width: number;
}

/** Left edge and width in pixels; boxes above the zoomed one are full. */
function place(p: Picture, i: number): [number, number] {
  const { tree, zoom, width } = p;
  if (i <= zoom && tree.end[i]! >= tree.end[zoom]!) return [0, width];
  const scale = width / (tree.total[zoom]! || 1);
  return [(tree.x[i]! - tree.x[zoom]!) * scale, tree.total[i]! * scale];
}

function fillOf({ block, kinds, tree }: Picture, i: number): string {
  if (block.compared) return CHANGES.find((c) => c.level === block.nodes[i]?.[4])?.fill ?? "--track";
  return FILL[kinds[tree.frame[i]!] ?? "other"];
}

function draw(canvas: HTMLCanvasElement, p: Picture, rows: number): void {
  const ratio = devicePixelRatio || 1,
    height = rows * ROW,
    ctx = canvas.getContext("2d")!;
  canvas.width = Math.round(p.width * ratio);
  canvas.height = Math.round(height * ratio);
  ctx.scale(ratio, ratio);
  ctx.clearRect(0, 0, p.width, height);
  ctx.font = `11.5px ${getComputedStyle(document.documentElement).getPropertyValue("--mono")}`;
  ctx.textBaseline = "middle";
  const letter = ctx.measureText("m").width,
    text = colour("--text"),
    weak = colour("--text-3"),
    line = colour("--surface"),
    accent = colour("--accent");
  const box = (i: number): boolean => {
    const [x, w] = place(p, i);
    if (w < LEAST || x > p.width) return false;
    const y = p.tree.depth[i]! * ROW,
      above = i < p.zoom;
    ctx.globalAlpha = above || (p.hits && !p.hits[i]) ? 0.45 : 1;
    ctx.fillStyle = colour(fillOf(p, i));
    ctx.fillRect(x, y, Math.max(w - (w > 2 ? 1 : 0), LEAST), ROW - 1);
    ctx.globalAlpha = 1;
    if (p.hits?.[i]) {
      ctx.fillStyle = text;
      ctx.fillRect(x, y + ROW - 3, Math.max(w - 1, 1), 2);
    }
    const room = Math.floor((w - 8) / letter);
    if (room >= 3) {
      const name = p.names[p.tree.frame[i]!] ?? "",
        fit = name.length <= room ? name : shortName(name);
      ctx.fillStyle = above ? weak : text;
      ctx.fillText(fit.length <= room ? fit : `${fit.slice(0, room - 1)}…`, x + 4, y + ROW / 2);
    }
    if (i === p.focus || i === p.hover) {
      ctx.strokeStyle = i === p.focus ? accent : text;
      ctx.lineWidth = i === p.focus ? 2 : 1;
      ctx.strokeRect(x + 0.5, y + 0.5, Math.max(w - 2, 1), ROW - 2);
    }
    return true;
  };
  ctx.fillStyle = line;
  for (let i = p.zoom; i > 0; i = p.tree.parent[i]!) box(p.tree.parent[i]!);
  // Nothing below a box that is too narrow to be seen.
  for (let i = p.zoom; i < p.tree.end[p.zoom]!; i = box(i) ? i + 1 : p.tree.end[i]!);
}

function step(p: Picture, from: number, key: string): number {
  const { tree, zoom } = p;
  if (key === "ArrowUp") return from > 0 ? tree.parent[from]! : from;
  if (key === "ArrowDown") return from + 1 < tree.end[from]! ? from + 1 : from;
  const depth = tree.depth[from]!;
  if (key === "ArrowRight") {
    for (let i = tree.end[from]!; i < tree.end[zoom]!; i++)
      if (tree.depth[i] === depth && place(p, i)[1] >= LEAST) return i;
  } else {
    for (let i = from - 1; i > zoom; i--) if (tree.depth[i] === depth && place(p, i)[1] >= LEAST) return i;
  }
  return from;
}

function Now({ p, kind }: { p: Picture; kind: FlameBlock["kind"] }) {
  const i = p.hover >= 0 ? p.hover : p.focus >= 0 ? p.focus : p.zoom,
    all = p.tree.total[0] || 1;
  const path = pathOf(p.tree, i)
    .slice(-3)
    .map((f) => visible(shortName(p.names[f]!)));
  const kindOf = p.kinds[p.tree.frame[i]!] ?? "other",
    before = p.block.compared ? (p.block.nodes[i]?.[3] ?? 0) / (p.block.nodes[0]?.[3] || 1) : null;
  return (
    <div class="fl-path">
      <span class="mono" title={visible(p.names[p.tree.frame[i]!] ?? "")}>
        {i === 0 ? "all" : path.join(" → ")}
      </span>
      <span class="nowrap">
        {i > 0 && kindOf !== "other" && `${KIND_WORDS[kindOf]}, `}
        {value(kind, p.tree.total[i]!)}, {percent(p.tree.total[i]! / all)} with callees,{" "}
        {percent(p.tree.self[i]! / all)} itself
        {before !== null && `, before ${percent(before)} with callees`}
      </span>
    </div>
  );
}

export function Flame({ block, id }: { block: FlameBlock; id: string }) {
  const names = useMemo(() => block.frames.map((f) => visible(f[0])), [block]),
    kinds = useMemo(() => block.frames.map((f) => f[1]), [block]);
  const whole = useMemo(() => flameTree(block), [block]);
  const [hide, setHide] = useQuery(`${id}.view`),
    [term, setTerm] = useQuery(`${id}.find`),
    [at, setAt] = useQuery(`${id}.zoom`);
  // What the boxes of a comparison were before is only known as they stand.
  const view = block.compared
    ? PLAIN_VIEW
    : { native: !hide.includes("n"), kernel: !hide.includes("k"), inverted: hide.includes("i") };
  const tree = useMemo(() => transform(whole, kinds, view), [whole, hide]);
  const zoom = useMemo(() => nodeOfPath(tree, at ? at.split(".").map(Number) : []), [tree, at]);
  const found = useMemo(() => (term.trim() ? search(tree, names, term) : null), [tree, term]);
  const [ref, width] = useWidth<HTMLDivElement>(),
    canvas = useRef<HTMLCanvasElement>(null),
    colours = useColours();
  const [hover, setHover] = useState(-1),
    [focus, setFocus] = useState(-1);
  const rows = useMemo(() => {
    let deepest = 0;
    for (let i = zoom; i < tree.end[zoom]!; i++) deepest = Math.max(deepest, tree.depth[i]!);
    return deepest + 1;
  }, [tree, zoom]);
  const picture: Picture = {
    block,
    tree,
    names,
    kinds,
    zoom,
    hits: found?.hits ?? null,
    focus: focus < tree.n ? focus : -1,
    hover: hover < tree.n ? hover : -1,
    width,
  };
  useEffect(() => {
    forgetColours();
    if (width) draw(canvas.current!, picture, rows);
  }, [tree, zoom, found, hover, focus, width, colours, rows]);

  const toggle = (letter: string) => setHide(hide.includes(letter) ? hide.replace(letter, "") : hide + letter);
  const zoomTo = (i: number) => setAt(pathOf(tree, i).join("."));
  function under(e: MouseEvent): number {
    const box = canvas.current!.getBoundingClientRect(),
      depth = Math.floor((e.clientY - box.top) / ROW),
      x = e.clientX - box.left;
    if (depth < tree.depth[zoom]!) {
      let i = zoom;
      while (tree.depth[i]! > depth) i = tree.parent[i]!;
      return i;
    }
    return nodeAt(tree, tree.x[zoom]! + (x / (width || 1)) * tree.total[zoom]!, depth);
  }
  function onKey(e: KeyboardEvent) {
    const now = focus < 0 || focus >= tree.n ? zoom : focus;
    if (e.key.startsWith("Arrow")) setFocus(step(picture, now, e.key));
    else if (e.key === "Enter" || e.key === " ") zoomTo(now);
    else if (e.key === "Escape" && zoom > 0) zoomTo(tree.parent[zoom]!);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
  const has = (kind: FrameKind) => block.nodes.some((n) => kinds[n[0]] === kind);
  return (
    <section class="panel">
      <div class="ph">
        <h2>{visible(block.title)}</h2>
        <span class="dim">
          {value(block.kind, whole.total[0] ?? 0)}
          {block.kind === "count" ? " samples" : ""},{" "}
          {view.inverted ? "hottest first, callers below" : "callers above callees"}
        </span>
        <div class="end">
          <output class="dim" aria-live="polite">
            {found
              ? found.places
                ? `${percent(found.share)} match, ${plural(found.places, "place", "places")}`
                : "not found"
              : ""}
          </output>
          <input
            class="field sm"
            type="search"
            placeholder="Find a method"
            aria-label="Find a method in the flame graph"
            value={term}
            onInput={(e) => setTerm(e.currentTarget.value)}
          />
          {!block.compared && (
            <span class="seg" role="group" aria-label="Frames shown">
              {has("native") && (
                <button type="button" aria-pressed={view.native} onClick={() => toggle("n")}>
                  Native
                </button>
              )}
              {has("kernel") && (
                <button type="button" aria-pressed={view.kernel} onClick={() => toggle("k")}>
                  Kernel
                </button>
              )}
              <button type="button" aria-pressed={view.inverted} onClick={() => toggle("i")}>
                Inverted
              </button>
            </span>
          )}
          <button type="button" class="btn sm quiet" disabled={zoom === 0} onClick={() => setAt("")}>
            Whole picture
          </button>
        </div>
      </div>
      <Now p={picture} kind={block.kind} />
      <div class="flame">
        <div class="flame-in" ref={ref} style={{ maxHeight: `${MAX_HEIGHT}px` }}>
          <canvas
            ref={canvas}
            style={{ width: `${width}px`, height: `${rows * ROW}px` }}
            tabIndex={0}
            role="application"
            aria-roledescription="flame graph"
            aria-label={`${block.title}: ${plural(tree.n - 1, "box", "boxes")}. Arrows move, Enter zooms, Escape goes back. ${focus >= 0 && focus < tree.n ? `${names[tree.frame[focus]!]}, ${percent(tree.total[focus]! / (tree.total[0] || 1))}` : ""}`}
            onMouseMove={(e) => setHover(under(e))}
            onMouseLeave={() => setHover(-1)}
            onBlur={() => setFocus(-1)}
            onClick={(e) => {
              const i = under(e);
              if (i >= 0) {
                zoomTo(i);
                setFocus(-1);
              }
            }}
            onKeyDown={onKey}
          />
        </div>
        <ul class="lg">
          {block.compared
            ? CHANGES.map((c) => (
                <li>
                  <i class="kd" style={{ background: `var(${c.fill})` }} />
                  {c.words}
                </li>
              ))
            : (Object.keys(KIND_WORDS) as FrameKind[])
                .filter((k) => k !== "other" && has(k))
                .map((k) => (
                  <li>
                    <i class={`kd k-${k}`} />
                    {KIND_WORDS[k]}
                  </li>
                ))}
        </ul>
      </div>
      {block.cut > 0 && (
        <p class="pfoot">{value(block.kind, block.cut)} of it was deeper than is kept; it counts for its callers.</p>
      )}
    </section>
  );
}
