// Memory: stacked by category over time; at any moment (the peak first) what was alive, as a treemap
// category > module > line; who keeps the peak, and what a checkpoint of a module would save.

import { hierarchy, treemap, treemapSquarify, type HierarchyRectangularNode } from 'd3-hierarchy';
import { useMemo } from 'preact/hooks';
import { bottomAxis, leftAxis, linear } from '../draw/axis';
import type { Painter } from '../draw/painter';
import { stepArea } from '../draw/shape';
import { inkOn, mix, PATTERNS, type Pattern, type Theme } from '../draw/theme';
import * as format from '../model/format';
import { blockTree, checkpoints, type Checkpoint, type MemoryUse, type TreeBlock } from '../model/memory';
import type { Profile } from '../model/profile';
import { parseSelection, savedPairs } from '../model/selection';
import { dark, mask, memory, option, range, say, setOption, setRange } from '../state/store';
import { themeOf } from '../draw/theme';
import { Missing, program, Swatch } from '../ui/common';
import { Figure } from '../ui/figure';
import { DataTable, type TableSpec } from '../ui/table';

const LEFT = 68;
const BOTTOM = 22;
const HEIGHT = 220;
const MAP = 340;

export function categoryLook(t: Theme, category: number): { fill: string; pattern: Pattern } {
  const n = t.series.length;
  const base = t.series[category % n];
  return { fill: category >= n ? mix(base, t.back, 0.45) : base, pattern: PATTERNS[category % PATTERNS.length] };
}

function paintStack(
  g: Painter,
  p: Profile,
  m: MemoryUse,
  t0: number,
  t1: number,
  place: number,
  choose: (t: number) => void,
): void {
  const right = g.width - 8;
  const bottom = g.height - BOTTOM;
  const columns = Math.max(1, Math.floor((right - LEFT) / 1.5));
  const rows = m.stacked(t0, t1, columns);
  const largest = Math.max(1, m.peakIn(t0, t1).bytes);
  const x = linear([t0, t1], [LEFT, right]);
  const y = linear([0, largest * 1.06], [bottom, 8]);
  leftAxis(g, y, y.ticks(5), LEFT, right, format.bytes);
  bottomAxis(g, x, x.ticks(Math.max(2, Math.floor(g.width / 120))), bottom, bottom, format.time);
  const base = new Float64Array(columns);
  rows.forEach((row, c) => {
    if (!row.some((v) => v > 0)) return;
    const top = Array.from(row, (v, i) => base[i] + v);
    const { fill, pattern } = categoryLook(g.theme, c);
    const shape = stepArea(
      columns,
      (i) => LEFT + (i * (right - LEFT)) / columns,
      (i) => y(base[i]),
      (i) => y(top[i]),
    );
    g.path(shape, fill, null, 1, pattern);
    base.set(top);
  });
  const at = place >= 0 && place < m.times.length ? m.times[place] : t0;
  const bytes = place >= 0 ? m.total[place] : m.atStart;
  if (at >= t0 && at <= t1) {
    g.line(
      [
        [x(at), 4],
        [x(at), bottom],
      ],
      g.theme.text,
      1.5,
    );
    g.circle(x(at), y(bytes), 4, g.theme.back, g.theme.text, 2);
    const end = x(at) > g.width / 2;
    g.text(`${format.bytes(bytes)} at ${format.time(at)}`, x(at) + (end ? -6 : 6), 10, {
      anchor: end ? 'end' : 'start',
      size: 11,
      bold: true,
    });
  }
  const cells = Math.max(1, Math.floor((right - LEFT) / 8));
  for (let i = 0; i < cells; i++) {
    const from = t0 + (i * (t1 - t0)) / cells;
    const moment = m.peakIn(from, from + (t1 - t0) / cells);
    g.hit({
      x: LEFT + (i * (right - LEFT)) / cells,
      y: 8,
      w: (right - LEFT) / cells,
      h: bottom - 8,
      id: `t${i}`,
      title: `${format.bytes(moment.bytes)} in use`,
      details: [
        `at ${format.time(moment.time)}`,
        `${format.percent(moment.bytes / Math.max(1, m.peak.bytes))} of the peak`,
        'Enter or click: what was alive here',
      ],
      open: () => choose(moment.time),
    });
  }
  void p;
}

function paintMap(g: Painter, p: Profile, root: TreeBlock): void {
  const lit = mask.value;
  const tree = hierarchy<TreeBlock>(root, (n) =>
    n.children.length > 0 && n.children[0].key.startsWith('block:') ? [] : n.children,
  ).sum((n) => (n.children.length === 0 || n.children[0].key.startsWith('block:') ? n.bytes : 0));
  const laid = treemap<TreeBlock>()
    .tile(treemapSquarify)
    .size([g.width, g.height])
    .paddingTop((n) => (n.depth === 1 || n.depth === 2 ? 16 : 0))
    .paddingInner(1)
    .round(false)(tree);
  for (const node of laid.descendants() as HierarchyRectangularNode<TreeBlock>[]) {
    if (node.depth === 0) continue;
    const { x0, y0, x1, y1, data } = node;
    const w = x1 - x0;
    const h = y1 - y0;
    if (w < 1 || h < 1) continue;
    const { fill, pattern } = categoryLook(g.theme, data.category);
    const leaf = !node.children;
    const isLit =
      lit !== null &&
      leaf &&
      data.children.some((b) => {
        const event = p.allocation.event[Number(b.key.slice(6))];
        return event >= 0 && lit[event] === 1;
      });
    const shade = leaf
      ? lit !== null && !isLit
        ? mix(fill, g.theme.back, 0.7)
        : fill
      : mix(fill, g.theme.back, node.depth === 1 ? 0.55 : 0.75);
    g.rect(x0, y0, w, h, shade, leaf ? pattern : '');
    const label = `${data.name} ${format.bytes(data.bytes)}`;
    if (leaf && h > 15 && w > 30) {
      g.rect(x0 + 3, y0 + 3, Math.min(w - 6, g.measure(label, { size: 11 }) + 4), 15, shade, '', 0.85);
      g.text(label, x0 + 5, y0 + 10, { size: 11, color: inkOn(shade), max: w - 10 });
    } else if (!leaf && w > 30)
      g.text(label, x0 + 4, y0 + 8, { size: 11, color: inkOn(shade), max: w - 8, bold: node.depth === 1 });
    const up = node.parent?.data;
    g.hit({
      x: x0,
      y: y0,
      w,
      h,
      id: `${node.depth}/${node
        .ancestors()
        .map((a) => a.data.name)
        .join('/')}`,
      title: label,
      details: [
        `${format.percent(data.bytes / root.bytes)} of all alive${up && up !== root ? `, ${format.percent(data.bytes / up.bytes)} of ${up.name}` : ''}`,
        `${format.count(data.blocks)} blocks`,
      ],
      select: data.key ? parseSelection(data.key) : undefined,
    });
  }
}

function blockSpec(p: Profile, blocks: number[]): TableSpec<number> {
  const a = p.allocation;
  const site = (b: number): number => (a.site[b] >= 0 ? a.site[b] : a.event[b] >= 0 ? p.event.site[a.event[b]] : -1);
  const hasSavers = Boolean(p.columns['use.allocation']);
  const saverOf = hasSavers ? savedIndex(p) : null;
  return {
    name: 'blocks',
    label: 'Blocks alive at the moment',
    rows: blocks,
    sort: '-bytes',
    filter: true,
    columns: [
      {
        key: 'maker',
        title: 'made by',
        kind: 'name',
        value: (b) => (a.event[b] >= 0 ? p.name(a.event[b]) : a.before[b] ? 'before the recording' : 'the program'),
      },
      { key: 'bytes', title: 'bytes', kind: 'bytes', value: (b) => a.bytes[b], bar: true },
      { key: 'category', title: 'category', kind: 'text', value: (b) => p.header.categories[a.category[b]] ?? '' },
      { key: 'line', title: 'line', kind: 'text', value: (b) => (site(b) >= 0 ? p.lineName(p.lineOf[site(b)]) : null) },
      { key: 'saver', title: 'saved by', kind: 'text', value: (b) => (saverOf ? (saverOf.get(b) ?? null) : null) },
      {
        key: 'freer',
        title: 'freed by',
        kind: 'text',
        value: (b) => (a.freed_by[b] >= 0 ? p.name(a.freed_by[b]) : a.end[b] >= 0 ? 'the program' : 'never'),
      },
      {
        key: 'life',
        title: 'lived',
        kind: 'time',
        value: (b) => (a.end[b] >= 0 && a.begin[b] >= 0 ? a.end[b] - a.begin[b] : null),
      },
    ],
    select: (b) => ({ kind: 'block', id: String(b) }),
    lit: (b) => mask.value !== null && a.event[b] >= 0 && mask.value[a.event[b]] === 1,
  };
}

function savedIndex(p: Profile): Map<number, string> {
  const out = new Map<number, string>();
  const { events, blocks } = savedPairs(p);
  for (let i = 0; i < blocks.length; i++) if (events[i] >= 0 && events[i] < p.n) out.set(blocks[i], p.name(events[i]));
  return out;
}

export function Memory({ p }: { p: Profile }) {
  const m = memory.value;
  const chosen = option('memory.at', '');
  const { from: t0, to: t1 } = range.value ?? { from: 0, to: p.duration };
  const moment = !m
    ? null
    : chosen !== '' && Number.isFinite(Number(chosen))
      ? momentOf(m, Number(chosen))
      : range.value
        ? m.peakIn(t0, t1)
        : m.peak;
  const blocks = useMemo(() => (m && moment ? m.alive(moment.place) : []), [m, moment?.place]);
  const root = useMemo(() => blockTree(p, blocks), [p, blocks]);
  const keepers = useMemo(() => checkpoints(p, blocks, p.rowsOf('step')), [p, blocks]);
  if (p.blocks === 0 || !m || !moment)
    return (
      <>
        <h2>Memory</h2>
        <Missing
          what="memory"
          title="This profile has no blocks of memory"
          why="The recording knows nothing of the memory that ops took."
          command={`pellucid profile -- ${program()}`}
        />
      </>
    );
  const choose = (time: number): void => {
    setOption('memory.at', String(Math.round(time)), true);
    say(`${format.bytes(momentOf(m, time).bytes)} at ${format.time(time)}`);
  };
  const theme = themeOf(dark.value);
  const keeperSpec: TableSpec<Checkpoint> = {
    name: 'checkpoints',
    label: 'Who keeps the peak: checkpoint a module',
    rows: keepers,
    sort: '-saved',
    columns: [
      {
        key: 'module',
        title: 'checkpoint this module',
        kind: 'name',
        value: (r) => p.moduleLabel(r.module),
      },
      { key: 'saved', title: 'saves at the moment, at best', kind: 'bytes', value: (r) => r.saved, bar: true },
      { key: 'share', title: 'of it', kind: 'percent', value: (r) => r.saved / root.bytes },
      {
        key: 'repeated',
        title: p.rowsOf('step') > 0 ? 'repeats in a step' : 'repeats',
        kind: 'time',
        value: (r) => r.repeated,
      },
    ],
    select: (r) => ({ kind: 'module', id: String(r.module) }),
  };
  const isPeak = moment.place === m.peak.place;
  return (
    <>
      <h2>Memory</h2>
      <Figure
        name="memory"
        title={`In use by category, at most ${format.bytes(m.peakIn(t0, t1).bytes)}`}
        height={HEIGHT}
        paint={(g) => paintStack(g, p, m, t0, t1, moment.place, choose)}
        label="Memory in use by category over time"
        table={() => timeTable(p, m, t0, t1)}
        gestures={{
          left: LEFT,
          right: (w) => w - 8,
          range: (a, b) => setRange({ from: t0 + a * (t1 - t0), to: t0 + b * (t1 - t0) }),
          fit: () => setRange(null),
        }}
      />
      <div class="legend">
        {p.header.categories.map((name, c) => {
          const { fill, pattern } = categoryLook(theme, c);
          return (
            <span key={name}>
              <Swatch color={fill} pattern={pattern} />
              {name}
            </span>
          );
        })}
      </div>
      <div class="tools">
        <b data-bytes={root.bytes}>
          {format.bytes(root.bytes)} alive {isPeak ? 'at the peak' : ''}, {format.time(moment.time)} after the start
        </b>
        {!isPeak && (
          <button type="button" onClick={() => (setOption('memory.at', '', true), setRange(null))}>
            go to the peak
          </button>
        )}
      </div>
      <Figure
        name="treemap"
        title="What was alive: category, module, line"
        height={MAP}
        paint={(g) => paintMap(g, p, root)}
        label="Treemap of the blocks alive"
        table={() => blockSpec(p, blocks)}
      />
      <h3>Who keeps it</h3>
      {keepers.length > 0 ? (
        <DataTable spec={keeperSpec} />
      ) : (
        <p class="note">No activation of a module was alive: checkpointing would save nothing here.</p>
      )}
      <h3>Blocks</h3>
      <DataTable spec={blockSpec(p, blocks)} />
    </>
  );
}

/** The peak of the moment's own instant: equal times are common. */
function momentOf(m: MemoryUse, time: number) {
  if (Math.round(m.peak.time) === Math.round(time)) return m.peak;
  return m.at(time);
}

const TABLE_ROWS = 60;

function timeTable(p: Profile, m: MemoryUse, t0: number, t1: number): TableSpec<number> {
  const rows = m.stacked(t0, t1, TABLE_ROWS);
  return {
    name: 'memorytime',
    label: 'Memory in use by category over time',
    rows: Array.from({ length: TABLE_ROWS }, (_, i) => i),
    filter: false,
    columns: [
      { key: 'from', title: 'from', kind: 'time', value: (i) => t0 + (i * (t1 - t0)) / TABLE_ROWS },
      {
        key: 'total',
        title: 'largest',
        kind: 'bytes',
        value: (i) => rows.reduce((sum, r) => sum + r[i], 0),
        bar: true,
      },
      ...p.header.categories.map((name, c) => ({
        key: name.replace(/\W/g, ''),
        title: name,
        kind: 'bytes' as const,
        value: (i: number) => rows[c]?.[i] ?? 0,
      })),
    ],
  };
}
