// Why one call was slow: the parts of its excess over the median call of its kind. They sum to it.

import { OP, type Profile } from './profile';

export interface Part {
  name: string;
  ns: number;
}

export interface Slow {
  time: number;
  median: number;
  calls: number;
  rank: number;
  excess: number;
  parts: Part[];
}

const KINDS = ['page faults', 'waiting', 'preempted'];

export function median(values: ArrayLike<number>): number {
  if (values.length === 0) return 0;
  const sorted = Float64Array.from(values).sort();
  const mid = sorted.length >> 1;
  return sorted.length % 2 ? sorted[mid] : (sorted[mid - 1] + sorted[mid]) / 2;
}

/** The calls with the same signature, in the order of the recording. */
export function callsLike(p: Profile, call: number): number[] {
  const out: number[] = [];
  const s = p.event.signature[call];
  for (let i = 0; i < p.n; i++) if (p.event.signature[i] === s) out.push(i);
  return out;
}

/** Time of a call's stalls by kind, as far as their ends were seen. */
function stalls(p: Profile): Map<number, number[]> {
  const kind = p.columns['stall.kind'];
  const duration = p.columns['stall.duration'];
  const event = p.columns['stall.event'];
  const out = new Map<number, number[]>();
  if (!kind || !duration || !event) return out;
  for (let i = 0; i < kind.length; i++) {
    let sums = out.get(event[i]);
    if (!sums) out.set(event[i], (sums = [0, 0, 0]));
    if (kind[i] >= 0 && kind[i] < sums.length) sums[kind[i]] += duration[i];
  }
  return out;
}

export function whySlow(p: Profile, call: number): Slow {
  const like = callsLike(p, call);
  const middle = median(like.map((i) => p.time(i)));
  const time = p.time(call);
  const excess = time - middle;
  const sums = stalls(p);
  const parts: Part[] = [];
  let explained = 0;
  const add = (name: string, ns: number): void => {
    if (ns !== 0) parts.push({ name, ns });
    explained += ns;
  };
  KINDS.forEach((name, k) => {
    const of = (i: number): number => sums.get(i)?.[k] ?? 0;
    add(name, of(call) - median(like.map(of)));
  });
  const below = (i: number): number => p.time(i) - p.event.self[i];
  add('calls below it', below(call) - median(like.map(below)));
  const first = like[0] === call && like.length > 1 && p.header.signatures[p.event.signature[call]].kind === OP;
  add(first ? 'first call: new memory, primitives' : 'not explained by the recording', excess - explained);
  return {
    time,
    median: middle,
    calls: like.length,
    rank: like.filter((i) => p.time(i) > time).length + 1,
    excess,
    parts,
  };
}
