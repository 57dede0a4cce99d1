// What the panel says of a selection: figures of its calls in a range.

import type { Profile } from './profile';
import { contains, type Range } from './range';
import type { Selection } from './selection';
import { median } from './slow';

export interface Summary {
  calls: number;
  /** Self time of all calls. */
  time: number;
  /** Time with what is called below; nested calls of the selection once. */
  cumulative: number;
  median: number;
  phases: [number, number, number];
  flops: number;
  bytes: number;
  /** Settled calls: their time, and what it would be at the ceiling. */
  settled: number;
  ceiling: number;
  first: number;
  stalled: number;
  allocated: number;
  sites: Map<number, number>;
  modules: Map<number, number>;
  steps: number;
  /** Durations in order, for the little curve. */
  durations: number[];
}

/** Whether an event belongs to the selection itself, not only to what it lights. */
export function belongs(p: Profile, s: Selection): ((i: number) => boolean) | null {
  const id = Number(s.id);
  switch (s.kind) {
    case 'op':
      return (i) => p.header.signatures[p.event.signature[i]].name === s.id;
    case 'sig':
      return (i) => p.event.signature[i] === id;
    case 'fn':
      return (i) => p.functionOf[i] === id;
    case 'line':
      return (i) => p.line(i) === id;
    case 'module': {
      const modules = p.moduleAndBelow(id);
      return (i) => modules.has(p.event.module[i]);
    }
    case 'step':
      return (i) => p.event.step[i] === id;
    case 'call':
      return (i) => i === id;
    default:
      return null;
  }
}

const MOST_DURATIONS = 4000;

export function summarize(p: Profile, s: Selection, range: Range | null): Summary | null {
  const mine = belongs(p, s);
  if (!mine) return null;
  const out: Summary = {
    calls: 0,
    time: 0,
    cumulative: 0,
    median: 0,
    phases: [0, 0, 0],
    flops: 0,
    bytes: 0,
    settled: 0,
    ceiling: 0,
    first: 0,
    stalled: 0,
    allocated: 0,
    sites: new Map(),
    modules: new Map(),
    steps: 0,
    durations: [],
  };
  const inside = new Uint8Array(p.n);
  const durations: number[] = [];
  const steps = new Set<number>();
  for (let i = 0; i < p.n; i++) {
    const parent = p.event.parent[i];
    const own = mine(i);
    inside[i] = own || (parent >= 0 && inside[parent]) ? 1 : 0;
    if (!own || !contains(range, p.event.begin[i])) continue;
    const s_ = p.event.signature[i];
    const self = p.event.self[i];
    out.calls++;
    out.time += self;
    if (!(parent >= 0 && inside[parent])) {
      out.cumulative += p.time(i);
      durations.push(p.time(i));
    }
    out.phases[Math.min(2, Math.max(0, p.event.phase[i]))] += self;
    out.allocated += Math.max(0, p.event.allocated[i]);
    out.stalled += Math.max(0, p.event.stalled[i]);
    out.sites.set(p.event.site[i], (out.sites.get(p.event.site[i]) ?? 0) + self);
    out.modules.set(p.event.module[i], (out.modules.get(p.event.module[i]) ?? 0) + self);
    if (p.event.step[i] >= 0) steps.add(p.event.step[i]);
    if (!p.isOp[s_]) continue;
    out.flops += p.header.signatures[s_].flops;
    out.bytes += p.header.signatures[s_].bytes;
    if (p.event.first[i]) out.first += self;
    else if (p.event.ceiling_ns[i] >= 0) {
      out.settled += self;
      out.ceiling += Math.min(self, p.event.ceiling_ns[i]);
    }
  }
  out.median = median(durations);
  out.steps = steps.size;
  const every = Math.ceil(durations.length / MOST_DURATIONS) || 1;
  for (let i = 0; i < durations.length; i += every) out.durations.push(durations[i]);
  return out;
}

/** The key with the largest value. */
export function largest(of: Map<number, number>): number {
  let best = -1;
  let most = -Infinity;
  for (const [key, value] of of)
    if (key >= 0 && value > most) {
      best = key;
      most = value;
    }
  return best;
}
