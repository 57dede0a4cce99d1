// Training: the curves of one or several runs, smoothed, linear or logarithmic; live while a run goes
// on, with a button that records its next steps.

import { useEffect, useMemo, useState } from 'preact/hooks';
import type { LayerLog, Series } from '../data/header';
import { listen, post, type LiveEvent } from '../data/live';
import { bottomAxis, leftAxis, linear, logarithmic, logTicks } from '../draw/axis';
import type { Painter } from '../draw/painter';
import { mix, themeOf } from '../draw/theme';
import * as format from '../model/format';
import type { Profile } from '../model/profile';
import { curves, metricNames, runSeries, thin, withRows, type Curve } from '../model/training';
import { can, dark, items, liveRun, loads, mode, option, page, say, setItem, setOption } from '../state/store';
import { Choice, Missing } from '../ui/common';
import { Figure } from '../ui/figure';
import type { TableSpec } from '../ui/table';

const LEFT = 64;
const BOTTOM = 22;
const HEIGHT = 220;
const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [1, 2]];
/** More runs than this share hues; the legend and the table name them. */
const MOST_CURVES = 200;
const RECORD_STEPS = 20;

interface Plot {
  name: string;
  all: Curve[];
  log: boolean;
  byTime: boolean;
  smoothing: number;
  runs: string[];
}

const colorOf = (g: { series: string[] }, i: number): string => g.series[i % g.series.length];

function paintCurves(g: Painter, plot: Plot): void {
  const right = g.width - 8;
  const bottom = g.height - BOTTOM;
  const xs = plot.all.flatMap((c) => c.x.filter(Number.isFinite));
  const ys = plot.all.flatMap((c) => c.y.filter((v) => Number.isFinite(v) && (!plot.log || v > 0)));
  if (ys.length === 0) {
    g.text('no finite value', g.width / 2, g.height / 2, { anchor: 'middle', color: g.theme.dim });
    return;
  }
  let lo = ys.reduce((a, b) => Math.min(a, b), Infinity);
  let hi = ys.reduce((a, b) => Math.max(a, b), -Infinity);
  if (lo === hi) [lo, hi] = plot.log ? [lo / 2, hi * 2] : [lo - Math.abs(lo || 1) / 2, hi + Math.abs(hi || 1) / 2];
  const x = linear(
    [xs.reduce((a, b) => Math.min(a, b), Infinity), xs.reduce((a, b) => Math.max(a, b), -Infinity)],
    [LEFT, right],
  );
  const y = plot.log ? logarithmic([lo, hi], [bottom, 10]) : linear([lo, hi], [bottom, 10]);
  const ticks = plot.log ? logTicks(lo, hi) : y.ticks(5);
  leftAxis(g, y, ticks.length >= 2 ? ticks : [lo, hi], LEFT, right, format.digits);
  bottomAxis(
    g,
    x,
    x.ticks(Math.max(2, Math.floor(g.width / 110))),
    bottom,
    bottom,
    plot.byTime ? (v) => `${format.digits(v)} s` : format.count,
  );
  const columns = Math.max(10, right - LEFT);
  plot.all.slice(0, MOST_CURVES).forEach((c, i) => {
    const k = plot.runs.indexOf(c.run);
    const color = colorOf(g.theme, k);
    const raw = thin(c.x, c.y, columns)
      .filter(([, v]) => !plot.log || v > 0)
      .map(([a, b]): [number, number] => [x(a), y(b)]);
    if (plot.smoothing > 0) g.line(raw, mix(color, g.theme.back, 0.65), 1);
    const line = thin(c.x, c.smooth, columns)
      .filter(([, v]) => !plot.log || v > 0)
      .map(([a, b]): [number, number] => [x(a), y(b)]);
    g.line(line, color, 2, DASHES[k % DASHES.length]);
    if (line.length <= 40) for (const [a, b] of line) g.circle(a, b, 2.5, color);
    const last = line[line.length - 1];
    if (last) g.circle(last[0], last[1], 3.5, color, g.theme.back, 1.5);
    // Where a value was not finite a cross stands at the top.
    c.y.forEach((v, j) => {
      if (Number.isFinite(v) || j % Math.ceil(c.y.length / columns || 1)) return;
      const at = x(c.x[j]);
      if (!Number.isFinite(at)) return;
      g.line(
        [
          [at - 3, 3],
          [at + 3, 9],
        ],
        g.theme.worse,
        1.5,
      );
      g.line(
        [
          [at - 3, 9],
          [at + 3, 3],
        ],
        g.theme.worse,
        1.5,
      );
    });
    const every = Math.max(1, Math.ceil(c.x.length / Math.max(1, columns / 6)));
    for (let j = 0; j < c.x.length; j += every) {
      if (!Number.isFinite(c.y[j]) || (plot.log && c.y[j] <= 0)) continue;
      const px = x(c.x[j]);
      const py = y(plot.smoothing > 0 ? c.smooth[j] : c.y[j]);
      g.hit({
        x: px - 5,
        y: Number.isFinite(py) ? py - 8 : 0,
        w: 10,
        h: 16,
        id: `${i}/${j}`,
        title: `${plot.name} ${format.digits(c.y[j])}`,
        details: [
          c.run,
          plot.byTime ? `${format.digits(c.x[j])} s` : `step ${format.count(c.x[j])}`,
          plot.smoothing > 0 ? `smoothed ${format.digits(c.smooth[j])}` : '',
        ].filter(Boolean),
      });
    }
  });
}

function curveSpec(plot: Plot): TableSpec<{ run: string; x: number; y: number; smooth: number }> {
  return {
    name: `curve${plot.name.toLowerCase().replace(/[^a-z]/g, '')}`,
    label: plot.name,
    filter: true,
    rows: plot.all.flatMap((c) => c.x.map((x, i) => ({ run: c.run, x, y: c.y[i], smooth: c.smooth[i] }))),
    columns: [
      { key: 'run', title: 'run', kind: 'name', value: (r) => r.run },
      { key: 'at', title: plot.byTime ? 'seconds' : 'step', kind: 'number', value: (r) => r.x },
      { key: 'value', title: plot.name, kind: 'number', value: (r) => r.y },
      { key: 'smoothed', title: 'smoothed', kind: 'number', value: (r) => r.smooth },
    ],
  };
}

/** New lines of a run's files become points of its curves and rows of its layers. */
function takeLines(item: number, p: Profile, event: LiveEvent): void {
  const rows = (key: string): Record<string, unknown>[] =>
    Array.isArray(event[key]) ? (event[key] as Record<string, unknown>[]) : [];
  const before = liveRun.peek()[item] ?? { series: runSeries(p.header), layers: p.header.layers };
  const start = event.restarted === true ? { series: [], layers: [] } : before;
  liveRun.value = {
    ...liveRun.peek(),
    [item]: {
      series: withRows(withRows(start.series, p.header.name, rows('metrics')), p.header.name, rows('live')),
      layers: [...start.layers, ...(rows('layers') as unknown as LayerLog[])],
    },
  };
}

function Live({ p, item }: { p: Profile; item: number }) {
  const [state, setState] = useState('connecting');
  const [said, setSaid] = useState('');
  useEffect(
    () =>
      listen(
        item,
        p.header.position,
        (event) => {
          if (event.type === 'ended') setState('ended');
          else if (event.type === 'recorded') {
            const id = Number(event.item);
            if (Number.isInteger(id) && !items.peek().some((i) => i.id === id))
              items.value = [...items.peek(), { id, name: String(event.name ?? `steps ${id}`), kind: 'profile' }];
            setSaid('recorded');
            setOption('training.beside', String(id), true);
            say('The steps are recorded; their profile is open beside the curves');
          } else takeLines(item, p, event);
        },
        (open) => setState((now) => (now === 'ended' ? now : open ? 'live' : 'no answer from the server')),
      ),
    [item],
  );
  const record = async (): Promise<void> => {
    setSaid('recording …');
    try {
      await post('record', { item, steps: RECORD_STEPS });
    } catch (error) {
      setSaid((error as Error).message);
    }
  };
  const beside = Number(option('training.beside', ''));
  return (
    <div class="tools" role="group" aria-label="The running program">
      <b>{state === 'live' ? '● live' : state}</b>
      {state === 'live' && can.value.includes('record') && (
        <button type="button" onClick={() => void record()}>
          record the next {RECORD_STEPS} steps
        </button>
      )}
      {said && <span role="status">{said}</span>}
      {beside > 0 && (
        <button type="button" onClick={() => setItem(beside)}>
          open their profile
        </button>
      )}
    </div>
  );
}

/** The curves of every open run, the shown one first. */
function allSeries(p: Profile, item: number): Series[] {
  const of = (id: number, q: Profile): Series[] => liveRun.value[id]?.series ?? runSeries(q.header);
  const out = [...of(item, p)];
  if (p.header.kind !== 'run') return out;
  for (const [id, load] of Object.entries(loads.value))
    if (Number(id) !== item && load.state === 'ready' && load.profile.header.kind === 'run')
      out.push(...of(Number(id), load.profile));
  return out;
}

export function Training({ p }: { p: Profile }) {
  const item = page.value.item;
  const series = useMemo(() => allSeries(p, item), [p, item, liveRun.value, loads.value]);
  const running = mode.value === 'server' && p.header.kind === 'run';
  const smoothing = Math.min(0.99, Math.max(0, Number(option('training.smooth', '0.6')) || 0));
  const byTime = option('training.x', '') === 'time';
  const log = option('training.scale', '') === 'log';
  const find = option('training.find', '').toLowerCase();
  if (series.length === 0)
    return (
      <>
        <h2>Training</h2>
        {running && <Live p={p} item={item} />}
        <Missing
          what="metrics"
          title="This file has no training metrics"
          why="Curves come from a run folder."
          command="pellucid train two-layer --out runs/two-layer && pellucid view runs/two-layer"
        />
      </>
    );
  const runs = [...new Set(series.map((s) => s.run))];
  const theme = themeOf(dark.value);
  const shown = series.filter((s) => !find || s.run.toLowerCase().includes(find));
  return (
    <>
      <h2>Training</h2>
      {running && <Live p={p} item={item} />}
      <div class="tools">
        <Choice name="training.scale" fallback="" label="scale" values={{ '': 'linear', log: 'logarithmic' }} />
        <Choice name="training.x" fallback="" label="over" values={{ '': 'steps', time: 'time' }} />
        <label>
          smoothing
          <input
            type="range"
            min="0"
            max="0.99"
            step="0.01"
            value={smoothing}
            aria-label="Smoothing"
            onInput={(e) => setOption('training.smooth', e.currentTarget.value)}
          />
          {smoothing.toFixed(2)}
        </label>
        {runs.length > 6 && (
          <input
            type="search"
            placeholder="filter runs"
            aria-label="Filter runs"
            value={find}
            onInput={(e) => setOption('training.find', e.currentTarget.value)}
          />
        )}
      </div>
      <div class="legend">
        {runs.slice(0, 24).map((run, i) => (
          <span key={run}>
            <svg viewBox="0 0 24 12" width="24" height="12" aria-hidden="true">
              <line
                x1="0"
                y1="6"
                x2="24"
                y2="6"
                stroke={colorOf(theme, i)}
                stroke-width="2"
                stroke-dasharray={DASHES[i % DASHES.length].join(' ')}
              />
            </svg>
            {format.visible(format.cut(run, 60))}
          </span>
        ))}
        {runs.length > 24 && <span>and {format.count(runs.length - 24)} more runs</span>}
      </div>
      <div class="columns">
        {metricNames(shown).map((name) => {
          const plot: Plot = { name, all: curves(shown, name, smoothing, byTime), log, byTime, smoothing, runs };
          const bad = plot.all.reduce((sum, c) => sum + c.bad, 0);
          return (
            <section key={name}>
              <Figure
                name={`curve-${name.replace(/\W/g, '')}`}
                title={name}
                height={HEIGHT}
                paint={(g) => paintCurves(g, plot)}
                table={() => curveSpec(plot)}
                label={`${name} of ${plot.all.length} runs`}
              />
              {bad > 0 && <p class="warning">{format.count(bad)} values are not finite (crosses at the top)</p>}
            </section>
          );
        })}
      </div>
    </>
  );
}
