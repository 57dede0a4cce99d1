// The rows of layers.jsonl over the steps, as a matrix for one quantity.

import type { LayerLog } from '../data/header';

export const QUANTITIES: Record<string, string> = {
  gradient: 'gradient norm',
  weight: 'weight norm',
  update: 'update ratio',
  mean: 'output mean',
  deviation: 'output deviation',
  zeros: 'share of zeros',
};

export interface LogRow {
  name: string;
  values: (number | null)[];
}

type Figures = Record<string, Record<string, unknown>>;

const groupOf = (what: string): 'parameters' | 'modules' =>
  what === 'gradient' || what === 'weight' || what === 'update' ? 'parameters' : 'modules';

export function logRows(
  log: LayerLog[],
  what: string,
): { steps: number[]; rows: LogRow[]; least: number; most: number } {
  const group = groupOf(what);
  const rows = new Map<string, LogRow>();
  let least = Infinity;
  let most = -Infinity;
  log.forEach((entry, k) => {
    for (const [name, figures] of Object.entries((entry[group] ?? {}) as Figures)) {
      let row = rows.get(name);
      if (!row) rows.set(name, (row = { name, values: new Array(log.length).fill(null) }));
      const v = figures[what];
      if (typeof v !== 'number' || !Number.isFinite(v)) continue;
      row.values[k] = v;
      if (v > 0 || what === 'mean' || what === 'zeros') {
        least = Math.min(least, v);
        most = Math.max(most, v);
      }
    }
  });
  return { steps: log.map((e) => e.step), rows: [...rows.values()], least, most };
}

/** Histograms of one parameter: a row of counts for each step. */
export function histogram(
  log: LayerLog[],
  name: string,
  which: 'weights' | 'gradients',
): { steps: number[]; rows: number[][]; most: number } | null {
  const steps: number[] = [];
  const rows: number[][] = [];
  for (const entry of log) {
    const counts = entry.parameters?.[name]?.[which];
    if (!Array.isArray(counts)) continue;
    steps.push(entry.step);
    rows.push(counts);
  }
  if (rows.length === 0) return null;
  return { steps, rows, most: Math.max(1, ...rows.flat()) };
}
