// Memory over time and what was alive at a moment. Blocks are in the order in which they were taken
// and given back (equal times are common), so a moment is a place in that order.

import type { Profile } from './profile';

export interface Moment {
  /** Changes 0..place have happened. */
  place: number;
  time: number;
  bytes: number;
}

/** The changes of memory in use, in order: the block, and whether it is taken or given back. */
export class MemoryUse {
  readonly times: Float64Array;
  readonly blocks: Int32Array;
  readonly sign: Int8Array;
  /** Bytes in use after each change. */
  readonly total: Float64Array;
  readonly atStart: number;
  readonly peak: Moment;

  constructor(readonly p: Profile) {
    const a = p.allocation;
    const changes: { at: number; order: number; block: number; sign: number }[] = [];
    let atStart = 0;
    for (let b = 0; b < p.blocks; b++) {
      if (a.before[b]) atStart += a.bytes[b];
      else changes.push({ at: a.begin[b], order: a.order[b], block: b, sign: 1 });
      if (a.end[b] >= 0) changes.push({ at: a.end[b], order: a.freed_order[b], block: b, sign: -1 });
    }
    const ordered = changes.every((c) => c.order >= 0);
    changes.sort((x, y) => (ordered ? x.order - y.order : x.at - y.at || x.sign - y.sign));
    const n = changes.length;
    this.times = Float64Array.from(changes, (c) => c.at);
    this.blocks = Int32Array.from(changes, (c) => c.block);
    this.sign = Int8Array.from(changes, (c) => c.sign);
    this.total = new Float64Array(n);
    this.atStart = atStart;
    let bytes = atStart;
    this.peak = { place: -1, time: 0, bytes };
    let latest = 0;
    for (let i = 0; i < n; i++) {
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
    const a = this.p.allocation;
    const categories = Math.max(1, this.p.header.categories.length);
    const out = Array.from({ length: categories }, () => new Float64Array(columns));
    const now = new Float64Array(categories);
    const put = (column: number): void => {
      for (let c = 0; c < categories; c++) out[c][column] = now[c];
    };
    for (let b = 0; b < this.p.blocks; b++) if (a.before[b]) now[Math.max(0, a.category[b])] += a.bytes[b];
    let column = 0;
    let best = -1;
    let bytes = this.atStart;
    const width = (to - from) / columns;
    let i = 0;
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
    const two = child(one, `${category}/${module}`, p.modulePath(module) || 'no module', module >= 0 ? `module:${module}` : '', category);
    const three = child(two, `${category}/${module}/${line}`, line >= 0 ? p.lineName(line) : 'no line', line >= 0 ? `line:${line}` : '', category);
    const leaf: TreeBlock = { name: event >= 0 ? p.name(event) : 'block', key: `block:${b}`, category, bytes: a.bytes[b], blocks: 1, children: [] };
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
