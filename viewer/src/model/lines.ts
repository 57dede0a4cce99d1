// Figures of each line of a source file: time, calls, bytes, FLOPs, forward and backward apart.

import type { Profile } from './profile';
import { contains, type Range } from './range';

export interface LineFigures {
  line: number;
  calls: number;
  time: number;
  forward: number;
  backward: number;
  update: number;
  flops: number;
  bytes: number;
  atPeak: number;
}

/** By line id. Time is the self time of everything that is charged to the line. */
export function lineFigures(p: Profile, range: Range | null, alive: number[]): LineFigures[] {
  const rows = p.lines.map(
    (_, line): LineFigures => ({
      line,
      calls: 0,
      time: 0,
      forward: 0,
      backward: 0,
      update: 0,
      flops: 0,
      bytes: 0,
      atPeak: 0,
    }),
  );
  for (let i = 0; i < p.n; i++) {
    const line = p.line(i);
    if (line < 0 || !contains(range, p.event.begin[i])) continue;
    const row = rows[line];
    const s = p.event.signature[i];
    const self = p.event.self[i];
    row.time += self;
    if (p.event.phase[i] === 1) row.backward += self;
    else if (p.event.phase[i] === 2) row.update += self;
    else row.forward += self;
    if (!p.isOp[s]) continue;
    row.calls++;
    row.flops += p.header.signatures[s].flops;
    row.bytes += p.header.signatures[s].bytes;
  }
  for (const b of alive) {
    const event = p.allocation.event[b];
    const site = p.allocation.site[b] >= 0 ? p.allocation.site[b] : event >= 0 ? p.event.site[event] : -1;
    if (site >= 0) rows[p.lineOf[site]].atPeak += p.allocation.bytes[b];
  }
  return rows;
}
