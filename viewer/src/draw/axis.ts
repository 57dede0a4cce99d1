// Axes: round ticks with units, thin lines behind the data.

import type { Painter } from './painter';

export interface Scale {
  (value: number): number;
  ticks(count: number): number[];
}

/** Multiples of 1, 2 or 5 times a power of ten inside a range, about `count` of them. */
export function roundTicks(from: number, to: number, count: number): number[] {
  const span = to - from;
  if (!(span > 0) || !Number.isFinite(span)) return [from];
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough * 0.8) ?? 10 * power;
  const out: number[] = [];
  // Adding 0 turns -0 into 0.
  const first = Math.ceil(from / step - 1e-9) + 0;
  const last = Math.floor(to / step + 1e-9);
  // Multiples, not sums: sums of a step drift. Steps below one divide, since 0.1 has no exact double.
  for (let k = first; k <= last; k++) out.push(step < 1 ? k / Math.round(1 / step) : k * step);
  return out;
}

export function linear(domain: [number, number], range: [number, number]): Scale {
  const from = domain[0];
  const to = domain[1] === from ? from + 1 : domain[1];
  const slope = (range[1] - range[0]) / (to - from);
  const scale = (value: number): number => range[0] + (value - from) * slope;
  return Object.assign(scale, { ticks: (count: number) => roundTicks(from, to, count) });
}

export function logarithmic(domain: [number, number], range: [number, number]): Scale {
  const base = Math.log(domain[0]);
  const slope = (range[1] - range[0]) / (Math.log(domain[1]) - base || 1);
  const scale = (value: number): number => range[0] + (Math.log(value) - base) * slope;
  return Object.assign(scale, { ticks: () => logTicks(domain[0], domain[1]) });
}

/** Powers of ten inside a domain; with few of them also their doubles and fives. */
export function logTicks(from: number, to: number): number[] {
  const decades = Math.log10(to / from);
  const steps = decades > 3 ? [1] : decades > 1.5 ? [1, 3] : [1, 2, 5];
  const out: number[] = [];
  for (let e = Math.floor(Math.log10(from)); e <= Math.ceil(Math.log10(to)); e++)
    for (const s of steps) {
      const v = s * 10 ** e;
      if (v >= from * 0.999 && v <= to * 1.001) out.push(v);
    }
  return out;
}

const TICK_GAP = 6;

/** "5 s" of "5.00 s": ticks are round. */
const short = (text: string): string =>
  text
    .replace(/^(−?\d+)\.0+(?=\s|$)/, '$1')
    .replace(/(\.\d*[1-9])0+(?=\s|$)/, '$1')
    .replace(/^0 \D+$/, '0');

/** Ticks below a plot. */
export function bottomAxis(
  p: Painter,
  scale: Scale,
  ticks: number[],
  y: number,
  top: number,
  format: (v: number) => string,
  title = '',
): void {
  let free = -Infinity;
  let last = '';
  for (const tick of ticks) {
    const x = scale(tick);
    if (top < y)
      p.line(
        [
          [x, top],
          [x, y],
        ],
        p.theme.line,
        1,
      );
    const text = short(format(tick));
    const half = p.measure(text, { size: 11 }) / 2;
    if (x - half < free || text === last) continue;
    last = text;
    p.text(text, Math.max(half, Math.min(x, p.width - half - 1)), y + 10, {
      anchor: 'middle',
      color: p.theme.dim,
      size: 11,
    });
    free = x + half + TICK_GAP;
  }
  if (title) p.text(title, p.width - 8, y + 26, { anchor: 'end', color: p.theme.dim, size: 11 });
}

/** Ticks left of a plot. */
export function leftAxis(
  p: Painter,
  scale: Scale,
  ticks: number[],
  x: number,
  right: number,
  format: (v: number) => string,
  title = '',
): void {
  for (const tick of ticks) {
    const y = scale(tick);
    p.line(
      [
        [x, y],
        [right, y],
      ],
      p.theme.line,
      1,
    );
    p.text(short(format(tick)), x - 6, y, { anchor: 'end', color: p.theme.dim, size: 11, max: x - 8 });
  }
  if (title) p.text(title, 4, 8, { color: p.theme.dim, size: 11 });
}
