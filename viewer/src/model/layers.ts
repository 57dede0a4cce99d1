// A row a layer: the time of its forward, backward and update, its share of the ceiling, and what it
// keeps at the peak. A module's figures are its own; those of a container are its children's sums.

import type { Profile } from './profile';
import { contains, type Range } from './range';

export interface Layer {
  module: number;
  depth: number;
  parent: number;
  calls: number;
  forward: number;
  backward: number;
  update: number;
  flops: number;
  ceiling: number;
  settled: number;
  atPeak: number;
  children: number;
}

export function layers(p: Profile, range: Range | null, alive: number[]): Layer[] {
  const { modules } = p.header;
  const rows = modules.map(
    (m, module): Layer => ({
      module,
      depth: 0,
      parent: m.parent,
      calls: 0,
      forward: 0,
      backward: 0,
      update: 0,
      flops: 0,
      ceiling: 0,
      settled: 0,
      atPeak: 0,
      children: 0,
    }),
  );
  for (let i = 0; i < p.n; i++) {
    const row = rows[p.event.module[i]];
    if (!row || !contains(range, p.event.begin[i])) continue;
    const s = p.event.signature[i];
    const self = p.event.self[i];
    if (p.header.signatures[s].kind === 'module') row.calls++;
    if (p.event.phase[i] === 1) row.backward += self;
    else if (p.event.phase[i] === 2) row.update += self;
    else row.forward += self;
    if (!p.isOp[s]) continue;
    row.flops += p.header.signatures[s].flops;
    if (!p.event.first[i] && p.event.ceiling_ns[i] >= 0) {
      row.ceiling += p.event.ceiling_ns[i];
      row.settled += self;
    }
  }
  for (const b of alive) {
    const event = p.allocation.event[b];
    const module = p.allocation.module[b] >= 0 ? p.allocation.module[b] : event >= 0 ? p.event.module[event] : -1;
    if (rows[module]) rows[module].atPeak += p.allocation.bytes[b];
  }
  for (let i = rows.length - 1; i >= 0; i--) {
    const up = rows[rows[i].parent];
    if (!up || rows[i].parent >= i) continue;
    up.children++;
    for (const key of ['forward', 'backward', 'update', 'flops', 'ceiling', 'settled', 'atPeak'] as const)
      up[key] += rows[i][key];
  }
  const out: Layer[] = [];
  const visit = modules
    .map((_, i) => i)
    .filter((i) => !(modules[i].parent >= 0 && modules[i].parent < i))
    .reverse();
  while (visit.length > 0) {
    const i = visit.pop() as number;
    const up = rows[rows[i].parent];
    rows[i].depth = up && rows[i].parent < i ? up.depth + 1 : 0;
    out.push(rows[i]);
    for (const kid of [...p.moduleChildren(i)].reverse()) if (kid > i) visit.push(kid);
  }
  return out;
}
