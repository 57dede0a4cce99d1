// Curves of runs: by metric, smoothed, cut to what can be drawn. Values that are not finite stay as
// gaps with their place, so that a view can say where they are.

import { finite, type Header, type Series } from '../data/header';

export interface Curve {
  run: string;
  x: number[];
  /** NaN where the value was not finite. */
  y: number[];
  smooth: number[];
  bad: number;
}

/** Exponential smoothing, without the pull towards zero at the start: the first value is the true one. */
export function smoothed(values: number[], weight: number): number[] {
  if (weight <= 0) return values;
  let sum = 0;
  let total = 0;
  return values.map((v) => {
    if (Number.isFinite(v)) {
      sum = sum * weight + v;
      total = total * weight + 1;
    }
    return total > 0 ? sum / total : NaN;
  });
}

export function metricNames(series: Series[]): string[] {
  return [...new Set(series.map((s) => s.name))].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

const FIRST = ['loss', 'train', 'test', 'valid', 'accuracy', 'rate', 'speed', 'memory'];
const rank = (name: string): number => {
  const at = FIRST.findIndex((word) => name.toLowerCase().includes(word));
  return at < 0 ? FIRST.length : at;
};

export function curves(series: Series[], name: string, weight: number, byTime: boolean): Curve[] {
  return series
    .filter((s) => s.name === name)
    .map((s) => {
      const y = s.values.map((v) => (v === null || !Number.isFinite(v) ? NaN : v));
      const x = byTime && s.times && s.times.some((t) => t !== null) ? s.times.map((t) => t ?? NaN) : s.steps;
      return { run: s.run, x, y, smooth: smoothed(y, weight), bad: y.filter((v) => !Number.isFinite(v)).length };
    });
}

/** At most two points a column: the least and the largest of it, in order. */
export function thin(x: number[], y: number[], columns: number): [number, number][] {
  const finite: [number, number][] = [];
  for (let i = 0; i < x.length; i++) if (Number.isFinite(x[i]) && Number.isFinite(y[i])) finite.push([x[i], y[i]]);
  if (finite.length <= 2 * columns) return finite;
  const out: [number, number][] = [];
  const per = finite.length / columns;
  for (let c = 0; c < columns; c++) {
    const part = finite.slice(Math.floor(c * per), Math.floor((c + 1) * per));
    if (part.length === 0) continue;
    let lo = 0;
    let hi = 0;
    part.forEach((p, i) => {
      if (p[1] < part[lo][1]) lo = i;
      if (p[1] > part[hi][1]) hi = i;
    });
    out.push(part[Math.min(lo, hi)]);
    if (lo !== hi) out.push(part[Math.max(lo, hi)]);
  }
  return out;
}

/** Each number of the rows of a run's log, added to the curve of its name; as a new list. */
export function withRows(series: Series[], run: string, rows: Record<string, unknown>[]): Series[] {
  if (rows.length === 0) return series;
  const byName = new Map<string, Series>();
  for (const s of series)
    byName.set(s.name, { ...s, steps: [...s.steps], values: [...s.values], times: s.times && [...s.times] });
  rows.forEach((row, i) => {
    const time = finite(row.time);
    const step = finite(row.step) ?? time ?? i;
    for (const [name, value] of Object.entries(row)) {
      if (name === 'step' || name === 'time' || (typeof value !== 'number' && !NOT_FINITE.includes(String(value))))
        continue;
      let s = byName.get(name);
      if (!s) byName.set(name, (s = { run, name, steps: [], values: [], times: [] }));
      if (s.steps.length > 0 && step <= s.steps[s.steps.length - 1]) continue;
      s.times ??= s.steps.map(() => null);
      s.steps.push(step);
      s.values.push(finite(value));
      s.times.push(time);
    }
  });
  return [...byName.values()];
}

const NOT_FINITE = ['nan', 'inf', '-inf'];

/** The curves of a run: its metrics, and speed and memory from its live log. */
export const runSeries = (header: Header): Series[] => withRows(header.series, header.name, header.live);
