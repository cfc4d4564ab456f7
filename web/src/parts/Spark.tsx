import type { Series } from "../lib/history";

/** The last minutes, from zero; the value stands beside it as text, so readers need not hear it. */
export function Spark({ series, tone = "", windowMs = 600000 }: { series: Series; tone?: string; windowMs?: number }) {
  const n = series.t.length;
  if (!n) return <svg class="spark" viewBox="0 0 100 24" aria-hidden="true" />;
  const to = series.t[n - 1]!,
    from = Math.max(to - windowMs, Math.min(series.t[0]!, to - 60000));
  let most = 0,
    first = 0;
  while (first < n - 1 && series.t[first]! < from) first++;
  for (let i = first; i < n; i++) most = Math.max(most, series.v[i] ?? 0);
  const x = (i: number) => ((series.t[i]! - from) / (to - from || 1)) * 100,
    y = (v: number) => 23 - (v / (most || 1)) * 20;
  const step = Math.max(1, Math.floor((n - first) / 120));
  let line = "",
    area = "",
    open = false,
    start = 0,
    lastX = 0;
  for (let i = first; i < n; i += i + step < n || i === n - 1 ? step : n - 1 - i) {
    const v = series.v[i];
    if (v === null || v === undefined) {
      if (open) area += `L${lastX.toFixed(1)} 24Z`;
      open = false;
      continue;
    }
    lastX = x(i);
    const point = `${lastX.toFixed(1)} ${y(v).toFixed(1)}`;
    line += `${open ? "L" : "M"}${point}`;
    if (!open) start = lastX;
    area += open ? `L${point}` : `M${start.toFixed(1)} 24L${point}`;
    open = true;
  }
  if (open) area += `L${lastX.toFixed(1)} 24L${start.toFixed(1)} 24Z`;
  const end = series.v[n - 1];
  return (
    <svg class={`spark ${tone}`} viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      <path class="a" d={area} />
      <path class="l" d={line} />
      {end !== null && end !== undefined && <path class="e" d={`M${x(n - 1).toFixed(1)} ${y(end).toFixed(1)}h.01`} />}
    </svg>
  );
}
