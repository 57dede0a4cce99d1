// The layer-by-layer dashboard: a row a layer with forward, backward and update, share of the ceiling
// and bytes at the peak; of runs also norms, update ratios and histograms over the steps.

import { useMemo } from 'preact/hooks';
import { bottomAxis, linear } from '../draw/axis';
import type { Painter } from '../draw/painter';
import { heat, inkOn, themeOf } from '../draw/theme';
import * as format from '../model/format';
import { layers, type Layer } from '../model/layers';
import { histogram, logRows, QUANTITIES, type LogRow } from '../model/layerlog';
import type { Profile } from '../model/profile';
import { dark, liveRun, mask, memory, option, page, range, selected, setOption } from '../state/store';
import { Choice, Missing, program, Swatch } from '../ui/common';
import { Figure } from '../ui/figure';
import { DataTable, type TableSpec } from '../ui/table';

const ROW = 20;
const NAME = 190;
const FIGURES = 92;
const MOST_ROWS = 400;

const PHASES = [
  ['forward', 'contraction', ''],
  ['backward', 'reduction', 'up'],
  ['update', 'optimizer', 'down'],
] as const;

const nameOf = (p: Profile, l: Layer): string => {
  const m = p.header.modules[l.module];
  return m.name ? `${m.name} ${m.type}` : m.type || '(model)';
};

function paintLayers(g: Painter, p: Profile, rows: Layer[]): void {
  const most = Math.max(
    1,
    ...rows.filter((r) => r.children === 0).map((r) => r.forward + r.backward + r.update),
    ...rows.map((r) => r.forward + r.backward + r.update),
  );
  const width = g.width - NAME - 2 * FIGURES;
  g.text('time', NAME, 8, { size: 11, color: g.theme.dim });
  g.text('% of ceiling', g.width - FIGURES - 8, 8, { size: 11, color: g.theme.dim, anchor: 'end' });
  g.text('at the peak', g.width - 4, 8, { size: 11, color: g.theme.dim, anchor: 'end' });
  rows.forEach((row, i) => {
    const y = ROW + i * ROW;
    const chosen = selected.value.kind === 'module' && Number(selected.value.id) === row.module;
    if (chosen) g.rect(0, y, g.width, ROW, g.theme.accent, '', 0.14);
    const indent = Math.min(80, row.depth * 12);
    g.text(nameOf(p, row), indent + 2, y + ROW / 2, {
      mono: true,
      size: 11,
      max: NAME - indent - 8,
      bold: row.children > 0,
    });
    let x = NAME;
    for (const [phase, family, pattern] of PHASES) {
      const w = (row[phase] / most) * width;
      if (w > 0)
        g.rect(x, y + 3, Math.max(0.5, w), ROW - 6, g.theme.families[family], pattern, row.children > 0 ? 0.45 : 1);
      x += w;
    }
    const time = row.forward + row.backward + row.update;
    if (time > 0)
      g.text(format.time(time), x + 4, y + ROW / 2, {
        size: 11,
        color: g.theme.dim,
        max: g.width - 2 * FIGURES + 40 - x,
      });
    const share = row.settled > 0 ? row.ceiling / row.settled : NaN;
    if (Number.isFinite(share))
      g.text(format.percent(share), g.width - FIGURES - 8, y + ROW / 2, { anchor: 'end', size: 11 });
    if (row.atPeak > 0) g.text(format.bytes(row.atPeak), g.width - 4, y + ROW / 2, { anchor: 'end', size: 11 });
    g.hit({
      x: 0,
      y,
      w: g.width,
      h: ROW,
      id: `l${row.module}`,
      title: `${p.modulePath(row.module) || '(model)'} ${p.header.modules[row.module].type}`,
      details: [
        `forward ${format.time(row.forward)}, backward ${format.time(row.backward)}, update ${format.time(row.update)}`,
        Number.isFinite(share) ? `${format.percent(share)} of the ceiling` : 'no share of a ceiling',
        `${format.bytes(row.atPeak)} at the peak`,
      ],
      select: { kind: 'module', id: String(row.module) },
    });
  });
}

function spec(p: Profile, rows: Layer[]): TableSpec<Layer> {
  return {
    name: 'layers',
    label: 'Layers',
    rows,
    filter: rows.length > 12,
    columns: [
      { key: 'module', title: 'layer', kind: 'name', value: (r) => `${'  '.repeat(r.depth)}${nameOf(p, r)}` },
      { key: 'parameters', title: 'parameters', kind: 'count', value: (r) => p.header.modules[r.module].parameters },
      { key: 'calls', title: 'calls', kind: 'count', value: (r) => r.calls },
      { key: 'flops', title: 'FLOPs', kind: 'flops', value: (r) => r.flops },
      { key: 'forward', title: 'forward', kind: 'time', value: (r) => r.forward, bar: true },
      { key: 'backward', title: 'backward', kind: 'time', value: (r) => r.backward, bar: true },
      { key: 'update', title: 'update', kind: 'time', value: (r) => r.update, bar: true },
      {
        key: 'ceiling',
        title: '% of ceiling',
        kind: 'percent',
        value: (r) => (r.settled > 0 ? r.ceiling / r.settled : null),
      },
      { key: 'peak', title: 'at the peak', kind: 'bytes', value: (r) => r.atPeak, bar: true },
    ],
    select: (r) => ({ kind: 'module', id: String(r.module) }),
    lit: (r) => mask.value !== null && selected.value.kind === 'module' && selected.value.id === String(r.module),
  };
}

/** Rows are parameters or modules, columns steps, lightness the value on a log scale. */
function paintLog(g: Painter, rows: LogRow[], steps: number[], lo: number, hi: number, log: boolean): void {
  const width = g.width - NAME;
  const place = (v: number): number =>
    log
      ? (Math.log(v) - Math.log(lo)) / Math.max(1e-9, Math.log(hi) - Math.log(lo))
      : (v - lo) / Math.max(1e-12, hi - lo);
  const columns = Math.min(steps.length, Math.max(1, Math.floor(width / 2)));
  const w = width / columns;
  rows.forEach((row, i) => {
    const y = i * ROW;
    g.text(row.name, 2, y + ROW / 2, { mono: true, size: 11, max: NAME - 8 });
    for (let c = 0; c < columns; c++) {
      const k = Math.floor((c * steps.length) / columns);
      const v = row.values[k];
      const known = v !== null && Number.isFinite(v) && (!log || v > 0);
      g.rect(
        NAME + c * w,
        y + 1,
        Math.max(0.5, w - (w > 4 ? 1 : 0)),
        ROW - 2,
        known ? heat(g.theme, 0.08 + 0.92 * place(v)) : g.theme.raised,
        known ? '' : 'grid',
      );
      if (w > 44 && known)
        g.text(format.digits(v), NAME + c * w + w / 2, y + ROW / 2, {
          anchor: 'middle',
          size: 10,
          color: inkOn(heat(g.theme, 0.08 + 0.92 * place(v))),
        });
      if (w >= 3)
        g.hit({
          x: NAME + c * w,
          y,
          w,
          h: ROW,
          id: `${row.name}/${k}`,
          title: `${row.name}, step ${steps[k]}`,
          details: [known ? format.digits(v) : 'not a number that can be shown'],
        });
    }
  });
  const x = linear([steps[0], steps[steps.length - 1]], [NAME, g.width]);
  bottomAxis(
    g,
    x,
    x.ticks(Math.max(2, Math.floor(width / 100))),
    rows.length * ROW + 2,
    rows.length * ROW + 2,
    format.count,
  );
}

function RunLayers({ p }: { p: Profile }) {
  const log = liveRun.value[page.value.item]?.layers ?? p.header.layers;
  const what = option('layers.what', 'gradient');
  const { steps, rows, least, most } = useMemo(() => logRows(log, what), [log, what]);
  const logScale = what !== 'zeros' && what !== 'mean';
  const shown = rows.slice(0, MOST_ROWS);
  const table: TableSpec<LogRow> = {
    name: 'layerlog',
    label: 'Values over the steps',
    rows,
    columns: [
      { key: 'name', title: 'name', kind: 'name', value: (r) => r.name },
      { key: 'first', title: 'first', kind: 'number', value: (r) => r.values[0] },
      { key: 'last', title: 'last', kind: 'number', value: (r) => r.values[r.values.length - 1] },
      {
        key: 'least',
        title: 'least',
        kind: 'number',
        value: (r) => Math.min(...(r.values.filter((v) => v !== null) as number[])),
      },
      {
        key: 'most',
        title: 'largest',
        kind: 'number',
        value: (r) => Math.max(...(r.values.filter((v) => v !== null) as number[])),
      },
    ],
  };
  const parameter = option('layers.parameter', rows[0]?.name ?? '');
  const bins = useMemo(
    () => (what === 'gradient' ? histogram(log, parameter, 'gradients') : null) ?? histogram(log, parameter, 'weights'),
    [log, parameter, what],
  );
  return (
    <>
      <div class="tools">
        <Choice name="layers.what" fallback="gradient" label="over the steps" values={QUANTITIES} />
      </div>
      {shown.length > 0 ? (
        <Figure
          name="layerlog"
          title={`${QUANTITIES[what] ?? what}: ${format.digits(least)} (pale) to ${format.digits(most)} (strong)`}
          height={shown.length * ROW + 24}
          table={() => table}
          label={`${QUANTITIES[what] ?? what} of ${rows.length} rows over ${steps.length} steps`}
          paint={(g) => paintLog(g, shown, steps, least, most, logScale)}
        />
      ) : (
        <p class="note">This run has no such values.</p>
      )}
      {bins && (
        <>
          <Figure
            name="histogram"
            title={`Histogram of ${format.cut(parameter, 60)} over the steps`}
            height={180}
            label={`Histogram of ${parameter}`}
            paint={(g) => paintHistogram(g, bins)}
          />
          <label>
            parameter{' '}
            <select aria-label="Parameter" value={parameter} onChange={(e) => setParameter(e.currentTarget.value)}>
              {rows.map((r) => (
                <option key={r.name} value={r.name}>
                  {format.cut(r.name, 80)}
                </option>
              ))}
            </select>
          </label>
        </>
      )}
    </>
  );
}

const setParameter = (name: string): void => setOption('layers.parameter', name, true);

function paintHistogram(g: Painter, { steps, rows, most }: { steps: number[]; rows: number[][]; most: number }): void {
  const w = (g.width - 40) / steps.length;
  const height = g.height - 22;
  rows.forEach((counts, k) =>
    counts.forEach((n, b) => {
      const h = height / counts.length;
      if (n > 0)
        g.rect(
          40 + k * w,
          height - (b + 1) * h,
          Math.max(0.5, w),
          h + 0.5,
          heat(g.theme, 0.1 + 0.9 * Math.sqrt(n / most)),
        );
    }),
  );
  g.text('largest', 36, 8, { anchor: 'end', size: 10, color: g.theme.dim });
  g.text('least', 36, height - 8, { anchor: 'end', size: 10, color: g.theme.dim });
  const x = linear([steps[0], steps[steps.length - 1]], [40, g.width]);
  bottomAxis(g, x, x.ticks(8), height, height, format.count);
}

export function Layers({ p }: { p: Profile }) {
  const m = memory.value;
  const alive = useMemo(() => (m && p.blocks > 0 ? m.alive(m.peak.place) : []), [m, p]);
  const rows = useMemo(() => layers(p, range.value, alive), [p, range.value, alive]);
  const hasLog = p.header.layers.length > 0 || (liveRun.value[page.value.item]?.layers.length ?? 0) > 0;
  const theme = themeOf(dark.value);
  if (p.header.modules.length === 0 && !hasLog)
    return (
      <>
        <h2>Layers</h2>
        <Missing
          what="modules"
          title="This file has no modules"
          why="The program called no module, or the recording was made without events."
          command={p.n === 0 ? `pellucid profile -- ${program()}` : undefined}
        />
      </>
    );
  return (
    <>
      <h2>Layers</h2>
      {hasLog && <RunLayers p={p} />}
      {rows.length > 0 && p.n > 0 && (
        <>
          <Figure
            name="layers"
            title="Time of each layer, and its share of the ceiling and of the peak"
            height={ROW + Math.min(rows.length, MOST_ROWS) * ROW + 4}
            paint={(g) => paintLayers(g, p, rows.slice(0, MOST_ROWS))}
            table={() => spec(p, rows)}
            label={`${rows.length} layers`}
          />
          <div class="legend">
            {PHASES.map(([phase, family, pattern]) => (
              <span key={phase}>
                <Swatch color={theme.families[family]} pattern={pattern} />
                {phase}
              </span>
            ))}
            <span>pale: the sum of the layers below</span>
          </div>
          <DataTable spec={spec(p, rows)} />
        </>
      )}
    </>
  );
}
