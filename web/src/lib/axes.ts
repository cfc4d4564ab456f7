// Where the lines and labels of a chart stand.

/** A round number at or above, so that the three lines have short labels; bytes are round in their own units. */
export function roundUp(x: number, bytes = false): number {
  if (!(x > 0)) return 1;
  const unit = bytes ? 1024 ** Math.max(0, Math.floor(Math.log(x) / Math.log(1024))) : 1,
    y = x / unit;
  const power = 10 ** Math.floor(Math.log10(y));
  for (const m of [1, 1.5, 2, 3, 4, 5, 6, 8, 10]) if (m * power >= y * 1.02) return m * power * unit;
  return 10 * power * unit;
}

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

/** Times worth a label, at most four of them. second: how many units of x a second has. */
export function timeSteps(from: number, to: number, second: number, most = 4): number[] {
  const span = to - from;
  if (!(span > 0)) return [from];
  let step = 0;
  for (let power = 10 ** Math.floor(Math.log10(span)) / 10; !step && power < second; power *= 10)
    for (const m of [1, 2, 5]) if (!step && m * power < second && span / (m * power) <= most + 0.5) step = m * power;
  for (const s of STEPS_S) if (!step && span / (s * second) <= most + 0.5) step = s * second;
  step ||= 10 ** Math.ceil(Math.log10(span / most));
  const found: number[] = [];
  for (let x = Math.ceil(from / step) * step; x <= to; x += step) found.push(x);
  return found;
}
