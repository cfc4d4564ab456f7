// A table or tree as areas: the first of all and its parts in colour, all else grey. The line above names the box under
// the pointer or the focus.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { TableBlock } from "../lib/document";
import { percent, value, visible } from "../lib/format";
import { useWidth } from "../lib/hooks";
import { shortName } from "../lib/names";
import { useQuery } from "../lib/router";
import { isDrawn, stepIn, stepOut, treemap, wayTo } from "../lib/treemap";

const HEIGHT = 300,
  LETTER = 7.1;

/** A namespace can be left out; "stack of thread ..." and ".Lines → OrderLine[]" are no names. */
function brief(name: string): string {
  return visible(name.includes(" ") ? name : shortName(name));
}

function label(name: string, width: number): string {
  const room = Math.floor((width - 10) / LETTER),
    text = visible(name),
    short = text.length <= room ? text : brief(name);
  return short.length <= room ? short : `${short.slice(0, Math.max(room - 1, 0))}…`;
}

export function Treemap({ block, id }: { block: TableBlock; id: string }) {
  const [ref, width] = useWidth<HTMLDivElement>(),
    [at, setAt] = useQuery(`${id}.map`);
  const map = useMemo(() => treemap(block), [block]);
  const [focus, setFocus] = useState(-1),
    [hover, setHover] = useState(-1),
    svg = useRef<SVGSVGElement>(null),
    moved = useRef(false);
  const asked = at ? Number(at) : -1,
    zoom = map?.boxes[asked]?.branch ? asked : -1;
  useEffect(() => {
    if (!moved.current) return;
    moved.current = false;
    svg.current?.querySelector<SVGElement>(`[data-at="${focus}"]`)?.focus();
  });
  if (!map) return null;
  const kind = block.columns[map.column]!.kind,
    z = zoom >= 0 ? map.boxes[zoom]! : { x: 0, y: 0, w: 1, h: 1 };
  const shown = map.boxes.map((_, i) => i).filter((i) => isDrawn(map, i, zoom));
  const placed =
    width > 0
      ? shown.map((i) => {
          const b = map.boxes[i]!,
            w = Math.max((b.w / z.w) * width, 0),
            h = Math.max((b.h / z.h) * HEIGHT, 0);
          return { i, b, x: ((b.x - z.x) / z.w) * width, y: ((b.y - z.y) / z.h) * HEIGHT, w, h };
        })
      : [];
  const tab = shown.includes(focus) ? focus : shown[0]!;
  const move = (to: number | undefined) => {
    if (to === undefined) return;
    moved.current = true;
    setFocus(to);
  };
  const go = (to: number, then: number) => {
    setAt(to >= 0 ? String(to) : "");
    setHover(-1);
    move(then);
  };
  const goIn = (box: number) => {
    const to = stepIn(map, zoom, box);
    if (to !== zoom) go(to, box);
  };
  const goOut = () => zoom >= 0 && go(stepOut(map, zoom), focus);
  function onKey(e: KeyboardEvent) {
    const i = shown.indexOf(tab);
    if (e.key === "ArrowRight" || e.key === "ArrowDown") move(shown[i + 1]);
    else if (e.key === "ArrowLeft" || e.key === "ArrowUp") move(shown[i - 1]);
    else if (e.key === "Enter" || e.key === " ") goIn(tab);
    else if (e.key === "Escape" && zoom >= 0) goOut();
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
  const told = hover >= 0 ? hover : focus >= 0 && shown.includes(focus) ? focus : zoom;
  const says = told >= 0 ? map.boxes[told]! : null;
  return (
    <section class="panel map">
      <div class="ph">
        <h2>Where the {value(kind, map.whole)} are</h2>
        <div class="end">
          <button type="button" class="btn sm quiet" disabled={zoom < 0} onClick={goOut}>
            Back
          </button>
        </div>
      </div>
      <div class="fl-path">
        <span class="mono">{says ? wayTo(map, told).map(brief).join(" › ") : "all"}</span>
        <span class="nowrap">
          {value(kind, says ? says.weight : map.whole)}
          {says && `, ${percent(says.weight / map.whole)}`}
        </span>
      </div>
      <div class="tm">
        <div ref={ref}>
          <svg
            ref={svg}
            width="100%"
            height={HEIGHT}
            role="group"
            aria-label={`${block.title} as areas: ${value(kind, map.whole)} in all. Arrows move, Enter goes in, Escape goes out.`}
            onKeyDown={onKey}
            onMouseLeave={() => setHover(-1)}
          >
            {placed.map(({ i, b, x, y, w, h }) => (
              <g
                key={i}
                class={b.main ? "main" : b.rest ? "rest" : "more"}
                data-at={i}
                tabIndex={i === tab ? 0 : -1}
                role="button"
                aria-label={`${visible(b.name)}, ${value(kind, b.weight)}, ${percent(b.weight / map.whole)}`}
                onClick={() => {
                  setFocus(i);
                  goIn(i);
                }}
                onMouseEnter={() => setHover(i)}
                onFocus={() => focus !== i && setFocus(i)}
              >
                <rect x={x} y={y} width={w} height={h} />
              </g>
            ))}
            {/* Words that are cut to fit are for the eye only. */}
            <g class="words" aria-hidden="true">
              {placed.map(({ i, b, x, y, w, h }) => (
                <g key={i}>
                  {w >= 44 && h >= 18 && (
                    <text x={x + 6} y={y + 14}>
                      {label(b.name, w)}
                    </text>
                  )}
                  {w >= 44 && h >= 34 && (
                    <text class="v" x={x + 6} y={y + 28}>
                      {value(kind, b.weight)}
                    </text>
                  )}
                </g>
              ))}
            </g>
          </svg>
        </div>
      </div>
      <ul class="lg">
        <li>
          <i class="kd tm-main" />
          {visible(map.boxes.find((b) => b.main)?.name ?? "")},{" "}
          {value(kind, map.boxes.find((b) => b.main)?.weight ?? 0)}
        </li>
        <li>
          <i class="kd tm-more" />
          everything else, {value(kind, map.whole - (map.boxes.find((b) => b.main)?.weight ?? 0))}
        </li>
      </ul>
    </section>
  );
}
