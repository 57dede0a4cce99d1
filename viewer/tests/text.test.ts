// Numbers and names as people read them, the address, exported text, graphs and curves.

import assert from 'node:assert/strict';
import test from 'node:test';
import { readContainer } from '../src/data/container';
import { completeHeader, type Graph } from '../src/data/header';
import { linear, logTicks, roundTicks } from '../src/draw/axis';
import { ringPart, stepArea } from '../src/draw/shape';
import { contrast, inkOn } from '../src/draw/theme';
import { tokenLines } from '../src/model/code';
import * as format from '../src/model/format';
import { flow, GraphIndex, place, topological, valueText } from '../src/model/graph';
import { prepare, Profile } from '../src/model/profile';
import { exists, savers } from '../src/model/selection';
import { curves, smoothed, thin, withRows } from '../src/model/training';
import { decodeState, encodeState, START } from '../src/state/url';
import { HOSTILE, profileContainer, smallGraph } from './fixture';

test('three significant digits and a unit', () => {
  assert.deepEqual([0, 12, 999.7, 1234, 57_123_000, 139.7e6, 2.5e9, -3e6].map(format.time), [
    '0 ns',
    '12 ns',
    '1.00 us',
    '1.23 us',
    '57.1 ms',
    '140 ms',
    '2.50 s',
    '−3.00 ms',
  ]);
  assert.deepEqual([0, 999, 1000, 1_118_656, 3.2e9].map(format.bytes), [
    '0 B',
    '999 B',
    '1.00 kB',
    '1.12 MB',
    '3.20 GB',
  ]);
  assert.deepEqual([0, 0.0004, 0.4, 0.4123, 1].map(format.percent), ['0 %', '< 0.1 %', '40 %', '41.2 %', '100 %']);
  assert.deepEqual([1234567, -1000, 12].map(format.count), ['1,234,567', '−1,000', '12']);
  assert.equal(format.rate(241e9, 'FLOP'), '241 GFLOP/s');
  assert.equal(format.digits(NaN), '–');
});

test('control characters are visible, cells are no formulas', () => {
  assert.equal(format.visible('a\u0000b\nc\u202e'), 'a\\x00b⏎c\\u202e');
  assert.equal(format.csvCell('=1+1'), "'=1+1");
  assert.equal(format.csvCell('a,"b"'), '"a,""b"""');
  assert.equal(format.cut('abcdef', 4), 'abc…');
});

test('the address is the state, and nothing else gets in', () => {
  const state = {
    item: 1,
    view: 'flame',
    selection: { kind: 'op', id: `mm:${HOSTILE}&x=1#y` },
    range: { from: 10, to: 20 },
    options: { 'flame.by': 'module', 'flame.root': 'f1.f2' },
  };
  assert.deepEqual(decodeState(`#${encodeState(state)}`, ['flame']), state);
  assert.deepEqual(decodeState('#view=nope&range=20-10&item=-1&a=b&__proto__.x=1&%E0%A4%A=1', ['flame']), START);
});

test('ticks are round and inside', () => {
  assert.deepEqual(roundTicks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(roundTicks(0, 0.3, 3), [0, 0.1, 0.2, 0.3]);
  assert.deepEqual(roundTicks(95, 1000, 4), [200, 400, 600, 800, 1000]);
  assert.deepEqual(logTicks(1, 1000), [1, 3, 10, 30, 100, 300, 1000]);
  assert.equal(linear([0, 10], [0, 100])(5), 50);
  assert.ok(Number.isFinite(linear([3, 3], [0, 100])(3)));
});

test('paths of areas and rings have no NaN', () => {
  assert.equal(
    stepArea(
      2,
      (i) => 10 * i,
      () => 0,
      () => 5,
    ),
    'M0,5H10V5H20V0H10V0H0Z',
  );
  for (const part of [
    ringPart(0, 10, 0, 1),
    ringPart(5, 10, 0, 1),
    ringPart(5, 10, 0.2, 0.9),
    ringPart(0, 10, 0.1, 0.2),
  ])
    assert.ok(!part.includes('NaN'));
});

test('ink is readable on every colour', () => {
  for (let i = 0; i < 4096; i++) {
    const color = `#${[i >> 8, (i >> 4) & 15, i & 15].map((v) => (v * 17).toString(16).padStart(2, '0')).join('')}`;
    assert.ok(contrast(color, inkOn(color)) >= 4.5, color);
  }
});

test('source lines keep every character, whatever they hold', () => {
  const text = `int main() { return 0; }  // ${HOSTILE}\n#include <a>\n"text`;
  for (const file of ['a.cpp', 'a.py', 'a.txt'])
    assert.equal(
      tokenLines(file, text)
        .map((l) => l.map((t) => t.text).join(''))
        .join('\n'),
      text,
    );
  assert.ok(tokenLines('a.cpp', 'return 0;')[0].some((t) => t.scope === 'keyword'));
});

const graph = completeHeader({ graphs: [smallGraph()] }).graphs[0];

const index = new GraphIndex(graph);

test('a closed box stands for its nodes; an open one moves what is below', () => {
  const closed = place(index, new Set());
  assert.deepEqual(
    closed.nodes.map((n) => n.node.id),
    ['n0', 'n3'],
  );
  assert.equal(closed.boxes[0].inside, 2);
  assert.equal(closed.edges.length, 3);
  const open = place(index, new Set(['b0']));
  assert.equal(open.nodes.length, 4);
  assert.equal(open.edges.length, 4);
  const y = (placed: typeof open, id: string): number =>
    (placed.nodes.find((n) => n.node.id === id) as { y: number }).y;
  assert.ok(y(open, 'n3') > y(closed, 'n3'));
  const box = open.boxes[0];
  for (const n of open.nodes.filter((m) => m.node.box === 'b0'))
    assert.ok(n.x >= box.x && n.y >= box.y && n.x + n.w <= box.x + box.w && n.y + n.h <= box.y + box.h);
  const last = open.edges.find((e) => e.edge.from === 'b0') as { points: [number, number][] };
  assert.deepEqual(last.points[1][1], y(open, 'n3'), 'the route ends where its node went to');
});

test('boxes in a circle and edges to nowhere do not hang', () => {
  const [b] = graph.boxes;
  const edge = { box: null, kind: 'data', points: [] };
  const bad: Graph = {
    ...graph,
    boxes: [
      { ...b, id: 'b0', parent: 'b1' },
      { ...b, id: 'b1', parent: 'b0' },
    ],
    edges: [
      { ...edge, from: 'n0', to: 'n99' },
      { ...edge, from: 'n3', to: 'n0' },
      { ...edge, from: 'n0', to: 'n3' },
    ],
  };
  const circle = new GraphIndex(bad);
  place(circle, new Set(['b0', 'b1']));
  assert.equal(topological(circle).length, 4);
});

test('the walk goes forward through values, then backward through gradients', () => {
  assert.deepEqual(
    flow(index).map((s) => `${s.phase[0]} ${s.node}`),
    ['f n0', 'f n1', 'f n2', 'f n3', 'b n3', 'b n2', 'b n1', 'b n0'],
  );
});

test('a node is selected by its graph and its id, and savers come from the uses of blocks', () => {
  const p = new Profile(prepare(readContainer(profileContainer({ steps: 2 }))));
  assert.ok(exists(p, { kind: 'node', id: '0.n3' }));
  assert.ok(!exists(p, { kind: 'node', id: '1.n3' }));
  assert.deepEqual(
    savers(p, 0).map((e) => p.name(e)),
    ['linear'],
  );
});

test('values are numbers, small tensors in full, large ones as a range', () => {
  assert.equal(valueText({ shape: [], value: -0.756802 }), '−0.7568');
  assert.equal(valueText({ shape: [2], value: [1, 2.5] }), '[1, 2.5]');
  assert.equal(valueText({ shape: [64, 64], min: 0, max: 1 }), '[64,64] 0 … 1');
});

test('smoothing starts at the true first value and skips what is not finite', () => {
  assert.equal(smoothed([5, 1, 1], 0.9)[0], 5);
  assert.deepEqual(smoothed([2, 2, NaN, 2], 0.5), [2, 2, 2, 2]);
});

test('thinning keeps the extremes', () => {
  const y = Array.from({ length: 10_000 }, (_, i) => (i === 5000 ? 99 : Math.sin(i)));
  const points = thin(
    y.map((_, i) => i),
    y,
    100,
  );
  assert.ok(points.length <= 200);
  assert.ok(points.some(([, v]) => v === 99));
});

test('new lines of a run extend its curves; a repeated step is dropped; nan is a gap', () => {
  let series = withRows([], 'run', [{ step: 1, loss: 2, note: 'text' }]);
  series = withRows(series, 'run', [
    { step: 2, loss: 'nan' },
    { step: 2, loss: 1 },
  ]);
  assert.deepEqual(series[0].steps, [1, 2]);
  assert.equal(series.length, 1);
  assert.equal(curves(series, 'loss', 0, false)[0].bad, 1);
  assert.deepEqual(completeHeader({ metrics: { series: [{ values: ['inf', 1] }] } }).series[0].values, [null, 1]);
});
