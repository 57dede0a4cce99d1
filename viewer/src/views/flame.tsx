// Icicle, flame and sunburst of the calls: by call path, module or op; by time, bytes or FLOPs.

import { useMemo } from 'preact/hooks';
import type { Painter } from '../draw/painter';
import { ringPart } from '../draw/shape';
import { familyColor, familyPattern, inkOn, mix } from '../draw/theme';
import { tone, verdicts } from '../model/compare';
import * as format from '../model/format';
import type { Profile } from '../model/profile';
import { parseSelection } from '../model/selection';
import {
  buildTree,
  find,
  layout,
  nodesOf,
  pathOf,
  sampleTree,
  type By,
  type Cell,
  type TreeNode,
  type Weight,
} from '../model/tree';
import { comparison, mask, option, range, say, setOption } from '../state/store';
import { Check, Choice, FamilyLegend, Missing, program } from '../ui/common';
import { Figure } from '../ui/figure';
import type { TableSpec } from '../ui/table';

/** Few levels get more room. */
const rowHeight = (rows: number): number => Math.max(19, Math.min(28, Math.floor(420 / Math.max(1, rows))));
const GAP = 1;
/** Below this width a cell is drawn without its own edge. */
const EDGE = 3;

function unit(weight: Weight): (v: number) => string {
  if (weight === 'samples') return (v) => `${format.count(v)} samples`;
  return weight === 'time' ? format.time : weight === 'bytes' ? format.bytes : format.flops;
}

function colorOf(
  g: Painter,
  cell: Cell,
  lens: boolean,
  verdict: ((name: string) => string) | null,
): { fill: string; pattern: ReturnType<typeof familyPattern> } {
  const t = g.theme;
  if (!cell.node) return { fill: mix(t.unclear, t.back, 0.55), pattern: 'grid' };
  if (verdict) {
    const v = verdict(cell.node.name);
    if (v === 'worse') return { fill: t.worse, pattern: 'up' };
    if (v === 'better') return { fill: t.better, pattern: 'down' };
    if (v === 'added' || v === 'removed') return { fill: mix(t.accent, t.back, 0.5), pattern: 'grid' };
    return { fill: mix(t.unclear, t.back, 0.5), pattern: '' };
  }
  const base = cell.node.parent ? familyColor(t, cell.node.family) : mix(t.unclear, t.back, 0.7);
  if (lens && cell.node.lit === 0) return { fill: mix(base, t.back, 0.78), pattern: '' };
  return { fill: base, pattern: cell.node.parent ? familyPattern(cell.node.family) : '' };
}

function hitOf(cell: Cell, whole: number, show: (v: number) => string, open: (node: TreeNode) => void) {
  const node = cell.node;
  const of = (v: number): string => format.percent(v / whole);
  if (!node)
    return {
      title: `other: ${format.count(cell.merged)} smaller`,
      details: [`${show(cell.value)} · ${of(cell.value)} of all`],
      open: () => setOption('flame.cutoff', '0', true),
    };
  const parent = node.parent;
  return {
    title: node.detail ? `${node.name} · ${node.detail}` : node.name,
    details: [
      `${show(node.value)} · ${of(node.value)} of all${parent ? ` · ${format.percent(node.value / parent.value)} of ${format.cut(parent.name, 60)}` : ''}`,
      `its own ${show(node.own)}${node.calls > 0 ? ` · ${format.count(node.calls)} calls` : ''}`,
      ...(node.lit > 0 ? [`selected: ${show(node.lit)}`] : []),
    ],
    select: node.key ? parseSelection(node.key) : undefined,
    open: () => open(node),
  };
}

function paintRows(g: Painter, cells: Cell[], upward: boolean, rows: number, ctx: PaintContext): void {
  const row = rowHeight(rows);
  for (const cell of cells) {
    const x = cell.x0 * g.width;
    const w = Math.max(0.5, (cell.x1 - cell.x0) * g.width);
    const y = upward ? (rows - cell.depth - 1) * row : cell.depth * row;
    const { fill, pattern } = colorOf(g, cell, ctx.lens, ctx.verdict);
    const inner = w > EDGE ? w - GAP : w;
    g.rect(x, y, inner, row - GAP, fill, pattern);
    if (ctx.lens && cell.node && cell.node.lit > 0 && cell.node.lit < cell.node.value)
      g.rect(x, y + row - 4, (inner * cell.node.lit) / cell.node.value, 3, g.theme.text);
    const name = cell.node ? cell.node.name : `other (${cell.merged})`;
    const ink = inkOn(fill);
    if (w > 26) {
      // A plate under the letters keeps them readable on a pattern.
      const full =
        cell.node?.detail && g.measure(`${name}  ${cell.node.detail}`, { mono: true, size: 11 }) < w - 10
          ? `${name}  ${cell.node.detail}`
          : name;
      if (pattern && !(ctx.lens && cell.node?.lit === 0))
        g.rect(x + 3, y + 3, Math.min(w - 6, g.measure(full, { mono: true, size: 11 }) + 4), row - 7, fill, '', 0.82);
      g.text(full, x + 5, y + row / 2, { color: ink, mono: true, size: 11, max: w - 8 });
    }
    g.hit({ x, y, w: Math.max(1, w), h: row, id: idOf(cell), ...hitOf(cell, ctx.whole, ctx.show, ctx.open) });
  }
}

interface PaintContext {
  lens: boolean;
  verdict: ((name: string) => string) | null;
  whole: number;
  show: (v: number) => string;
  open: (node: TreeNode) => void;
}

const idOf = (cell: Cell): string => `${pathOf(cell.of).join('.')}${cell.node ? '' : '/other'}`;

const ringOf = (cell: Cell, inner: number, ring: number): [number, number] => [
  inner + (cell.depth - 1) * ring,
  inner + cell.depth * ring,
];

function paintSunburst(g: Painter, cells: Cell[], depth: number, ctx: PaintContext): void {
  const cx = g.width / 2;
  const cy = g.height / 2;
  const radius = Math.min(cx, cy) - 4;
  const inner = radius * 0.2;
  const ring = (radius - inner) / Math.max(1, depth - 1);
  const shape = (c: Cell): string => {
    const [r0, r1] = c.depth === 0 ? [0, inner] : ringOf(c, inner, ring);
    return ringPart(r0, r1 - 1, c.x0, c.x1);
  };
  g.move(cx, cy, () => {
    for (const cell of cells) {
      const { fill, pattern } = colorOf(g, cell, ctx.lens, ctx.verdict);
      g.path(shape(cell), fill, g.theme.back, 0.5, pattern);
      const name = cell.node ? cell.node.name : 'other';
      const middle = (cell.x0 + cell.x1) * Math.PI;
      const [r0, r1] = cell.depth === 0 ? [0, 0] : ringOf(cell, inner, ring);
      const [x, y] = [((r0 + r1) / 2) * Math.sin(middle), (-(r0 + r1) / 2) * Math.cos(middle)];
      const across = cell.depth === 0 ? inner * 1.8 : ring - 8;
      const along = (cell.x1 - cell.x0) * 2 * Math.PI * Math.hypot(x, y);
      if (cell.depth === 0 || along > 13) {
        const turn = cell.depth === 0 ? 0 : middle > Math.PI ? middle + Math.PI / 2 : middle - Math.PI / 2;
        g.text(cell.depth === 0 ? ctx.show(cell.value) : name, x, y, {
          color: inkOn(fill),
          size: 11,
          anchor: 'middle',
          max: across,
          turn,
          mono: cell.depth > 0,
        });
      }
      const box = boxOfArc(cell, inner, ring);
      g.hit({ ...box, id: idOf(cell), ...hitOf(cell, ctx.whole, ctx.show, ctx.open) });
    }
  });
}

/** A box around the middle of an arc: what a pointer and the focus ring need. */
function boxOfArc(cell: Cell, inner: number, ring: number): { x: number; y: number; w: number; h: number } {
  if (cell.depth === 0) return { x: -inner * 0.7, y: -inner * 0.7, w: inner * 1.4, h: inner * 1.4 };
  const [r0, r1] = ringOf(cell, inner, ring);
  const r = (r0 + r1) / 2;
  const middle = (cell.x0 + cell.x1) * Math.PI - Math.PI / 2;
  const size = Math.max(6, Math.min((r1 - r0) * 0.9, (cell.x1 - cell.x0) * 2 * Math.PI * r));
  return { x: r * Math.cos(middle) - size / 2, y: r * Math.sin(middle) - size / 2, w: size, h: size };
}

function tableOf(top: TreeNode, weight: Weight): TableSpec<TreeNode> {
  return {
    name: 'tree',
    label: 'The tree as a table',
    rows: nodesOf(top).filter((n) => n.value > 0),
    sort: '-value',
    filter: true,
    columns: [
      { key: 'name', title: 'name', kind: 'name', value: (n) => (n.detail ? `${n.name} · ${n.detail}` : n.name) },
      { key: 'path', title: 'below', kind: 'text', value: (n) => format.cut(path(n).join(' › '), 80) },
      {
        key: 'value',
        title: weight === 'time' ? 'time' : weight,
        kind: weight === 'samples' ? 'count' : weight,
        value: (n) => n.value,
        bar: true,
      },
      { key: 'own', title: 'its own', kind: weight === 'samples' ? 'count' : weight, value: (n) => n.own },
      { key: 'share', title: 'of all', kind: 'percent', value: (n) => n.value / top.value },
      { key: 'calls', title: 'calls', kind: 'count', value: (n) => n.calls },
    ],
    select: (n) => (n.key ? parseSelection(n.key) : null),
    lit: (n) => n.lit > 0,
  };
}

const path = (node: TreeNode): string[] => {
  const out: string[] = [];
  for (let n = node.parent; n && n.parent; n = n.parent) out.unshift(n.name);
  return out;
};

const deepest = (cells: Cell[]): number => cells.reduce((most, c) => Math.max(most, c.depth + 1), 1);

function Legend({ sampled, compared }: { sampled: boolean; compared: boolean }) {
  if (sampled) return <p class="note">Coloured: lines of the program; grey: everything else.</p>;
  if (compared)
    return (
      <p class="note">
        By the verdict of each name: <span class="worse">▲ worse, striped upwards</span>;{' '}
        <span class="better">▼ better, striped downwards</span>; grey: cannot tell; grid: on one side only.
      </p>
    );
  return (
    <FamilyLegend>
      <span>grey grid: other, drawn together</span>
    </FamilyLegend>
  );
}

export function Flame({ p }: { p: Profile }) {
  const by = option('flame.by', 'call') as By;
  const sampled = p.n === 0 && p.rowsOf('sample') > 0;
  const weight = sampled ? 'samples' : (option('flame.weight', 'time') as Weight);
  const shape = option('flame.shape', 'icicle');
  const inverted = option('flame.inverted', '') === '1';
  const mineOnly = option('flame.mine', '') === '1';
  const depth = Math.max(2, Math.min(2000, Number(option('flame.depth', '40')) || 40));
  const cutoff = Math.max(0, Number(option('flame.cutoff', '0.001')) || 0);
  const rootPath = option('flame.root', '');
  const selection = mask.value;
  const tree = useMemo(
    () =>
      sampled
        ? sampleTree(p, { range: range.value, mineOnly, inverted })
        : buildTree(p, { by, weight, inverted, range: range.value, mask: selection, mineOnly }),
    [p, by, weight, inverted, range.value, selection, mineOnly],
  );
  if (p.n === 0 && !sampled)
    return (
      <>
        <h2>Flame</h2>
        <Missing
          what="events"
          title="This profile has no calls with times"
          why="A flame needs every call with its times."
          command={`pellucid profile -- ${program()}`}
        />
      </>
    );
  const top = find(tree, rootPath ? rootPath.split('.') : []);
  const sunburst = shape === 'sunburst';
  const cells = layout(top, sunburst ? Math.min(depth, 7) : depth, cutoff);
  const rows = deepest(cells);
  const all = verdicts(comparison.value);
  const ctx: PaintContext = {
    lens: selection !== null,
    verdict: all && option('flame.color', '') === 'change' ? (name) => tone(all.get(name)) : null,
    whole: tree.value,
    show: unit(weight),
    open: (node) => {
      const next = node === top && node.parent ? node.parent : node;
      setOption('flame.root', pathOf(next).join('.'), true);
      say(`${next.name} is now the whole`);
    },
  };
  const paint = (g: Painter): void => {
    if (cells.length === 0)
      g.text('nothing in this part of the run', g.width / 2, 20, { anchor: 'middle', color: g.theme.dim });
    else if (sunburst) paintSunburst(g, cells, rows, ctx);
    else paintRows(g, cells, shape === 'flame', rows, ctx);
  };
  const crumbs: TreeNode[] = [];
  for (let n: TreeNode | null = top; n; n = n.parent) crumbs.unshift(n);
  return (
    <>
      <h2>Flame</h2>
      <div class="tools">
        <Choice
          name="flame.shape"
          fallback="icicle"
          label="shape"
          values={{ icicle: 'icicle', flame: 'flame', sunburst: 'sunburst' }}
        />
        {!sampled && (
          <Choice
            name="flame.by"
            fallback="call"
            label="by"
            values={{ call: 'call path', module: 'module', op: 'op' }}
          />
        )}
        {!sampled && (
          <Choice
            name="flame.weight"
            fallback="time"
            label="width"
            values={{ time: 'time', bytes: 'bytes', flops: 'FLOPs' }}
          />
        )}
        <span class="group">
          <Check name="flame.inverted" label="inverted" />
          <Check name="flame.mine" label="only my code" />
        </span>
        <label>
          depth
          <input
            type="number"
            min="2"
            max="2000"
            value={depth}
            aria-label="Depth"
            onChange={(e) => setOption('flame.depth', e.currentTarget.value, true)}
          />
        </label>
        <label>
          smallest
          <select
            value={String(cutoff)}
            aria-label="Smallest share"
            onChange={(e) => setOption('flame.cutoff', e.currentTarget.value, true)}
          >
            {['0', '0.0001', '0.001', '0.01', '0.05'].map((v) => (
              <option key={v} value={v}>
                {v === '0' ? 'all' : `${Number(v) * 100} %`}
              </option>
            ))}
          </select>
        </label>
        {all && <Choice name="flame.color" fallback="" label="colour" values={{ '': 'op', change: 'change' }} />}
      </div>
      <div class="crumbs" aria-label="Call stack" role="group">
        {crumbs.map((n, i) => (
          <span key={i}>
            {i > 0 && <span class="dim"> › </span>}
            <button
              type="button"
              class="link mono"
              disabled={n === top}
              onClick={() => setOption('flame.root', pathOf(n).join('.'), true)}
            >
              {format.visible(format.cut(n.name, 60))}
            </button>
          </span>
        ))}
        {top.parent && (
          <button type="button" onClick={() => setOption('flame.root', '', true)}>
            reset
          </button>
        )}
      </div>
      <Figure
        name="flame"
        title={`${unit(weight)(top.value)} by ${sampled || by === 'call' ? 'call path' : by}${inverted ? ', callers below callees' : ''}`}
        height={sunburst ? 560 : Math.max(2, rows) * rowHeight(rows)}
        paint={paint}
        table={() => tableOf(top, weight)}
        label={`${shape} of ${top.name}, ${unit(weight)(top.value)}`}
        gestures={{ left: 0, right: (w) => w, fit: () => setOption('flame.root', '', true) }}
      />
      <Legend sampled={sampled} compared={ctx.verdict !== null} />
    </>
  );
}
