// The roofline: call kinds by FLOPs per byte and FLOPs per second, below the measured ceilings; and
// "at the ceiling": drag op kinds to their ceiling and see the new time of a step.

import { bottomAxis, leftAxis, logarithmic, logTicks } from '../draw/axis';
import type { Painter } from '../draw/painter';
import { ringPart } from '../draw/shape';
import { familyColor, familyPattern, mix } from '../draw/theme';
import { savings, scenario, type AtBest } from '../model/ceiling';
import * as format from '../model/format';
import type { Profile } from '../model/profile';
import { dots, type Dot } from '../model/roofline';
import { shapes } from '../model/tree';
import { option, range, say, selected, setOption } from '../state/store';
import { Check, FamilyLegend, FamilyMark, Missing, program } from '../ui/common';
import { Figure } from '../ui/figure';
import { DataTable, type TableSpec } from '../ui/table';

const LEFT = 84;
const BOTTOM = 36;
const TOP = 20;
const HEIGHT = 420;
const LARGEST_DOT = 22;
const SMALLEST_DOT = 3;

/** "mm=1,linear=0.5" */
export function parseDrag(text: string): Record<string, number> {
  const out: Record<string, number> = {};
  for (const part of text.split(',')) {
    const at = part.lastIndexOf('=');
    const share = Number(part.slice(at + 1));
    if (at > 0 && share > 0 && share <= 1) out[part.slice(0, at)] = share;
  }
  return out;
}

export const dragText = (shares: Record<string, number>): string =>
  Object.entries(shares)
    .filter(([, v]) => v > 0)
    .map(([k, v]) => `${k}=${v}`)
    .join(',');

function isLit(p: Profile, dot: Dot): boolean {
  const s = selected.value;
  if (s.kind === 'op') return p.header.signatures[dot.signature].name === s.id;
  if (s.kind === 'sig') return dot.signature === Number(s.id);
  if (s.kind === 'call') return p.event.signature[Number(s.id)] === dot.signature;
  return litSignatures(p).has(dot.signature);
}

/** The signatures of the calls that a line, module or step lights. */
function litSignatures(p: Profile): Set<number> {
  const s = selected.value;
  const out = new Set<number>();
  if (s.kind !== 'line' && s.kind !== 'module' && s.kind !== 'fn' && s.kind !== 'step') return out;
  const id = Number(s.id);
  const modules = s.kind === 'module' ? p.moduleAndBelow(id) : null;
  for (let i = 0; i < p.n; i++)
    if (
      s.kind === 'line'
        ? p.line(i) === id
        : s.kind === 'fn'
          ? p.functionOf[i] === id
          : s.kind === 'step'
            ? p.event.step[i] === id
            : modules?.has(p.event.module[i])
    )
      out.add(p.event.signature[i]);
  return out;
}

function dotTable(p: Profile, rows: Dot[]): TableSpec<Dot> {
  return {
    name: 'roofline',
    label: 'Call kinds against the ceilings',
    rows,
    sort: '-time',
    filter: true,
    columns: [
      {
        key: 'name',
        title: 'op and sizes',
        kind: 'name',
        value: (d) => `${p.header.signatures[d.signature].name} ${shapes(p, d.signature)}`,
        mark: (d) => <FamilyMark family={p.header.signatures[d.signature].family} />,
      },
      { key: 'which', title: 'calls', kind: 'text', value: (d) => (d.first ? 'first' : 'later') },
      { key: 'count', title: 'count', kind: 'count', value: (d) => d.calls },
      { key: 'time', title: 'time', kind: 'time', value: (d) => d.time, bar: true },
      { key: 'intensity', title: 'FLOP/B', kind: 'number', value: (d) => d.intensity },
      { key: 'rate', title: 'GFLOP/s', kind: 'number', value: (d) => d.rate / 1e9 },
      { key: 'bandwidth', title: 'GB/s', kind: 'number', value: (d) => d.bytesRate / 1e9 },
      { key: 'ceiling', title: '% of ceiling', kind: 'percent', value: (d) => d.ceilingShare, bar: true },
      { key: 'bound', title: 'bound', kind: 'text', value: (d) => p.header.signatures[d.signature].bound },
    ],
    select: (d) => ({ kind: 'sig', id: String(d.signature) }),
    lit: (d) => isLit(p, d),
  };
}

function paintPlot(g: Painter, p: Profile, all: Dot[]): void {
  const m = p.header.machine;
  const levels = Object.entries(m.bandwidth ?? {}).filter(([name, v]) => name !== 'tensor' && v > 0);
  const peak = m.flops ?? Math.max(...all.map((d) => d.rate));
  const xs = all.map((d) => d.intensity);
  const ys = all.map((d) => d.rate);
  const memory = m.bandwidth?.memory ?? 0;
  const x0 = 10 ** Math.floor(Math.log10(Math.min(0.05, ...xs) * 0.99));
  const x1 = 10 ** Math.ceil(Math.log10(Math.max(10, memory > 0 ? (peak / memory) * 4 : 10, ...xs) * 1.6));
  const y0 = 10 ** Math.floor(Math.log10(Math.min(peak / 1e4, ...ys) * 0.99));
  const y1 = 10 ** Math.ceil(Math.log10(Math.max(peak, ...ys) * 1.01));
  const x = logarithmic([x0, x1], [LEFT, g.width - 12]);
  const y = logarithmic([y0, y1], [g.height - BOTTOM, TOP]);
  bottomAxis(g, x, logTicks(x0, x1), g.height - BOTTOM, TOP, format.digits, 'FLOP per byte');
  leftAxis(g, y, logTicks(y0, y1), LEFT, g.width - 12, (v) => format.rate(v, 'FLOP'), '');
  g.clip(LEFT, TOP - 12, g.width - LEFT, g.height - BOTTOM - TOP + 12, () => {
    levels
      .sort((a, b) => b[1] - a[1])
      .forEach(([name, bandwidth], i) => {
        const to = peak / bandwidth;
        g.line(
          [
            [x(x0), y(x0 * bandwidth)],
            [x(to), y(peak)],
          ],
          name === 'memory' ? g.theme.text : g.theme.dim,
          name === 'memory' ? 2 : 1,
          name === 'memory' ? [] : [2 + 2 * i, 3],
        );
        const angle = Math.atan2(y(peak) - y(x0 * bandwidth), x(to) - x(x0));
        // Each label has a place of its own along its line, so that lines which lie close stay readable.
        const at = Math.min(to * 0.7, x0 * 10 ** (0.25 + 0.5 * i));
        if (y(at * bandwidth) > TOP)
          g.text(`${name} ${format.rate(bandwidth, 'B')}`, x(at), y(at * bandwidth) - 8, {
            size: 11,
            color: name === 'memory' ? g.theme.text : g.theme.dim,
            turn: angle,
          });
      });
    g.line(
      [
        [x(Math.max(x0, peak / Math.max(peak / x0, ...levels.map((l) => l[1])))), y(peak)],
        [x(x1), y(peak)],
      ],
      g.theme.text,
      2,
    );
    g.text(`compute ${format.rate(peak, 'FLOP')}`, g.width - 16, y(peak) - 9, { size: 11, anchor: 'end' });
    const most = Math.max(...all.map((d) => d.time));
    const labels: Label[] = [];
    const some = all.some((d) => isLit(p, d));
    for (const dot of all) {
      const s = p.header.signatures[dot.signature];
      const color = familyColor(g.theme, s.family);
      const r = Math.max(SMALLEST_DOT, LARGEST_DOT * Math.sqrt(dot.time / most));
      const cx = x(dot.intensity);
      const cy = y(dot.rate);
      const faint = some && !isLit(p, dot);
      const shown = faint ? mix(color, g.theme.back, 0.75) : color;
      if (dot.first || r < 6)
        g.circle(cx, cy, r, dot.first ? null : shown, dot.first ? shown : g.theme.back, dot.first ? 2 : 1);
      else
        g.move(cx, cy, () =>
          g.path(ringPart(0, r, 0, 1), shown, g.theme.back, 1.5, faint ? '' : familyPattern(s.family)),
        );
      if (r > 7 && !faint && !dot.first) labels.push({ text: s.name, cx, cy, r });
      g.hit({
        x: cx - Math.max(r, 6),
        y: cy - Math.max(r, 6),
        w: 2 * Math.max(r, 6),
        h: 2 * Math.max(r, 6),
        id: `d${dot.signature}/${dot.first}`,
        title: `${s.name} ${shapes(p, dot.signature)}${dot.first ? ', first call' : ''}`,
        details: [
          `${format.count(dot.calls)} calls, ${format.time(dot.time)}`,
          `${format.rate(dot.rate, 'FLOP')}, ${format.rate(dot.bytesRate, 'B')}`,
          `${format.percent(dot.ceilingShare)} of the ${s.bound || 'lower'} ceiling`,
        ],
        select: { kind: 'sig', id: String(dot.signature) },
      });
    }
    paintLabels(g, labels);
  });
}

interface Label {
  text: string;
  cx: number;
  cy: number;
  r: number;
}

/** Names beside the large dots, where they do not lie over one another. */
function paintLabels(g: Painter, labels: Label[]): void {
  const taken: { x: number; y: number; w: number }[] = [];
  for (const { text, cx, cy, r } of labels) {
    const w = g.measure(text, { size: 11, mono: true });
    const left = cx + r + 4 + w > g.width - 12;
    const x = left ? cx - r - 4 - w : cx + r + 4;
    if (taken.some((t) => Math.abs(t.y - cy) < 13 && x < t.x + t.w && t.x < x + w)) continue;
    taken.push({ x, y: cy, w });
    g.text(text, x, cy, { size: 11, mono: true });
  }
}

function Ceiling({ p }: { p: Profile }) {
  const rows = savings(p, range.value).filter((r) => r.saving > 0);
  const shares = parseDrag(option('roofline.drag', ''));
  const steps = range.value ? 0 : p.rowsOf('step');
  const s = scenario(p, rows, shares, range.value, steps);
  const put = (name: string, share: number): void => {
    const next = { ...shares, [name]: share };
    setOption('roofline.drag', dragText(next));
    const after = scenario(p, rows, next, range.value, steps);
    say(`at best ${format.time(after.after)}`);
  };
  const most = rows[0]?.saving ?? 1;
  const shown = rows.filter((r) => r.saving > most * 0.01).slice(0, 12);
  return (
    <>
      <h3>At the ceiling</h3>
      <p class="note">
        Drag an op towards its ceiling. First calls stay as they are. What results is the best case: an op may have
        reasons not to get there.
      </p>
      <div class="cards">
        <div class="card">
          <b>{format.time(s.before)}</b>
          <span>measured{range.value ? ' in the range' : ''}</span>
        </div>
        <div class="card" data-after={s.after}>
          <b>{format.time(s.after)}</b>
          <span>at best ({format.change(s.after / s.before - 1)})</span>
        </div>
        {s.perStep && (
          <div class="card">
            <b>{format.time(s.perStep.after)}</b>
            <span>of the run a step, from {format.time(s.perStep.before)}</span>
          </div>
        )}
        <div class="card">
          <b class="mono">{format.cut(s.next, 24)}</b>
          <span>then takes the most, {format.time(s.nextTime)}</span>
        </div>
      </div>
      {shown.map((row) => (
        <div class="slider" key={row.name}>
          <span class="mono">
            <FamilyMark family={row.family} />
            {format.visible(format.cut(row.name, 22))}
          </span>
          <input
            type="range"
            min="0"
            max="1"
            step="0.05"
            value={shares[row.name] ?? 0}
            aria-label={`${row.name} towards its ceiling`}
            aria-valuetext={format.percent(shares[row.name] ?? 0)}
            onInput={(e) => put(row.name, Number(e.currentTarget.value))}
          />
          <span class="n">{format.percent(shares[row.name] ?? 0)}</span>
          <span class="n">−{format.time(row.saving * (shares[row.name] ?? 0))}</span>
        </div>
      ))}
      <p>
        <button
          type="button"
          onClick={() => setOption('roofline.drag', dragText(Object.fromEntries(shown.map((r) => [r.name, 1]))), true)}
        >
          all to their ceilings
        </button>{' '}
        <button type="button" onClick={() => setOption('roofline.drag', '', true)}>
          as measured
        </button>
      </p>
      <DataTable spec={bestSpec(rows)} />
    </>
  );
}

function bestSpec(rows: AtBest[]): TableSpec<AtBest> {
  return {
    name: 'best',
    label: 'What ops would take at their ceilings',
    rows,
    sort: '-saving',
    columns: [
      { key: 'name', title: 'op', kind: 'name', value: (r) => r.name, mark: (r) => <FamilyMark family={r.family} /> },
      { key: 'calls', title: 'calls', kind: 'count', value: (r) => r.calls },
      { key: 'time', title: 'time', kind: 'time', value: (r) => r.time },
      { key: 'ceiling', title: 'at best', kind: 'time', value: (r) => r.ceiling },
      { key: 'saving', title: 'difference', kind: 'time', value: (r) => r.saving, bar: true },
    ],
    select: (r) => ({ kind: 'op', id: r.name }),
  };
}

export function Roofline({ p }: { p: Profile }) {
  const firsts = option('roofline.first', '') === '1';
  const all = p.n > 0 ? dots(p, range.value).filter((d) => firsts || !d.first) : [];
  if (p.n === 0)
    return (
      <>
        <h2>Roofline</h2>
        <Missing
          what="events"
          title="This profile has no ops with times"
          why="A roofline needs every op with its time and cost."
          command={`pellucid profile -- ${program()}`}
        />
      </>
    );
  if (!p.header.machine.flops)
    return (
      <>
        <h2>Roofline</h2>
        <Missing
          what="machine"
          title="This profile has no ceilings"
          why="The ceilings of the machine were not measured when it was recorded."
          command="pellucid doctor --fresh"
        />
      </>
    );
  return (
    <>
      <h2>Roofline</h2>
      <div class="tools">
        <Check name="roofline.first" label="first calls too (hollow)" />
      </div>
      {all.length > 0 ? (
        <Figure
          name="roofline"
          title="FLOP/s by FLOP per byte; the area of a dot is its time"
          height={HEIGHT}
          paint={(g) => paintPlot(g, p, all)}
          table={() => dotTable(p, all)}
          label={`Roofline of ${all.length} call kinds`}
        />
      ) : (
        <p class="note">No op with FLOPs and bytes in this part of the run.</p>
      )}
      <FamilyLegend />
      {p.header.warnings
        .filter((w) => w.includes('ceiling'))
        .map((w) => (
          <p class="warning" key={w}>
            {format.visible(w)}
          </p>
        ))}
      <Ceiling p={p} />
    </>
  );
}
