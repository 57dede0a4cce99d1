// Memory over time and what was alive at a moment. Blocks are in the order in which they were taken
// and given back (equal times are common), so a moment is a place in that order.

import type { Profile } from './profile';

export interface Moment {
  /** Changes 0..place have happened. */
  place: number;
  time: number;
  bytes: number;
}

/** Blocks taken (1) and given back (-1) in the order of the recording. */
function ordered(p: Profile): { block: Int32Array; sign: Int8Array; n: number; atStart: number } {
  const a = p.allocation;
  let n = 0;
  let atStart = 0;
  let last = -1;
  let known = true;
  const each = (take: (block: number, sign: number, place: number, time: number) => void): void => {
    for (let b = 0; b < p.blocks; b++) {
      if (!a.before[b]) take(b, 1, a.order[b], a.begin[b]);
      if (a.end[b] >= 0) take(b, -1, a.freed_order[b], a.end[b]);
    }
  };
  for (let b = 0; b < p.blocks; b++) if (a.before[b]) atStart += a.bytes[b];
  each((_b, _s, place) => {
    n++;
    known &&= place >= 0;
    last = Math.max(last, place);
  });
  const block = new Int32Array(n);
  const sign = new Int8Array(n);
  if (known && last < 8 * n + 64) {
    // Places are nearly all used: put each change there instead of sorting.
    const at = new Int32Array(last + 1).fill(-1);
    let clash = false;
    each((b, s, place) => {
      if (at[place] !== -1) clash = true;
      at[place] = 2 * b + (s > 0 ? 1 : 0);
    });
    if (!clash) {
      let i = 0;
      for (const change of at) {
        if (change < 0) continue;
        block[i] = change >> 1;
        sign[i++] = change & 1 ? 1 : -1;
      }
      return { block, sign, n, atStart };
    }
  }
  const changes: [number, number, number, number][] = [];
  each((b, s, place, time) => changes.push([known ? place : time, known ? time : s, b, s]));
  changes.sort((x, y) => x[0] - y[0] || x[1] - y[1]);
  changes.forEach(([, , b, s], i) => {
    block[i] = b;
    sign[i] = s;
  });
  return { block, sign, n, atStart };
}

/** So many changes lie between two snapshots of the use by category. */
const SNAPSHOT = 8192;
/** Results of stacked() that are kept: those of the brush and of a view or two. */
const CACHED = 6;

/** The changes of memory in use, in order: the block, and whether it is taken or given back. */
export class MemoryUse {
  readonly times: Float64Array;
  readonly blocks: Int32Array;
  readonly sign: Int8Array;
  /** Bytes in use after each change. */
  readonly total: Float64Array;
  readonly atStart: number;
  readonly peak: Moment;
  /** The use by category before each SNAPSHOT-th change. */
  private readonly snapshots: Float64Array[] = [];
  private readonly cache = new Map<string, Float64Array[]>();

  constructor(readonly p: Profile) {
    const a = p.allocation;
    const { block, sign, n, atStart } = ordered(p);
    this.blocks = block;
    this.sign = sign;
    this.times = new Float64Array(n);
    for (let i = 0; i < n; i++) this.times[i] = sign[i] > 0 ? a.begin[block[i]] : a.end[block[i]];
    this.total = new Float64Array(n);
    this.atStart = atStart;
    let bytes = atStart;
    this.peak = { place: -1, time: 0, bytes };
    let latest = 0;
    const now = new Float64Array(Math.max(1, p.header.categories.length));
    for (let b = 0; b < p.blocks; b++) if (a.before[b]) now[Math.max(0, a.category[b])] += a.bytes[b];
    if (n === 0) this.snapshots.push(now);
    for (let i = 0; i < n; i++) {
      if (i % SNAPSHOT === 0) this.snapshots.push(now.slice());
      now[Math.max(0, a.category[block[i]])] += sign[i] * a.bytes[block[i]];
      bytes += this.sign[i] * a.bytes[this.blocks[i]];
      this.total[i] = bytes;
      // Threads may note equal changes a little out of time; a moment never lies before an earlier one.
      latest = Math.max(latest, this.times[i]);
      this.times[i] = latest;
      if (bytes > this.peak.bytes) this.peak = { place: i, time: latest, bytes };
    }
  }

  /** The last change at or before a time. */
  at(time: number): Moment {
    let lo = 0;
    let hi = this.times.length;
    while (lo < hi) {
      const mid = (lo + hi) >>> 1;
      if (this.times[mid] <= time) lo = mid + 1;
      else hi = mid;
    }
    return { place: lo - 1, time, bytes: lo > 0 ? this.total[lo - 1] : this.atStart };
  }

  /** The largest use in a range. */
  peakIn(from: number, to: number): Moment {
    let best = this.at(from);
    for (let i = best.place + 1; i < this.times.length && this.times[i] < to; i++)
      if (this.total[i] > best.bytes) best = { place: i, time: this.times[i], bytes: this.total[i] };
    return best;
  }

  /** The blocks that are alive after the change at `place`. */
  alive(place: number): number[] {
    const on = new Uint8Array(this.p.blocks);
    for (let b = 0; b < this.p.blocks; b++) if (this.p.allocation.before[b]) on[b] = 1;
    for (let i = 0; i <= place; i++) on[this.blocks[i]] = this.sign[i] > 0 ? 1 : 0;
    const out: number[] = [];
    for (let b = 0; b < on.length; b++) if (on[b]) out.push(b);
    return out;
  }

  /**
   * For each of `columns` parts of a range the use by category at the largest moment in it:
   * out[category][column].
   */
  stacked(from: number, to: number, columns: number): Float64Array[] {
    const key = `${from}/${to}/${columns}`;
    let known = this.cache.get(key);
    if (!known) {
      if (this.cache.size >= CACHED) this.cache.delete(this.cache.keys().next().value as string);
      this.cache.set(key, (known = this.stack(from, to, columns)));
    }
    return known;
  }

  private stack(from: number, to: number, columns: number): Float64Array[] {
    const a = this.p.allocation;
    const categories = Math.max(1, this.p.header.categories.length);
    const out = Array.from({ length: categories }, () => new Float64Array(columns));
    const first = Math.max(0, this.at(from).place);
    const snapshot = Math.min(this.snapshots.length - 1, Math.floor(first / SNAPSHOT));
    const now = this.snapshots[snapshot].slice();
    const put = (column: number): void => {
      for (let c = 0; c < categories; c++) out[c][column] = now[c];
    };
    let column = 0;
    let best = -1;
    let i = snapshot * SNAPSHOT;
    let bytes = i > 0 ? this.total[i - 1] : this.atStart;
    const width = (to - from) / columns;
    const step = (): void => {
      const b = this.blocks[i];
      now[Math.max(0, a.category[b])] += this.sign[i] * a.bytes[b];
      bytes = this.total[i];
      i++;
    };
    while (i < this.times.length && this.times[i] < from) step();
    for (; column < columns; column++) {
      put(column);
      best = bytes;
      const until = from + (column + 1) * width;
      while (i < this.times.length && this.times[i] < until) {
        step();
        if (bytes > best) {
          best = bytes;
          put(column);
        }
      }
    }
    return out;
  }
}

export interface TreeBlock {
  name: string;
  key: string;
  category: number;
  bytes: number;
  blocks: number;
  children: TreeBlock[];
}

/** Blocks as category > module > line, each level in the order of bytes. */
export function blockTree(p: Profile, blocks: number[]): TreeBlock {
  const root: TreeBlock = { name: 'alive', key: '', category: -1, bytes: 0, blocks: 0, children: [] };
  const places = new Map<string, TreeBlock>();
  const child = (parent: TreeBlock, id: string, name: string, key: string, category: number): TreeBlock => {
    let node = places.get(id);
    if (!node) {
      node = { name, key, category, bytes: 0, blocks: 0, children: [] };
      places.set(id, node);
      parent.children.push(node);
    }
    return node;
  };
  const a = p.allocation;
  for (const b of blocks) {
    const category = Math.max(0, a.category[b]);
    const event = a.event[b];
    const module = a.module[b] >= 0 ? a.module[b] : event >= 0 ? p.event.module[event] : -1;
    const site = a.site[b] >= 0 ? a.site[b] : event >= 0 ? p.event.site[event] : -1;
    const line = site >= 0 ? p.lineOf[site] : -1;
    const one = child(root, `${category}`, p.header.categories[category] ?? 'blocks', '', category);
    const two = child(
      one,
      `${category}/${module}`,
      p.moduleLabel(module) || 'no module',
      module >= 0 ? `module:${module}` : '',
      category,
    );
    const three = child(
      two,
      `${category}/${module}/${line}`,
      line >= 0 ? p.lineName(line) : 'no line',
      line >= 0 ? `line:${line}` : '',
      category,
    );
    const leaf: TreeBlock = {
      name: event >= 0 ? p.name(event) : 'block',
      key: `block:${b}`,
      category,
      bytes: a.bytes[b],
      blocks: 1,
      children: [],
    };
    three.children.push(leaf);
    for (const node of [root, one, two, three]) {
      node.bytes += a.bytes[b];
      node.blocks++;
    }
  }
  const open = [root];
  while (open.length > 0) {
    const node = open.pop() as TreeBlock;
    node.children.sort((x, y) => y.bytes - x.bytes);
    open.push(...node.children);
  }
  return root;
}

export interface Checkpoint {
  module: number;
  /** Bytes of activations of the module that are alive at the peak. */
  saved: number;
  /** Time of the module's forward calls, which would run again. */
  repeated: number;
}

/** What checkpointing a module would save at the peak, and the forward time that it would repeat in a step. */
export function checkpoints(p: Profile, blocks: number[], steps: number): Checkpoint[] {
  const activation = p.header.categories.findIndex((c) => c.startsWith('activation'));
  const own = new Float64Array(p.header.modules.length);
  const time = new Float64Array(p.header.modules.length);
  for (const b of blocks) {
    const event = p.allocation.event[b];
    const module = p.allocation.module[b] >= 0 ? p.allocation.module[b] : event >= 0 ? p.event.module[event] : -1;
    if (p.allocation.category[b] === activation && module >= 0) own[module] += p.allocation.bytes[b];
  }
  for (let i = 0; i < p.n; i++)
    if (p.event.module[i] >= 0 && p.event.phase[i] === 0) time[p.event.module[i]] += p.event.self[i];
  const out: Checkpoint[] = [];
  p.header.modules.forEach((_, module) => {
    let saved = 0;
    let repeated = 0;
    for (const m of p.moduleAndBelow(module)) {
      saved += own[m];
      repeated += time[m];
    }
    if (saved > 0) out.push({ module, saved, repeated: repeated / Math.max(1, steps) });
  });
  return out.sort((a, b) => b.saved - a.saved);
}
