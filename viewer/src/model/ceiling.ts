// "At the ceiling": what the run would take if the calls of chosen op kinds ran at the measured
// ceiling. It only sums columns: an op's time beyond event.ceiling_ns would be saved. First calls
// stay as they are, since they touch new memory and make primitives.

import type { Profile } from './profile';
import { contains, length, type Range } from './range';

export interface AtBest {
  name: string;
  family: string;
  calls: number;
  time: number;
  ceiling: number;
  saving: number;
}

/** For each op name: the time of its settled calls, their time at the ceiling, and the difference. */
export function savings(p: Profile, range: Range | null): AtBest[] {
  const rows = new Map<string, AtBest>();
  const { event } = p;
  for (let i = 0; i < p.n; i++) {
    const s = event.signature[i];
    if (!p.isOp[s] || !contains(range, event.begin[i])) continue;
    const { name, family } = p.header.signatures[s];
    let row = rows.get(name);
    if (!row) rows.set(name, (row = { name, family, calls: 0, time: 0, ceiling: 0, saving: 0 }));
    const time = event.self[i];
    const ceiling = event.ceiling_ns[i];
    row.calls++;
    row.time += time;
    row.ceiling += ceiling >= 0 && !event.first[i] ? Math.min(ceiling, time) : time;
  }
  for (const row of rows.values()) row.saving = row.time - row.ceiling;
  return [...rows.values()].sort((a, b) => b.saving - a.saving);
}

export interface Scenario {
  before: number;
  after: number;
  /** The op that then takes the most time. */
  next: string;
  nextTime: number;
  perStep: { before: number; after: number } | null;
}

/** `shares` says how far each op is dragged: 0 as measured, 1 at the ceiling. */
export function scenario(
  p: Profile,
  rows: AtBest[],
  shares: Record<string, number>,
  range: Range | null,
  steps: number,
): Scenario {
  const before = length(range, p.duration);
  let saved = 0;
  let next = '';
  let nextTime = -1;
  for (const row of rows) {
    const saving = row.saving * Math.min(1, Math.max(0, shares[row.name] ?? 0));
    saved += saving;
    if (row.time - saving > nextTime) {
      next = row.name;
      nextTime = row.time - saving;
    }
  }
  const after = Math.max(0, before - saved);
  return {
    before,
    after,
    next,
    nextTime,
    perStep: steps > 0 ? { before: before / steps, after: after / steps } : null,
  };
}
