// cProfile's table for a range: calls, time without and with what is called below, callers, callees.
// A function that calls itself is counted once, as in the C++ report, which the tests compare.

import type { Profile } from './profile';
import { contains, type Range } from './range';

export interface Figures {
  id: number;
  calls: number;
  primitive: number;
  own: number;
  cumulative: number;
  /** Without first calls: for rates and shares of the ceiling. */
  ceiling: number;
  settled: number;
  flops: number;
  bytes: number;
  lit: boolean;
}

export type Group = 'function' | 'op' | 'signature' | 'line' | 'module';

export function groupOf(
  p: Profile,
  group: Group,
): { count: number; key: (event: number) => number; name: (id: number) => string } {
  switch (group) {
    case 'function':
      return { count: p.functions.length, key: (i) => p.functionOf[i], name: (id) => p.functionName(id) };
    case 'signature':
      return {
        count: p.header.signatures.length,
        key: (i) => p.event.signature[i],
        name: (id) => `${p.header.signatures[id].name} ${sizesOf(p, id)}`,
      };
    case 'line':
      return { count: p.lines.length, key: (i) => p.line(i), name: (id) => p.lineName(id) };
    case 'module':
      return { count: p.header.modules.length, key: (i) => p.event.module[i], name: (id) => p.modulePath(id) };
    case 'op': {
      const names: string[] = [];
      const ids = new Map<string, number>();
      const of = Int32Array.from(p.header.signatures, (s) => {
        if (!ids.has(s.name)) {
          ids.set(s.name, names.length);
          names.push(s.name);
        }
        return ids.get(s.name) as number;
      });
      return { count: names.length, key: (i) => of[p.event.signature[i]] ?? -1, name: (id) => names[id] };
    }
  }
}

function sizesOf(p: Profile, signature: number): string {
  return (p.header.signatures[signature].inputs ?? []).map(([, s]) => `[${(s ?? []).join(',')}]`).join(' ');
}

/** Whether an ancestor of an event has the same key. */
function recursive(p: Profile, key: (event: number) => number): Uint8Array {
  const out = new Uint8Array(p.n);
  const open: number[] = [];
  const counts = new Map<number, number>();
  // Events of a thread nest, so the open calls are a stack; another thread begins a new one.
  let thread = -2;
  for (let i = 0; i < p.n; i++) {
    if (p.event.thread[i] !== thread) {
      thread = p.event.thread[i];
      open.length = 0;
      counts.clear();
      for (const up of ancestors(p, i)) {
        open.push(up);
        counts.set(key(up), (counts.get(key(up)) ?? 0) + 1);
      }
    }
    while (open.length > 0 && open[open.length - 1] !== p.event.parent[i]) {
      const k = key(open.pop() as number);
      counts.set(k, (counts.get(k) as number) - 1);
    }
    const k = key(i);
    out[i] = (counts.get(k) ?? 0) > 0 ? 1 : 0;
    open.push(i);
    counts.set(k, (counts.get(k) ?? 0) + 1);
  }
  return out;
}

const nestings = new WeakMap<Profile, Map<Group, Uint8Array>>();

/** recursive(), once for each profile and group. */
function recursiveIn(p: Profile, group: Group, key: (event: number) => number): Uint8Array {
  let known = nestings.get(p);
  if (!known) nestings.set(p, (known = new Map()));
  let nested = known.get(group);
  if (!nested) known.set(group, (nested = recursive(p, key)));
  return nested;
}

function ancestors(p: Profile, event: number): number[] {
  const out: number[] = [];
  for (let i = p.event.parent[event]; i >= 0; i = p.event.parent[i]) out.unshift(i);
  return out;
}

export function figures(p: Profile, group: Group, range: Range | null, mask: Uint8Array | null): Figures[] {
  const { count, key } = groupOf(p, group);
  const nested = recursiveIn(p, group, key);
  const rows: Figures[] = Array.from({ length: count }, (_, id) => ({
    id,
    calls: 0,
    primitive: 0,
    own: 0,
    cumulative: 0,
    ceiling: 0,
    settled: 0,
    flops: 0,
    bytes: 0,
    lit: false,
  }));
  for (let i = 0; i < p.n; i++) {
    if (!contains(range, p.event.begin[i])) continue;
    const row = rows[key(i)];
    if (!row) continue;
    row.calls++;
    row.own += p.event.self[i];
    if (!nested[i]) {
      row.primitive++;
      row.cumulative += p.time(i);
    }
    const s = p.event.signature[i];
    if (p.isOp[s]) {
      row.flops += p.header.signatures[s].flops;
      row.bytes += p.header.signatures[s].bytes;
      if (!p.event.first[i] && p.event.ceiling_ns[i] >= 0) {
        row.ceiling += p.event.ceiling_ns[i];
        row.settled += p.time(i);
      }
    }
    if (mask && mask[i]) row.lit = true;
  }
  return rows.filter((r) => r.calls > 0);
}

export interface Link {
  id: number;
  calls: number;
  own: number;
  cumulative: number;
}

/** Who calls the functions of `id`, or whom they call; -1 is the program itself. */
export function links(p: Profile, group: Group, id: number, which: 'callers' | 'callees', range: Range | null): Link[] {
  const { key } = groupOf(p, group);
  const found = new Map<number, Link>();
  for (let i = 0; i < p.n; i++) {
    if (!contains(range, p.event.begin[i])) continue;
    const parent = p.event.parent[i];
    const mine = which === 'callers' ? key(i) : parent >= 0 ? key(parent) : -1;
    if (mine !== id) continue;
    const other = which === 'callers' ? (parent >= 0 ? key(parent) : -1) : key(i);
    let link = found.get(other);
    if (!link) found.set(other, (link = { id: other, calls: 0, own: 0, cumulative: 0 }));
    link.calls++;
    link.own += p.event.self[i];
    link.cumulative += p.time(i);
  }
  return [...found.values()].sort((a, b) => b.cumulative - a.cumulative);
}
