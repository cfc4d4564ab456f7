// One chart over time, by uPlot: from zero, three grid lines, numbers at the right, a crosshair shared by all charts of a
// page; dragging zooms, a double click goes back.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "preact/hooks";
import { roundUp, timeSteps } from "../lib/axes";
import { colour, forgetColours } from "../lib/colours";
import { useColours, useWidth } from "../lib/hooks";

export interface PlotProps {
  /** x, then one list a line; all of one length. */
  data: (number | null)[][];
  height: number;
  label: string;
  show: (y: number) => string;
  showX: (x: number) => string;
  /** How many units of x a second has. */
  second: number;
  bytes?: boolean;
  /** The least top of the scale. */
  top?: number;
  from?: number;
  to?: number;
  colours?: string[];
  filled?: boolean;
  /** Dashed lines at these x. */
  marks?: { x: number; open?: () => void }[];
  bars?: { x: number; length: number; y: number }[];
  sync?: string;
  onRange?: (from: number, to: number) => void;
  onReset?: () => void;
  onCursor?: (x: number | null, index: number | null) => void;
}

export function Plot(props: PlotProps) {
  const [box, width] = useWidth<HTMLDivElement>(),
    plot = useRef<uPlot | null>(null),
    colours = useColours();
  const now = useRef(props);
  now.current = props;
  const lines = props.data.length - 1;
  useEffect(() => {
    if (!width) return;
    forgetColours();
    const ink = (i: number) => colour(now.current.colours?.[i] ?? "--data");
    const font = "11px system-ui, sans-serif",
      weak = colour("--text-3"),
      grid = colour("--line");
    const top = () => {
      let most = now.current.top ?? 0;
      for (const line of now.current.data.slice(1)) for (const y of line) if (y !== null && y > most) most = y;
      for (const b of now.current.bars ?? []) most = Math.max(most, b.y);
      return roundUp(most, now.current.bytes);
    };
    const u = new uPlot(
      {
        width,
        height: props.height,
        padding: [6, 0, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          points: { size: 5 },
          drag: { x: true, y: false, setScale: false },
          ...(props.sync ? { sync: { key: props.sync, setSeries: false } } : {}),
        },
        scales: {
          x: { time: false, range: (_, min, max) => [now.current.from ?? min ?? 0, now.current.to ?? max ?? 1] },
          y: { range: () => [0, top()] },
        },
        axes: [
          {
            font,
            stroke: weak,
            size: 20,
            gap: 4,
            grid: { show: false },
            ticks: { show: false },
            splits: (u2, _, min, max) =>
              timeSteps(min, max, now.current.second, Math.max(3, Math.floor(u2.width / 110))),
            // A label in the corner would be cut.
            values: (u2, ticks) =>
              ticks.map((t) => {
                const x = u2.valToPos(t, "x");
                return x < 16 || x > u2.over.clientWidth - 12 ? "" : now.current.showX(t);
              }),
          },
          {
            side: 1,
            font,
            stroke: weak,
            size: 52,
            gap: 6,
            ticks: { show: false },
            grid: { stroke: grid, width: 1 },
            splits: () => [0, top() / 2, top()],
            values: (_, ticks) => ticks.map((t) => (t ? now.current.show(t) : "0")),
          },
        ],
        series: [
          {},
          ...Array.from({ length: lines }, (_, i) => ({
            stroke: () => ink(i),
            width: 1.5,
            points: { show: false },
            spanGaps: false,
            ...(props.filled
              ? { fill: () => colour(now.current.colours?.[i] === "--warn" ? "--warn-weak" : "--data-weak") }
              : {}),
          })),
        ],
        hooks: {
          draw: [
            (u2) => {
              const ctx = u2.ctx,
                ratio = devicePixelRatio || 1,
                { left, top: y0, height } = u2.bbox;
              ctx.save();
              ctx.fillStyle = ink(0);
              for (const b of now.current.bars ?? []) {
                const x = u2.valToPos(b.x, "x", true),
                  w = u2.valToPos(b.x + b.length, "x", true) - x,
                  y = u2.valToPos(b.y, "y", true);
                if (x + w < left || x > left + u2.bbox.width) continue;
                ctx.fillRect(x, y, Math.max(w, 1.5 * ratio), y0 + height - y);
              }
              ctx.strokeStyle = weak;
              ctx.setLineDash([2 * ratio, 2 * ratio]);
              for (const m of now.current.marks ?? []) {
                const x = u2.valToPos(m.x, "x", true);
                if (x < left || x > left + u2.bbox.width) continue;
                ctx.beginPath();
                ctx.moveTo(x, y0);
                ctx.lineTo(x, y0 + height);
                ctx.stroke();
              }
              ctx.restore();
            },
          ],
          setSelect: [
            (u2) => {
              if (u2.select.width > 4)
                now.current.onRange?.(
                  u2.posToVal(u2.select.left, "x"),
                  u2.posToVal(u2.select.left + u2.select.width, "x"),
                );
              u2.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
          setCursor: [
            (u2) =>
              now.current.onCursor?.(
                u2.cursor.left! >= 0 ? u2.posToVal(u2.cursor.left!, "x") : null,
                u2.cursor.idx ?? null,
              ),
          ],
        },
      },
      props.data as uPlot.AlignedData,
      box.current!,
    );
    u.over.addEventListener("dblclick", () => now.current.onReset?.());
    u.over.addEventListener("click", (e) => {
      const near = (now.current.marks ?? []).find((m) => m.open && Math.abs(u.valToPos(m.x, "x") - e.offsetX) < 5);
      near?.open?.();
    });
    plot.current = u;
    return () => {
      u.destroy();
      plot.current = null;
    };
  }, [width, props.height, lines, colours, props.sync, !!props.filled]);
  useEffect(
    () => plot.current?.setData(props.data as uPlot.AlignedData, true),
    [props.data, props.from, props.to, props.marks, props.bars],
  );
  return (
    <div class="uplot-box" ref={box} role="img" aria-label={props.label} style={{ height: `${props.height}px` }} />
  );
}
