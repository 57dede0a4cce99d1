// Containers for tests: a small training run with everything a profile can hold, written as the C++
// side writes it; with hostile names if asked; also runs, graphs and comparisons.

import { crc32 } from '../src/data/crc32';

type Numbers = ArrayLike<number>;

function varint(value: number, out: number[]): void {
  let v = value;
  while (v >= 128) {
    out.push((v % 128) + 128);
    v = Math.floor(v / 128);
  }
  out.push(v);
}

const zigzag = (v: number): number => (v >= 0 ? 2 * v : -2 * v - 1);

export function encodeColumn(values: Numbers, encoding: string): Uint8Array {
  if (encoding === 'u8') return Uint8Array.from(values);
  if (encoding === 'f64') return new Uint8Array(Float64Array.from(values).buffer);
  const out: number[] = [];
  let before = 0;
  for (let i = 0; i < values.length; i++) {
    const v = values[i];
    varint(encoding === 'varint' ? v : zigzag(encoding === 'delta' ? v - before : v), out);
    before = v;
  }
  return Uint8Array.from(out);
}

export function makeContainer(header: Record<string, unknown>, columns: Record<string, [Numbers, string]>): Uint8Array {
  const infos: Record<string, unknown> = {};
  const parts: Uint8Array[] = [];
  let offset = 0;
  for (const [name, [values, encoding]] of Object.entries(columns)) {
    const bytes = encodeColumn(values, encoding);
    infos[name] = { rows: values.length, encoding, offset, bytes: bytes.length, crc32: crc32(bytes) };
    parts.push(bytes);
    offset += bytes.length;
  }
  const json = new TextEncoder().encode(JSON.stringify({ ...header, columns: infos }));
  const out = new Uint8Array(12 + json.length + offset);
  out.set(new TextEncoder().encode('PLCVIEW1'));
  new DataView(out.buffer).setUint32(8, json.length, true);
  out.set(json, 12);
  let at = 12 + json.length;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export const HOSTILE = '</script><img src=x onerror=alert(1)>\u0000\u202e"\'`${1}&<!--';

const EVENT_COLUMNS = [
  'begin',
  'end',
  'parent',
  'signature',
  'thread',
  'site',
  'module',
  'forward',
  'stack',
  'step',
  'self',
  'allocated',
  'freed',
  'phase',
  'flags',
  'inputs',
  'ceiling_ns',
  'first',
  'stalled',
] as const;
type Event = Record<(typeof EVENT_COLUMNS)[number], number>;

interface Options {
  steps?: number;
  hostile?: boolean;
  events?: boolean;
}

const NAMES: [string, string, string, number, number][] = [
  // kind, name, family, FLOPs, bytes
  ['module', 'Sequential', 'other', 0, 0],
  ['module', 'Linear', 'other', 0, 0],
  ['op', 'linear', 'contraction', 12.8e6, 680e3],
  ['op', 'relu', 'pointwise', 64e2, 51e3],
  ['op', 'mse_loss', 'reduction', 1920, 5120],
  ['engine', 'backward', 'other', 0, 0],
  ['backward', 'LinearBackward0', 'other', 0, 0],
  ['op', 'mm', 'contraction', 12.8e6, 680e3],
  ['optimizer', 'Optimizer.step#SGD.step', 'optimizer', 0, 0],
  ['op', 'sgd_step', 'optimizer', 2e5, 1.2e6],
];

/** A deterministic stand-in for noise. */
const wobble = (i: number): number => 1 + ((i * 7919) % 101) / 400;

function build(steps: number): {
  events: Event[];
  ends: number;
  stepSpans: [number, number][];
  blocks: Record<string, number>[];
  stalls: number[][];
  saved: number[][];
} {
  const events: Event[] = [];
  const blocks: Record<string, number>[] = [];
  const stalls: number[][] = [];
  const saved: number[][] = [];
  const stepSpans: [number, number][] = [];
  const seen = new Set<number>();
  let now = 1000;
  let order = 0;
  const open: number[] = [];
  const begin = (
    signature: number,
    site: number,
    module: number,
    phase: number,
    step: number,
    forward = -1,
  ): number => {
    const id = events.length;
    events.push({
      begin: now,
      end: now,
      parent: open[open.length - 1] ?? -1,
      signature,
      thread: 0,
      site,
      module,
      forward,
      stack: -1,
      step,
      self: 0,
      allocated: 0,
      freed: 0,
      phase,
      flags: 0,
      inputs: 0,
      ceiling_ns: -1,
      first: seen.has(signature) ? 0 : 1,
      stalled: 0,
    });
    seen.add(signature);
    open.push(id);
    now += 200;
    return id;
  };
  const end = (): void => {
    const id = open.pop() as number;
    events[id].end = now;
    now += 100;
  };
  const op = (signature: number, time: number, site: number, module: number, phase: number, step: number): number => {
    const id = begin(signature, site, module, phase, step);
    const first = events[id].first;
    const long = time * wobble(id) * (first ? 8 : 1);
    if (first) {
      stalls.push([0, now, 500, 0, id, 1]);
      events[id].stalled = 500;
    }
    now += Math.round(long);
    events[id].ceiling_ns = Math.round(time * 0.4);
    end();
    return id;
  };
  const block = (
    event: number,
    bytes: number,
    category: number,
    freedBy: number,
    at: number,
    freedAt: number,
  ): number => {
    blocks.push({
      begin: at,
      end: freedAt,
      bytes,
      event,
      freed_by: freedBy,
      thread: 0,
      category,
      before: 0,
      order: order++,
      freed_order: -1,
      site: events[event]?.site ?? -1,
      module: events[event]?.module ?? -1,
    });
    events[event].allocated += bytes;
    return blocks.length - 1;
  };
  const free = (id: number, by: number): void => {
    blocks[id].end = events[by].end;
    blocks[id].freed_by = by;
    blocks[id].freed_order = order++;
  };
  for (let step = 0; step < steps; step++) {
    const from = now;
    begin(0, 0, 0, 0, step);
    begin(1, 0, 1, 0, step);
    const linear = op(2, 30000, 0, 1, 0, step);
    end();
    const relu = op(3, 4000, 0, 2, 0, step);
    end();
    const activation = block(linear, 25600, 2, -1, events[linear].begin, -1);
    const second = block(relu, 25600, 2, -1, events[relu].begin, -1);
    op(4, 1000, 1, 0, 0, step);
    begin(5, 2, -1, 1, step);
    const back = begin(6, 0, 1, 1, step, linear);
    const mm = op(7, 40000, 0, 1, 1, step);
    events[mm].inputs = step % 2 ? 7 : 0;
    const gradient = block(mm, 400000, 3, -1, events[mm].begin, -1);
    end();
    end();
    free(activation, back);
    free(second, back);
    saved.push([linear, activation, 2, 0]);
    begin(8, 3, -1, 2, step);
    const update = op(9, 9000, 3, 1, 2, step);
    end();
    free(gradient, update);
    now += 1500;
    stepSpans.push([from, now]);
  }
  for (let i = events.length - 1; i >= 0; i--) {
    events[i].self += events[i].end - events[i].begin;
    if (events[i].parent >= 0) events[events[i].parent].self -= events[i].end - events[i].begin;
  }
  return { events, ends: now + 2000, stepSpans, blocks, stalls, saved };
}

const column = (rows: Record<string, number>[], key: string): number[] => rows.map((r) => r[key]);

const SOURCE =
  '// A two-layer net.\n#include "pellucid/pellucid.h"\nint main() {\n  Tensor y = net->forward(x);  // here\n  Tensor loss = mse_loss(y, t);\n  loss.backward();\n  optimizer.step();\n}\n';

export function profileContainer({ steps = 20, hostile = false, events: hasEvents = true }: Options = {}): Uint8Array {
  const { events, ends, stepSpans, blocks, stalls, saved } = build(hasEvents ? steps : 0);
  const name = (text: string): string => (hostile ? `${text}${HOSTILE}` : text);
  const columns: Record<string, [Numbers, string]> = {};
  if (hasEvents) {
    for (const key of EVENT_COLUMNS)
      columns[`event.${key}`] = [
        column(events, key),
        key === 'first' ? 'u8' : key === 'begin' || key === 'end' ? 'delta' : 'zigzag',
      ];
    for (const key of Object.keys(blocks[0])) columns[`allocation.${key}`] = [column(blocks, key), 'zigzag'];
    ['kind', 'begin', 'duration', 'thread', 'event', 'count'].forEach(
      (key, k) => (columns[`stall.${key}`] = [stalls.map((s) => s[k]), 'zigzag']),
    );
    ['event', 'allocation', 'kind', 'name'].forEach(
      (key, k) => (columns[`use.${key}`] = [saved.map((s) => s[k]), 'zigzag']),
    );
    columns['step.begin'] = [stepSpans.map((s) => s[0]), 'delta'];
    columns['step.end'] = [stepSpans.map((s) => s[1]), 'delta'];
  }
  const ops = events.filter((e) => NAMES[e.signature][0] === 'op');
  const inOps = ops.reduce((sum, e) => sum + e.self, 0);
  const atCeiling = ops.reduce((sum, e) => sum + Math.min(e.self, e.ceiling_ns), 0);
  const inScopes = events.reduce((sum, e) => sum + e.self, 0) - inOps;
  const parts: [string, number][] = [
    ['ops, at the compute ceiling', atCeiling],
    ['ops, below both ceilings', inOps - atCeiling],
    ['scopes between their ops', inScopes],
    ['outside every op and scope', ends - inOps - inScopes],
  ];
  return makeContainer(
    {
      kind: 'profile',
      name: name('two_layer.pellucid'),
      format: 5,
      pellucid: '0.1.0',
      run: { program: name('./two_layer'), mode: 'trace', duration: ends, threads: 2 },
      missing: {
        stacks: { why: 'This recording has no call stacks.', command: 'pellucid profile --stacks -- ./two_layer' },
      },
      notes: [name('a note')],
      warnings: [],
      machine: { flops: 2e11, bandwidth: { L1: 4e11, L2: 2e11, memory: 3.5e10 }, threads: 2 },
      sentence: name('two_layer.cpp:4 (mm) takes most of the time.'),
      parts: parts.map(([text, ns]) => ({ name: text, ns, share: ns / ends })),
      totals: {
        duration_ns: ends,
        total_ns: ends,
        ops: ops.length,
        peak_bytes: 451200,
        flops: 1e9,
        bytes: 1e8,
        at_best_ns: atCeiling,
      },
      tables: {
        advice: {
          tables: [
            {
              name: 'advice',
              heading: '',
              footing: '',
              columns: [],
              rows: [{ share: 0.2, of: 'time', advice: name('make it smaller'), because: 'it is large' }],
            },
          ],
        },
      },
      signatures: NAMES.map(([kind, text, family, flops, bytes]) => ({
        kind,
        name: name(text),
        family,
        inputs:
          kind === 'op'
            ? [
                ['float32', [64, 1000]],
                ['float32', [1000, 100]],
              ]
            : [],
        outputs: [],
        attributes: name(''),
        flops,
        contraction_flops: flops,
        bytes,
        bound: kind === 'op' ? 'compute' : '',
      })),
      sites: [4, 5, 6, 7].map((line) => ({
        file: name('/src/two_layer.cpp'),
        line,
        function: name('main'),
        object: '',
        python: false,
        own: true,
      })),
      modules: [
        { parent: -1, name: '', path: '', type: name('Sequential'), parameters: 0, parameter_bytes: 0 },
        {
          parent: 0,
          name: name('fc1'),
          path: name('fc1'),
          type: 'Linear',
          parameters: 100100,
          parameter_bytes: 400400,
        },
        { parent: 0, name: 'act', path: 'act', type: 'ReLU', parameters: 0, parameter_bytes: 0 },
      ],
      threads: [{ process: 1, number: 1, name: name('two_layer') }],
      categories: ['other', 'parameter', 'activation', 'gradient', 'optimizer', 'temporary', 'data', 'packed'],
      sources: [
        {
          file: name('/src/two_layer.cpp'),
          hash: '1',
          changed: hostile,
          text: hostile ? `${SOURCE}// ${HOSTILE}\n` : SOURCE,
        },
      ],
      graphs: [smallGraph(hostile ? HOSTILE : '')],
    },
    columns,
  );
}

/** a = x**2; b = sin(a); y = b*x, with values and gradients, one box and one fused pair. */
export function smallGraph(more = ''): Record<string, unknown> {
  const number = (value: number): unknown => ({ shape: [], dtype: 'float32', text: String(value), value });
  const node = (
    id: string,
    label: string,
    y: number,
    value: number,
    gradient: number,
    box: string | null = null,
  ): Record<string, unknown> => ({
    id,
    label: label + more,
    family: id === 'n0' ? 'other' : 'pointwise',
    box,
    x: 0,
    y,
    w: 90,
    h: 52,
    time_ns: 1000,
    bytes: 8,
    flops: 1,
    site: 0,
    module: 0,
    event: Number(id.slice(1)),
    value: number(value),
    gradient: number(gradient),
    shape: '[]',
    group: box ? 0 : -1,
  });
  const edge = (from: string, to: string, box: string | null, points: number[][]): Record<string, unknown> => ({
    from,
    to,
    box,
    kind: 'data',
    count: 1,
    label: '[]',
    local: '0.5000',
    points,
  });
  return {
    title: `autograd${more}`,
    kind: 'autograd',
    width: 260,
    height: 252,
    nodes: [
      node('n0', 'x', 0, 2, 1.2),
      node('n1', 'a = x**2', 0, 4, 0.3, 'b0'),
      node('n2', 'b = sin(a)', 90, -0.7568, 2, 'b0'),
      node('n3', 'y = b*x', 200, -1.5136, 1),
    ],
    edges: [
      edge('n0', 'b0', null, [
        [45, 52],
        [55, 90],
      ]),
      edge('b0', 'n3', null, [
        [55, 130],
        [45, 200],
      ]),
      edge('n0', 'n3', null, [
        [80, 52],
        [200, 100],
        [80, 200],
      ]),
      edge('n1', 'n2', 'b0', []),
    ],
    boxes: [
      {
        id: 'b0',
        parent: null,
        name: `Block${more}`,
        repeat: 12,
        x: 0,
        y: 90,
        w: 110,
        h: 40,
        open: false,
        inner_x: 12,
        inner_y: 24,
        inner_width: 90,
        inner_height: 142,
      },
    ],
  };
}

export function runContainer(points = 300): Uint8Array {
  const steps = Array.from({ length: points }, (_, i) => i * 10);
  const curve = (name: string, value: (step: number, i: number) => number | string): unknown => ({
    run: 'runs/two-layer',
    name,
    steps,
    values: steps.map(value),
  });
  const bell = (width: number): number[] =>
    Array.from({ length: 64 }, (_, b) => Math.round(100 * Math.exp(-(((b - 32) / width) ** 2))));
  const layers = Array.from({ length: 12 }, (_, k) => ({
    step: 100 * k,
    parameters: Object.fromEntries(
      ['fc1.weight', 'fc1.bias', 'fc2.weight'].map((n, i) => [
        n,
        { weight: 3 + i + k / 10, gradient: 1 / (1 + k + i), update: 0.001 * (1 + i), weights: bell(6 + k) },
      ]),
    ),
    modules: { fc1: { mean: 0.1 * k, deviation: 1, zeros: 0.5 }, fc2: { mean: 0, deviation: 0.5 + k / 20, zeros: 0 } },
  }));
  const series = [
    curve('loss', (s, i) => (i > points - 5 ? 'nan' : 2 * Math.exp(-s / 600) * wobble(i))),
    curve('learning_rate', (s) => 0.1 / (1 + s / 1000)),
  ];
  const live = steps.map((s, i) => ({ time: s / 100, step: s, samples_per_second: 60000 * wobble(i), memory: 1e6 }));
  const position = { metrics: 100, layers: 50, live: 70 };
  return makeContainer({ kind: 'run', name: 'runs/two-layer', metrics: { series }, layers, live, position }, {});
}

export function compareContainer(): Uint8Array {
  const row = (name: string, first: number, second: number, verdict: string): Record<string, unknown> => ({
    name,
    first_seconds: first,
    second_seconds: second,
    change: first > 0 ? second / first - 1 : null,
    interval: [-0.1, 0.4],
    verdict,
  });
  const op = {
    what: 'median seconds of 20 and 20 optimiser steps',
    scatter: 'within one run of each',
    warnings: ['the numbers of threads differ: 2 and 1'],
    rows: [
      row('total', 1e-4, 1.3e-4, 'worse, a regression'),
      row('mm', 4e-5, 6e-5, 'worse, a regression'),
      row('linear', 3e-5, 2e-5, 'better'),
      row('relu', 4e-6, 4.1e-6, 'cannot tell'),
      row('tanh', 0, 1e-6, 'new'),
    ],
  };
  const total = {
    name: 'total',
    first_bytes: 1000,
    second_bytes: 900,
    change: -0.1,
    interval: null,
    verdict: 'better',
  };
  return makeContainer({ kind: 'compare', name: 'A and B', compare: { op, memory: { ...op, rows: [total] } } }, {});
}
