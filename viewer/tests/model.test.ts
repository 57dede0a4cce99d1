// The derived tables: sums that must be exact, the lens, the moments of memory.

import assert from 'node:assert/strict';
import test from 'node:test';
import { readContainer } from '../src/data/container';
import { figures, links } from '../src/model/calls';
import { savings, scenario } from '../src/model/ceiling';
import { tone, verdicts } from '../src/model/compare';
import { layers } from '../src/model/layers';
import { lineFigures } from '../src/model/lines';
import { blockTree, checkpoints, MemoryUse } from '../src/model/memory';
import { prepare, Profile } from '../src/model/profile';
import { repeats, repeatsOf } from '../src/model/repeats';
import { dots } from '../src/model/roofline';
import { longest, pieces } from '../src/model/rows';
import { search } from '../src/model/search';
import { exists, lit } from '../src/model/selection';
import { median, whySlow } from '../src/model/slow';
import { summarize } from '../src/model/summary';
import { buildTree, find, invert, layout, nodesOf, pathOf, type By, type Weight } from '../src/model/tree';
import { compareContainer, makeContainer, profileContainer } from './fixture';

const open = (bytes: Uint8Array): Profile => new Profile(prepare(readContainer(bytes)));
const p = open(profileContainer({ steps: 20 }));
const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);
const self = Array.from({ length: p.n }, (_, i) => p.event.self[i]);
const options = {
  by: 'call' as By,
  weight: 'time' as Weight,
  inverted: false,
  range: null,
  mask: null,
  mineOnly: false,
};

for (const by of ['call', 'module', 'op'] as By[])
  for (const inverted of [false, true])
    test(`the tree by ${by}${inverted ? ', inverted,' : ''} holds all time, and widths sum exactly`, () => {
      const tree = buildTree(p, { ...options, by, inverted });
      assert.equal(tree.value, sum(self));
      for (const node of nodesOf(tree))
        assert.equal(node.value, node.own + sum(node.children.map((c) => c.value)), node.name);
      for (const cutoff of [0, 0.01, 0.3]) {
        const cells = layout(tree, 50, cutoff);
        for (const cell of cells) {
          const below = cells.filter(
            (c) => c.depth === cell.depth + 1 && (c.node ? c.node.parent : c.of) === cell.node && cell.node,
          );
          if (below.length === 0 || !cell.node) continue;
          assert.equal(sum(below.map((c) => c.value)) + cell.node.own, cell.node.value);
          below.sort((a, b) => a.x0 - b.x0);
          assert.equal(below[0].x0, cell.x0);
          for (let i = 1; i < below.length; i++) assert.equal(below[i].x0, below[i - 1].x1);
        }
      }
    });

test('FLOPs and bytes count ops alone', () => {
  const flops = sum(Array.from({ length: p.n }, (_, i) => (p.isOp[p.event.signature[i]] ? p.signature(i).flops : 0)));
  assert.equal(buildTree(p, { ...options, weight: 'flops' }).value, flops);
  assert.equal(buildTree(p, { ...options, by: 'op', weight: 'flops' }).value, flops);
});

test('ranges that follow one another sum to the whole', () => {
  const cuts = [0, 40_000, 200_000, 900_000, p.duration];
  const parts = cuts.slice(1).map((to, i) => buildTree(p, { ...options, range: { from: cuts[i], to } }).value);
  assert.equal(sum(parts), sum(self));
});

test('a root is found by its path, and an unknown path gives the whole', () => {
  const tree = buildTree(p, options);
  const node = tree.children[0].children[0];
  assert.equal(find(tree, pathOf(node)), node);
  assert.equal(find(tree, ['nothing']), tree);
  assert.equal(invert(tree).value, tree.value);
});

test('only my code: what the library does is added to the line that called it', () => {
  const tree = buildTree(p, { ...options, mineOnly: true });
  assert.equal(tree.value, sum(self));
});

test('a tree 10,000 calls deep is built, laid out and inverted', () => {
  const n = 10_000;
  const bytes = makeContainer(
    { signatures: [{ kind: 'op', name: 'f', family: 'other', inputs: [], flops: 1, bytes: 1 }], sites: [] },
    {
      'event.begin': [Array.from({ length: n }, (_, i) => i), 'delta'],
      'event.end': [Array.from({ length: n }, (_, i) => 2 * n - i), 'delta'],
      'event.parent': [Array.from({ length: n }, (_, i) => i - 1), 'delta'],
      'event.signature': [new Array(n).fill(0), 'zigzag'],
      'event.thread': [new Array(n).fill(0), 'zigzag'],
      'event.self': [new Array(n).fill(2), 'zigzag'],
    },
  );
  const deep = open(bytes);
  const tree = buildTree(deep, options);
  assert.equal(nodesOf(tree).length, n + 1);
  assert.equal(layout(tree, 2 * n, 0).length, n + 1);
  assert.equal(figures(deep, 'function', null, null)[0].primitive, 1);
});

test('0 events and 1 event', () => {
  const none = open(makeContainer({}, {}));
  assert.equal(none.n, 0);
  assert.equal(buildTree(none, options).value, 0);
  assert.deepEqual(layout(buildTree(none, options), 9, 0), []);
  assert.equal(new MemoryUse(none).peak.bytes, 0);
  const one = open(
    makeContainer(
      { signatures: [{ kind: 'op', name: 'f', family: 'other', flops: 0, bytes: 0 }] },
      {
        'event.begin': [[5], 'delta'],
        'event.end': [[9], 'delta'],
        'event.self': [[4], 'zigzag'],
        'event.signature': [[0], 'zigzag'],
        'event.thread': [[0], 'zigzag'],
      },
    ),
  );
  assert.equal(buildTree(one, options).value, 4);
  assert.equal(whySlow(one, 0).excess, 0);
});

test("cProfile's columns: own times sum, a recursive call counts once", () => {
  for (const group of ['function', 'op', 'signature'] as const)
    assert.equal(sum(figures(p, group, null, null).map((f) => f.own)), sum(self));
  const rows = figures(p, 'op', null, null);
  assert.equal(sum(rows.map((r) => r.calls)), p.n);
});

test('callers and callees are two sides of the same links', () => {
  const fn = p.functionOf[Array.from({ length: p.n }, (_, i) => i).find((i) => p.name(i) === 'mm') as number];
  const [caller] = links(p, 'function', fn, 'callers', null);
  const back = links(p, 'function', caller.id, 'callees', null).find((l) => l.id === fn);
  assert.equal(back?.calls, caller.calls);
  assert.equal(back?.cumulative, caller.cumulative);
});

test('the timeline draws at most two pieces a column, and the longest call of a column', () => {
  for (const row of p.rows.rows)
    for (const [t0, t1] of [
      [0, p.duration],
      [1000, 90_000],
      [p.duration - 10, p.duration],
    ]) {
      const drawn = pieces(p.rows, row, p.event.begin, p.event.end, t0, t1, 100);
      assert.ok(drawn.length <= 200);
      for (let i = 1; i < drawn.length; i++) assert.ok(drawn[i].from >= drawn[i - 1].from);
    }
});

test('levels find the longest of any part of a row', () => {
  const n = 5000;
  const begin = Float64Array.from({ length: n }, (_, i) => 10 * i);
  const end = Float64Array.from({ length: n }, (_, i) => 10 * i + ((i * 7919) % 10));
  const deep = open(
    makeContainer(
      { signatures: [{ kind: 'op', name: 'f', family: 'other' }] },
      {
        'event.begin': [begin, 'delta'],
        'event.end': [end, 'delta'],
        'event.thread': [new Array(n).fill(0), 'zigzag'],
        'event.signature': [new Array(n).fill(0), 'zigzag'],
      },
    ),
  );
  for (const [from, to] of [
    [0, n],
    [3, 4],
    [17, 4711],
    [256, 512],
    [4990, 5000],
  ]) {
    let most = 0;
    for (let i = from; i < to; i++) most = Math.max(most, end[i] - begin[i]);
    const best = longest(deep.rows, begin, end, from, to);
    assert.equal(end[best] - begin[best], most, `${from}..${to}`);
    assert.ok(best >= from && best < to);
  }
});

test('the peak is the largest use, and what was alive then sums to it', () => {
  const m = new MemoryUse(p);
  const alive = m.alive(m.peak.place);
  assert.equal(sum(alive.map((b) => p.allocation.bytes[b])), m.peak.bytes);
  const root = blockTree(p, alive);
  assert.equal(root.bytes, m.peak.bytes);
  for (const level of root.children) assert.equal(sum(level.children.map((c) => c.bytes)), level.bytes);
  assert.equal(Math.max(...m.total), m.peak.bytes);
});

test('the stack over time has the peak in one of its columns, from any start', () => {
  const m = new MemoryUse(p);
  for (const columns of [1, 7, 500]) {
    const rows = m.stacked(0, p.duration, columns);
    const totals = Array.from({ length: columns }, (_, i) => sum(rows.map((r) => r[i])));
    assert.equal(Math.max(...totals), m.peak.bytes);
  }
  const late = m.stacked(p.duration * 0.7, p.duration, 1);
  assert.equal(sum(late.map((r) => r[0])), m.peakIn(p.duration * 0.7, p.duration).bytes);
});

test('a line lights its calls, their backward nodes and the updates of their parameters', () => {
  const line = p.lines.findIndex((l) => l.line === 4);
  const mask = lit(p, { kind: 'line', id: String(line) }) as Uint8Array;
  const named = (name: string): boolean[] =>
    Array.from({ length: p.n }, (_, i) => i)
      .filter((i) => p.name(i) === name)
      .map((i) => mask[i] === 1);
  for (const name of ['linear', 'LinearBackward0', 'mm', 'sgd_step']) assert.ok(named(name).every(Boolean), name);
  assert.ok(named('mse_loss').every((x) => !x));
});

test('a selection of another profile is nothing', () => {
  for (const s of [
    { kind: 'op', id: 'nope' },
    { kind: 'call', id: '1e9' },
    { kind: 'line', id: '-1' },
    { kind: 'module', id: 'x' },
    { kind: 'node', id: '9.9' },
    { kind: '__proto__', id: '' },
  ])
    assert.equal(exists(p, s), false, s.kind);
});

test('why a call was slow: the parts sum to its excess', () => {
  for (let i = 0; i < p.n; i += 7) {
    const slow = whySlow(p, i);
    assert.ok(Math.abs(sum(slow.parts.map((x) => x.ns)) - slow.excess) < 1e-6);
    assert.equal(slow.excess, p.time(i) - slow.median);
  }
  assert.equal(median([3, 1, 2, 10]), 2.5);
});

test('repeats: all but the first call would be saved', () => {
  const [group] = repeats(p, null);
  assert.equal(group.calls.length, 10);
  assert.equal(group.saving, sum(group.calls.slice(1).map((i) => p.time(i))));
  assert.deepEqual(repeatsOf(p, group.calls[3])?.calls, group.calls);
});

test('at the ceiling: nothing dragged is the run as measured, all dragged saves every difference', () => {
  const rows = savings(p, null);
  assert.equal(scenario(p, rows, {}, null, 20).after, p.duration);
  const all = scenario(p, rows, Object.fromEntries(rows.map((r) => [r.name, 1])), null, 20);
  assert.equal(all.before - all.after, sum(rows.map((r) => r.saving)));
  assert.equal(all.perStep?.before, p.duration / 20);
  for (const r of rows) assert.ok(r.saving >= 0);
});

test('the roofline keeps first calls apart, and their times are those of the ops', () => {
  const all = dots(p, null);
  assert.ok(all.some((d) => d.first) && all.some((d) => !d.first));
  const time = sum(
    Array.from({ length: p.n }, (_, i) => i)
      .filter((i) => p.isOp[p.event.signature[i]])
      .map((i) => p.time(i)),
  );
  assert.equal(sum(all.map((d) => d.time)), time);
});

test('lines and layers hold the time that is charged to them', () => {
  const m = new MemoryUse(p);
  const lines = lineFigures(p, null, m.alive(m.peak.place));
  assert.equal(sum(lines.map((l) => l.time)), sum(self));
  for (const l of lines) assert.equal(l.forward + l.backward + l.update, l.time);
  assert.equal(sum(lines.map((l) => l.atPeak)), m.peak.bytes);
  const rows = layers(p, null, m.alive(m.peak.place));
  const inside = sum(self.filter((_, i) => p.event.module[i] >= 0));
  assert.equal(rows[0].forward + rows[0].backward + rows[0].update, inside);
  assert.ok(checkpoints(p, m.alive(m.peak.place), 20)[0].saved > 0);
});

test('the panel: figures of an op are those of its calls', () => {
  const s = summarize(p, { kind: 'op', id: 'mm' }, null);
  assert.equal(s?.calls, 20);
  assert.equal(s?.durations.length, 20);
  assert.equal(s?.phases[1], s?.time);
});

test('search finds ops, lines and views, and all words must occur', () => {
  const found = search(p, [{ id: 'memory', title: 'Memory' }], 'two_layer 4');
  assert.equal(found[0].what, 'line');
  assert.equal(search(p, [], 'mm')[0].text, 'mm');
  assert.equal(search(p, [{ id: 'memory', title: 'Memory' }], 'memo')[0].view, 'memory');
  assert.deepEqual(search(p, [], 'mm nothing'), []);
});

test('verdicts of a comparison by name', () => {
  const all = verdicts(open(compareContainer()).header);
  assert.deepEqual(
    ['mm', 'linear', 'relu', 'tanh', 'absent'].map((n) => tone(all?.get(n))),
    ['worse', 'better', 'unclear', 'added', 'unclear'],
  );
});
