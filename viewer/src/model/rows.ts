// The rows of the timeline: the events of one thread at one depth, which never overlap, in the
// order of begin; and for each row levels that answer "which is the longest of events i to j" in a
// few steps, so that a frame's cost depends on its pixels and not on the number of events.

export interface Row {
  thread: number;
  depth: number;
  /** Where the row's events lie in `order`. */
  from: number;
  to: number;
}

export interface Rows {
  depth: Int32Array;
  /** Events, row after row. */
  order: Int32Array;
  rows: Row[];
  /** levels[k][g]: the longest of the events order[g * FAN^(k+1)] and the following FAN^(k+1). */
  levels: Int32Array[];
}

export const FAN = 16;

/** Depths of events, of which parents come before children. */
export function depths(parent: ArrayLike<number>): Int32Array {
  const depth = new Int32Array(parent.length);
  for (let i = 0; i < parent.length; i++) {
    const p = parent[i];
    depth[i] = p >= 0 && p < i ? depth[p] + 1 : 0;
  }
  return depth;
}

export function buildRows(
  begin: ArrayLike<number>,
  end: ArrayLike<number>,
  parent: ArrayLike<number>,
  thread: ArrayLike<number>,
): Rows {
  const n = begin.length;
  const depth = depths(parent);
  const counts = new Map<number, number>();
  const STRIDE = 65536;
  for (let i = 0; i < n; i++) {
    const key = (thread[i] + 1) * STRIDE + depth[i];
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const rows: Row[] = [];
  const next = new Map<number, number>();
  let at = 0;
  for (const key of [...counts.keys()].sort((a, b) => a - b)) {
    const count = counts.get(key) as number;
    rows.push({ thread: Math.floor(key / STRIDE) - 1, depth: key % STRIDE, from: at, to: at + count });
    next.set(key, at);
    at += count;
  }
  const order = new Int32Array(n);
  for (let i = 0; i < n; i++) {
    const key = (thread[i] + 1) * STRIDE + depth[i];
    const place = next.get(key) as number;
    order[place] = i;
    next.set(key, place + 1);
  }
  return { depth, order, rows, levels: buildLevels(order, begin, end) };
}

function buildLevels(order: Int32Array, begin: ArrayLike<number>, end: ArrayLike<number>): Int32Array[] {
  const longer = (a: number, b: number): number => (end[b] - begin[b] > end[a] - begin[a] ? b : a);
  const levels: Int32Array[] = [];
  let below = order;
  while (below.length > FAN) {
    const level = new Int32Array(Math.ceil(below.length / FAN));
    for (let g = 0; g < level.length; g++) {
      let best = below[g * FAN];
      for (let i = g * FAN + 1; i < Math.min(below.length, (g + 1) * FAN); i++) best = longer(best, below[i]);
      level[g] = best;
    }
    levels.push(level);
    below = level;
  }
  return levels;
}

/** The longest event of order[from, to), which is not empty. */
export function longest(
  rows: Rows,
  begin: ArrayLike<number>,
  end: ArrayLike<number>,
  from: number,
  to: number,
): number {
  let best = rows.order[from];
  let bestTime = end[best] - begin[best];
  const take = (event: number): void => {
    const time = end[event] - begin[event];
    if (time > bestTime) {
      best = event;
      bestTime = time;
    }
  };
  let lo = from;
  let hi = to;
  let values = rows.order;
  let level = 0;
  while (lo < hi) {
    if (level === rows.levels.length || hi - lo <= 2 * FAN) {
      for (let i = lo; i < hi; i++) take(values[i]);
      break;
    }
    while (lo % FAN !== 0) take(values[lo++]);
    while (hi % FAN !== 0) take(values[--hi]);
    values = rows.levels[level++];
    lo /= FAN;
    hi /= FAN;
  }
  return best;
}

/** The first place in order[from, to) whose event ends after `time`. */
export function firstEndingAfter(
  order: Int32Array,
  end: ArrayLike<number>,
  from: number,
  to: number,
  time: number,
): number {
  let lo = from;
  let hi = to;
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (end[order[mid]] > time) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}

/** The first place in order[from, to) whose event begins at `time` or later. */
export function firstBeginningAt(
  order: Int32Array,
  begin: ArrayLike<number>,
  from: number,
  to: number,
  time: number,
): number {
  let lo = from;
  let hi = to;
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (begin[order[mid]] >= time) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}

export interface Piece {
  event: number;
  from: number;
  to: number;
  /** How many events the piece stands for. */
  count: number;
}

/**
 * What to draw of a row between two times on `pixels` columns: an event of its own where it is at
 * least a pixel wide, else the longest of the events that begin in a column. At most two pieces a column.
 */
export function pieces(
  rows: Rows,
  row: Row,
  begin: ArrayLike<number>,
  end: ArrayLike<number>,
  t0: number,
  t1: number,
  pixels: number,
): Piece[] {
  const out: Piece[] = [];
  const scale = pixels / (t1 - t0);
  const perPixel = (t1 - t0) / pixels;
  let i = firstEndingAfter(rows.order, end, row.from, row.to, t0);
  while (i < row.to) {
    const event = rows.order[i];
    if (begin[event] >= t1) break;
    const x0 = Math.max(0, (begin[event] - t0) * scale);
    const x1 = Math.min(pixels, (end[event] - t0) * scale);
    if (x1 - x0 >= 1) {
      out.push({ event, from: x0, to: x1, count: 1 });
      i++;
      continue;
    }
    const column = Math.floor(x0);
    const j = Math.max(i + 1, firstBeginningAt(rows.order, begin, i, row.to, t0 + (column + 1) * perPixel));
    const best = longest(rows, begin, end, i, j);
    out.push({ event: best, from: column, to: Math.min(pixels, column + 1), count: j - i });
    i = j;
  }
  return out;
}
