// The timeline: steps, threads with their calls, stalls and memory, on one axis. A drag chooses a
// range, which limits every view; its sums are shown below.

import { bottomAxis, linear } from '../draw/axis';
import type { Painter } from '../draw/painter';
import { stepArea } from '../draw/shape';
import { familyColor, familyPattern, inkOn, mix, PATTERNS } from '../draw/theme';
import { figures, groupOf } from '../model/calls';
import * as format from '../model/format';
import type { Profile } from '../model/profile';
import { pieces, type Row } from '../model/rows';
import { forwardPair, stallsIn, STALLS, stepsIn, poolIn, moduleSpans, type Span } from '../model/tracks';
import { mask, memory, option, range, say, selected, setRange } from '../state/store';
import { Check, FamilyLegend, FamilyMark, Missing, program } from '../ui/common';
import { Figure } from '../ui/figure';
import type { TableSpec } from '../ui/table';

const LEFT = 92;
const ROW = 20;
const STEPS = 16;
const STALL = 12;
const MEMORY = 56;
const AXIS = 20;
const MOST_DEPTHS = 40;
const SMALLEST_NS = 20;

interface Lane {
  title: string;
  height: number;
  paint: (g: Painter, y: number, x: (t: number) => number, t0: number, t1: number) => void;
}

function threadName(p: Profile, thread: number): string {
  const t = p.header.threads[thread];
  return t ? `${t.name || 'thread'} ${t.number}` : 'thread';
}

function callRow(p: Profile, row: Row, selection: Uint8Array | null, few: number[]): Lane['paint'] {
  return (g, y, x, t0, t1) => {
    const plot = g.width - LEFT;
    for (const piece of pieces(p.rows, row, p.event.begin, p.event.end, t0, t1, plot)) {
      const i = piece.event;
      const base = familyColor(g.theme, p.family(i));
      const faint = selection !== null && !selection[i];
      const fill = faint ? mix(base, g.theme.back, 0.78) : base;
      const left = LEFT + piece.from;
      const w = Math.max(1, piece.to - piece.from);
      const inner = w > 3 ? w - 1 : w;
      g.rect(left, y, inner, ROW - 1, fill, faint || w < 12 ? '' : familyPattern(p.family(i)));
      if (w > 28) {
        if (!faint && familyPattern(p.family(i)))
          g.rect(
            left + 2,
            y + 2,
            Math.min(w - 5, g.measure(p.name(i), { mono: true, size: 11 }) + 4),
            ROW - 5,
            fill,
            '',
            0.82,
          );
        g.text(p.name(i), left + 4, y + ROW / 2, { color: inkOn(fill), size: 11, mono: true, max: w - 6 });
      }
      if (piece.count === 1 || w >= 2)
        g.hit({
          x: left,
          y,
          w,
          h: ROW,
          id: `e${i}`,
          title: piece.count > 1 ? `${p.name(i)} and ${format.count(piece.count - 1)} more` : p.name(i),
          details: [
            `${format.time(p.time(i))}, its own ${format.time(p.event.self[i])}`,
            `at ${format.time(p.event.begin[i])}`,
            p.functionName(p.functionOf[i]),
          ],
          select: { kind: 'call', id: String(i) },
          open: () => fitEvent(p, i),
        });
      else
        g.hit({
          x: left,
          y,
          w: 1,
          h: ROW,
          id: `e${i}`,
          title: `${format.count(piece.count)} calls, the longest is ${p.name(i)}`,
          details: [format.time(p.time(i))],
          select: { kind: 'call', id: String(i) },
          open: () => fitEvent(p, i),
        });
    }
    for (const i of few) {
      if (
        p.rows.depth[i] !== row.depth ||
        p.event.thread[i] !== row.thread ||
        p.event.end[i] < t0 ||
        p.event.begin[i] > t1
      )
        continue;
      const left = Math.max(LEFT, x(p.event.begin[i]));
      const w = Math.min(g.width, x(p.event.end[i])) - left;
      if (w < 2) g.rect(left, y, 2, ROW - 1, g.theme.text);
    }
  };
}

/** More lit calls than this need no mark of their own: they are seen. */
const FEW = 5000;

/** The lit calls, if they are so few that a longer neighbour may hide them. */
function fewLit(selection: Uint8Array | null): number[] {
  const out: number[] = [];
  if (!selection) return out;
  for (let i = 0; i < selection.length; i++) {
    if (!selection[i]) continue;
    if (out.length === FEW) return [];
    out.push(i);
  }
  return out;
}

/** The view closes in on a call, with a margin. */
function fitEvent(p: Profile, i: number): void {
  const margin = Math.max(SMALLEST_NS, p.time(i) * 0.1);
  setRange({ from: Math.max(0, p.event.begin[i] - margin), to: Math.min(p.duration, p.event.end[i] + margin) });
}

function lanes(p: Profile): Lane[] {
  const out: Lane[] = [];
  const selection = mask.value;
  const few = fewLit(selection);
  if (p.rowsOf('step') > 0)
    out.push({ title: 'steps', height: STEPS, paint: (g, y, x, t0, t1) => paintSteps(g, p, y, x, t0, t1) });
  if (option('timeline.modules', '') === '1')
    out.push({ title: 'modules', height: ROW, paint: (g, y, x, t0, t1) => paintModules(g, p, y, x, t0, t1) });
  let thread = -2;
  for (const row of p.rows.rows) {
    if (row.depth >= MOST_DEPTHS) continue;
    out.push({
      title: row.thread !== thread ? threadName(p, row.thread) : '',
      height: ROW,
      paint: callRow(p, row, selection, few),
    });
    thread = row.thread;
  }
  if (p.rowsOf('pool') > 0)
    for (const t of new Set(Array.from(p.columns['pool.thread'])))
      out.push({
        title: `pool ${threadName(p, t)}`,
        height: STALL,
        paint: (g, y, x, t0, t1) => paintPool(g, p, t, y, x, t0, t1),
      });
  if (p.rowsOf('stall') > 0)
    STALLS.forEach((name, kind) =>
      out.push({ title: name, height: STALL, paint: (g, y, x, t0, t1) => paintStalls(g, p, kind, y, x, t0, t1) }),
    );
  if (p.blocks > 0)
    out.push({ title: 'memory', height: MEMORY, paint: (g, y, _x, t0, t1) => paintMemory(g, y, t0, t1) });
  return out;
}

function paintSteps(g: Painter, p: Profile, y: number, x: (t: number) => number, t0: number, t1: number): void {
  const spans = stepsIn(p, t0, t1);
  const every = Math.max(1, Math.ceil(spans.length / ((g.width - LEFT) / 3)));
  spans.forEach((s, k) => {
    if (k % every) return;
    const left = Math.max(LEFT, x(s.from));
    const w = Math.max(1, Math.min(g.width, x(s.to)) - left - 1);
    g.rect(left, y + 2, w, STEPS - 5, mix(g.theme.accent, g.theme.back, s.id % 2 ? 0.75 : 0.6));
    g.text(String(s.id), left + 3, y + STEPS / 2, { size: 10, max: w - 4 });
    g.hit({
      x: left,
      y,
      w,
      h: STEPS,
      id: `s${s.id}`,
      title: `step ${s.id}`,
      details: [format.time(s.to - s.from)],
      select: { kind: 'step', id: String(s.id) },
      open: () => setRange({ from: s.from, to: s.to }),
    });
  });
}

function paintModules(g: Painter, p: Profile, y: number, x: (t: number) => number, t0: number, t1: number): void {
  for (const s of moduleSpans(p, t0, t1, g.width - LEFT)) {
    const left = Math.max(LEFT, x(s.from));
    const w = Math.max(1, Math.min(g.width, x(s.to)) - left - 1);
    const fill = mix(g.theme.families.other, g.theme.back, s.id % 2 ? 0.4 : 0.6);
    g.rect(left, y, w, ROW - 1, fill);
    g.text(p.moduleLabel(s.id), left + 4, y + ROW / 2, {
      size: 11,
      mono: true,
      max: w - 6,
      color: inkOn(fill),
    });
    g.hit({
      x: left,
      y,
      w,
      h: ROW,
      id: `m${s.id}/${s.from}`,
      title: p.moduleLabel(s.id),
      details: [format.time(s.to - s.from)],
      select: { kind: 'module', id: String(s.id) },
    });
  }
}

/** Where spans lie in pixels: each at least one wide, and none over the one before it. */
function* placed(g: Painter, spans: Span[], x: (t: number) => number) {
  let last = -1;
  for (const span of spans) {
    const left = Math.max(LEFT, Math.floor(x(span.from)));
    const right = Math.min(g.width, Math.max(left + 1, x(span.to)));
    if (right <= last) continue;
    const from = Math.max(left, last);
    yield { span, from, width: right - from };
    last = right;
  }
}

function paintPool(
  g: Painter,
  p: Profile,
  thread: number,
  y: number,
  x: (t: number) => number,
  t0: number,
  t1: number,
): void {
  for (const { from, width } of placed(g, poolIn(p, thread, t0, t1), x))
    g.rect(from, y + 2, width, STALL - 5, g.theme.families.movement);
}

function paintStalls(
  g: Painter,
  p: Profile,
  kind: number,
  y: number,
  x: (t: number) => number,
  t0: number,
  t1: number,
): void {
  for (const { span: s, from, width } of placed(g, stallsIn(p, kind, t0, t1), x)) {
    g.rect(
      from,
      y + 2,
      width,
      STALL - 5,
      mix(g.theme.families.reduction, g.theme.back, kind * 0.2),
      width > 6 ? PATTERNS[kind + 1] : '',
    );
    if (width >= 2)
      g.hit({
        x: from,
        y,
        w: width,
        h: STALL,
        id: `k${s.id}`,
        title: STALLS[kind],
        details: [
          s.to > s.from ? format.time(s.to - s.from) : 'its end was not seen',
          s.event >= 0 ? `while ${p.name(s.event)} ran` : 'outside every op',
        ],
        select: s.event >= 0 ? { kind: 'call', id: String(s.event) } : undefined,
      });
  }
}

function paintMemory(g: Painter, y: number, t0: number, t1: number): void {
  const m = memory.value;
  if (!m || !(m.peak.bytes > 0)) return;
  const columns = Math.max(1, Math.floor((g.width - LEFT) / 2));
  const sums = new Float64Array(columns);
  for (const row of m.stacked(t0, t1, columns)) row.forEach((v, i) => (sums[i] += v));
  const top = (i: number): number => y + MEMORY - (sums[i] / m.peak.bytes) * (MEMORY - 10);
  g.path(
    stepArea(
      columns,
      (i) => LEFT + 2 * i,
      () => y + MEMORY,
      top,
    ),
    mix(g.theme.accent, g.theme.back, 0.6),
  );
  g.text(format.bytes(m.peak.bytes), LEFT - 6, y + 12, { anchor: 'end', size: 10, color: g.theme.dim });
  g.line(
    [
      [LEFT, y + 10],
      [g.width, y + 10],
    ],
    g.theme.line,
    1,
    [3, 3],
  );
  g.hit({
    x: LEFT,
    y,
    w: g.width - LEFT,
    h: MEMORY,
    id: 'memory',
    title: 'Memory in use',
    details: [`at most ${format.bytes(m.peakIn(t0, t1).bytes)} here`, `${format.bytes(m.peak.bytes)} at the peak`],
  });
}

/** An arc from the selected call to its forward call, or from it to its backward node. */
function paintArrow(g: Painter, p: Profile, x: (t: number) => number, yOf: Map<number, number>): void {
  const s = selected.value;
  if (s.kind !== 'call') return;
  const id = Number(s.id);
  const link = forwardPair(p, id);
  if (!link) return;
  const [from, to] = link;
  const x0 = x((p.event.begin[from] + p.event.end[from]) / 2);
  const x1 = x((p.event.begin[to] + p.event.end[to]) / 2);
  const y0 = (yOf.get(rowKey(p, from)) ?? 0) + ROW;
  const y1 = (yOf.get(rowKey(p, to)) ?? 0) + ROW;
  const bend = Math.max(y0, y1) + 30;
  g.path(`M${x0},${y0} C${x0},${bend} ${x1},${bend} ${x1},${y1 + 6}`, null, g.theme.text, 2);
  g.path(`M${x1},${y1} l-4,8 l8,0 Z`, g.theme.text);
}

const rowKey = (p: Profile, i: number): number => (p.event.thread[i] + 1) * 65536 + p.rows.depth[i];

function sums(p: Profile): TableSpec<ReturnType<typeof figures>[number]> {
  const { name } = groupOf(p, 'op');
  const rows = figures(p, 'op', range.value, mask.value);
  const families = new Map(p.header.signatures.map((s) => [s.name, p.familyOf(s)]));
  return {
    name: 'rangesums',
    label: 'Sums of the range',
    rows,
    sort: '-time',
    filter: false,
    columns: [
      {
        key: 'name',
        title: 'op or scope',
        kind: 'name',
        value: (r) => name(r.id),
        mark: (r) => <FamilyMark family={families.get(name(r.id)) ?? 'other'} />,
      },
      { key: 'calls', title: 'calls', kind: 'count', value: (r) => r.calls },
      { key: 'time', title: 'its own time', kind: 'time', value: (r) => r.own, bar: true },
      { key: 'flops', title: 'FLOPs', kind: 'flops', value: (r) => r.flops },
      { key: 'bytes', title: 'bytes', kind: 'bytes', value: (r) => r.bytes },
    ],
    select: (r) => ({ kind: 'op', id: name(r.id) }),
    lit: (r) => r.lit,
  };
}

export function Timeline({ p }: { p: Profile }) {
  if (p.n === 0)
    return (
      <>
        <h2>Timeline</h2>
        <Missing
          what="events"
          title="This profile has no calls with times"
          why="A timeline needs every call with its times."
          command={`pellucid profile -- ${program()}`}
        />
      </>
    );
  const { from: t0, to: t1 } = range.value ?? { from: 0, to: p.duration };
  const all = lanes(p);
  const height = all.reduce((sum, lane) => sum + lane.height + 2, AXIS) + 4;
  const paint = (g: Painter): void => {
    const x = linear([t0, t1], [LEFT, g.width]);
    const yOf = new Map<number, number>();
    bottomAxis(g, x, x.ticks(Math.max(2, Math.floor((g.width - LEFT) / 110))), 4, height, (v) =>
      format.time(v - (t1 - t0 < p.duration / 100 ? t0 : 0)),
    );
    let y = AXIS;
    const rows = p.rows.rows.filter((r) => r.depth < MOST_DEPTHS);
    let k = 0;
    for (const lane of all) {
      if (lane.title)
        g.text(lane.title, 0, y + Math.min(lane.height, ROW) / 2, { size: 11, color: g.theme.dim, max: LEFT - 6 });
      if (lane.height === ROW && k < rows.length && lane.title !== 'modules')
        yOf.set((rows[k].thread + 1) * 65536 + rows[k++].depth, y);
      g.clip(
        lane.title === 'memory' ? 0 : LEFT,
        y,
        lane.title === 'memory' ? g.width : g.width - LEFT,
        lane.height,
        () => lane.paint(g, y, x, t0, t1),
      );
      y += lane.height + 2;
    }
    g.clip(LEFT, 0, g.width - LEFT, height, () => paintArrow(g, p, x, yOf));
  };
  const change = (from: number, to: number): void => {
    const length = Math.max(SMALLEST_NS, Math.min(p.duration, to - from));
    const start = Math.max(0, Math.min(p.duration - length, from));
    setRange(length >= p.duration * 0.9999 ? null : { from: start, to: start + length }, false);
    say(`${format.time(start)} to ${format.time(start + length)}`);
  };
  const length = t1 - t0;
  return (
    <>
      <h2>Timeline</h2>
      <div class="tools">
        <Check name="timeline.modules" label="modules" />
        <span class="dim">
          drag: choose a range · W S: closer, farther · A D: left, right · Enter: close in on a call · f: the whole
        </span>
      </div>
      <Figure
        name="timeline"
        title={`${format.time(t0)} to ${format.time(t1)} (${format.time(length)})`}
        height={height}
        paint={paint}
        table={() => sums(p)}
        label={`Timeline from ${format.time(t0)} to ${format.time(t1)}`}
        gestures={{
          left: LEFT,
          right: (w) => w,
          range: (a, b) => change(t0 + a * length, t0 + b * length),
          zoom: (factor, at) =>
            change(t0 + at * length * (1 - 1 / factor), t0 + at * length * (1 - 1 / factor) + length / factor),
          pan: (share) => change(t0 + share * length, t1 + share * length),
          fit: () => setRange(null),
        }}
      />
      <FamilyLegend />
    </>
  );
}
