// The tracks of the timeline beside the calls: steps, modules, stalls, pool threads, and the arrow
// between a forward call and its backward node.

import type { Profile } from './profile';

export const STALLS = ['page faults', 'waiting', 'preempted'];

export interface Span {
  id: number;
  from: number;
  to: number;
  event: number;
}

export function stepsIn(p: Profile, t0: number, t1: number): Span[] {
  const begin = p.columns['step.begin'];
  const end = p.columns['step.end'];
  if (!begin || !end) return [];
  const out: Span[] = [];
  for (let i = 0; i < begin.length; i++)
    if (end[i] > t0 && begin[i] < t1) out.push({ id: i, from: begin[i], to: end[i], event: -1 });
  return out;
}

export function stallsIn(p: Profile, kind: number, t0: number, t1: number): Span[] {
  const kinds = p.columns['stall.kind'];
  const begin = p.columns['stall.begin'];
  const duration = p.columns['stall.duration'];
  const event = p.columns['stall.event'];
  if (!kinds || !begin || !duration) return [];
  const out: Span[] = [];
  for (let i = 0; i < begin.length; i++)
    if (kinds[i] === kind && begin[i] + duration[i] >= t0 && begin[i] < t1)
      out.push({ id: i, from: begin[i], to: begin[i] + duration[i], event: event ? event[i] : -1 });
  return out.sort((a, b) => a.from - b.from);
}

export function poolIn(p: Profile, thread: number, t0: number, t1: number): Span[] {
  const threads = p.columns['pool.thread'];
  const begin = p.columns['pool.begin'];
  const end = p.columns['pool.end'];
  const event = p.columns['pool.event'];
  if (!threads || !begin || !end) return [];
  const out: Span[] = [];
  for (let i = 0; i < begin.length; i++)
    if (threads[i] === thread && end[i] > t0 && begin[i] < t1)
      out.push({ id: i, from: begin[i], to: end[i], event: event ? event[i] : -1 });
  return out.sort((a, b) => a.from - b.from);
}

/** The innermost modules as they ran, calls of one module after another as one span; at most two a pixel. */
export function moduleSpans(p: Profile, t0: number, t1: number, pixels: number): Span[] {
  const out: Span[] = [];
  const least = (t1 - t0) / Math.max(1, pixels);
  for (let i = 0; i < p.n; i++) {
    if (p.event.begin[i] >= t1 || p.event.end[i] <= t0 || p.event.module[i] < 0 || !p.isOp[p.event.signature[i]])
      continue;
    const last = out[out.length - 1];
    if (last && last.id === p.event.module[i] && p.event.begin[i] - last.to < 3 * least)
      last.to = Math.max(last.to, p.event.end[i]);
    else if (last && last.to - last.from < least && p.event.begin[i] - last.from < least) continue;
    else out.push({ id: p.event.module[i], from: p.event.begin[i], to: p.event.end[i], event: i });
  }
  return out;
}

/** The pair forward call, backward node that a call is part of. */
export function forwardPair(p: Profile, call: number): [number, number] | null {
  const forward = p.event.forward[call];
  if (forward >= 0) return [forward, call];
  for (let i = 0; i < p.n; i++) if (p.event.forward[i] === call) return [call, i];
  return null;
}
