// The dots of the roofline: call kinds (an op with its sizes) by FLOPs per byte and FLOPs per second.
// First calls are apart: they touch new memory and make primitives.

import type { Profile } from './profile';
import { contains, type Range } from './range';

export interface Dot {
  signature: number;
  first: boolean;
  calls: number;
  time: number;
  intensity: number;
  rate: number;
  bytesRate: number;
  ceilingShare: number;
}

export function dots(p: Profile, range: Range | null): Dot[] {
  const sums = new Map<number, { calls: number; time: number; ceiling: number }>();
  const { event } = p;
  for (let i = 0; i < p.n; i++) {
    const s = event.signature[i];
    if (!p.isOp[s] || !contains(range, event.begin[i])) continue;
    const key = 2 * s + (event.first[i] ? 1 : 0);
    let row = sums.get(key);
    if (!row) sums.set(key, (row = { calls: 0, time: 0, ceiling: 0 }));
    row.calls++;
    row.time += p.time(i);
    row.ceiling += Math.max(0, event.ceiling_ns[i]);
  }
  const out: Dot[] = [];
  for (const [key, row] of sums) {
    const signature = key >> 1;
    const { flops, bytes } = p.header.signatures[signature];
    if (!(flops > 0) || !(bytes > 0) || !(row.time > 0)) continue;
    out.push({
      signature,
      first: key % 2 === 1,
      calls: row.calls,
      time: row.time,
      intensity: flops / bytes,
      rate: (flops * row.calls * 1e9) / row.time,
      bytesRate: (bytes * row.calls * 1e9) / row.time,
      ceilingShare: row.ceiling / row.time,
    });
  }
  return out.sort((a, b) => b.time - a.time);
}
