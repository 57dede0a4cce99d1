// What the header of a container holds (docs/view-format.md). Everything is optional for the
// reader: a profile may come from an older recorder, and each view checks what it needs.

import type { ColumnInfo } from './columns';

export type Value = string | number | null;

export interface ReportTable {
  name: string;
  heading: string;
  footing: string;
  columns: { key: string; title: string }[];
  rows: Record<string, Value>[];
}

export interface Signature {
  kind: string;
  name: string;
  family: string;
  inputs: [string, number[]][];
  outputs: [string, number[]][];
  attributes: string;
  flops: number;
  contraction_flops: number;
  bytes: number;
  bound: string;
}

export interface Site {
  file: string;
  line: number;
  function: string;
  object: string;
  python: boolean;
  own: boolean;
}

export interface ModuleInfo {
  parent: number;
  name: string;
  path: string;
  type: string;
  parameters: number;
  parameter_bytes: number;
}

export interface SourceFile {
  file: string;
  hash?: string;
  changed?: boolean;
  text?: string;
}

/** A value of an expression: all of a small tensor, or its range and a picture. */
export interface TensorValue {
  shape?: number[];
  dtype?: string;
  text?: string;
  value?: unknown;
  min?: number;
  max?: number;
  picture?: number[][];
}

export interface GraphNode {
  id: string;
  name: string;
  label: string;
  family: string;
  box: string | null;
  x: number;
  y: number;
  w: number;
  h: number;
  time_ns?: number;
  bytes?: number;
  flops?: number;
  site?: number;
  module?: number;
  event?: number;
  value?: TensorValue | number | string;
  gradient?: TensorValue | number | string;
  shape?: string;
  group?: number;
  why?: string;
  leaf?: boolean;
}

/** Between two nodes or boxes of the same box. */
export interface GraphEdge {
  from: string;
  to: string;
  box: string | null;
  kind: string;
  count?: number;
  label?: string;
  local?: unknown;
  gradient?: unknown;
  points: [number, number][];
}

export interface GraphBox {
  id: string;
  parent: string | null;
  name: string;
  repeat?: number;
  x: number;
  y: number;
  w: number;
  h: number;
  open?: boolean;
  inner_x?: number;
  inner_y?: number;
  inner_width?: number;
  inner_height?: number;
}

export interface Graph {
  title: string;
  kind: string;
  nodes: GraphNode[];
  edges: GraphEdge[];
  boxes: GraphBox[];
}

export interface Series {
  run: string;
  name: string;
  steps: number[];
  values: (number | null)[];
  times?: (number | null)[];
}

export interface CompareRow {
  name: string;
  first: number | null;
  second: number | null;
  change: number | null;
  low?: number | null;
  high?: number | null;
  verdict: string;
  regression?: boolean;
  rest?: boolean;
}

export interface Comparison {
  what: string;
  scatter: string;
  warnings: string[];
  rows: CompareRow[];
}

export interface Machine {
  flops?: number;
  bandwidth?: Record<string, number>;
  threads?: number;
}

export interface Header {
  kind: string;
  name: string;
  format?: number;
  pellucid?: string;
  columns: Record<string, ColumnInfo>;
  run: Record<string, Value>;
  missing: Record<string, { why: string; command: string }>;
  notes: string[];
  warnings: string[];
  machine: Machine;
  sentence: string;
  parts: { name: string; ns: number; share: number }[];
  totals: Record<string, number>;
  tables: Record<string, ReportTable[]>;
  signatures: Signature[];
  sites: Site[];
  modules: ModuleInfo[];
  threads: { process: number; number: number; name: string }[];
  categories: string[];
  strings: string[];
  sources: SourceFile[];
  graphs: Graph[];
  series: Series[];
  layers: LayerLog[];
  /** Rows of live.jsonl: time, speed, memory of a run. */
  live: Record<string, unknown>[];
  /** How much of a run's files is in the header. */
  position: Record<string, number>;
  /** Of an expression: its text, and those of its inputs by name. */
  expression: string;
  inputs: Record<string, string>;
  /** By op, line, module and memory; null for anything but a comparison. */
  compare: Record<string, Comparison> | null;
}

export interface LayerLog {
  step: number;
  parameters?: Record<
    string,
    { weight?: number; gradient?: number; update?: number; weights?: number[]; gradients?: number[] }
  >;
  modules?: Record<string, { mean?: number; deviation?: number; zeros?: number }>;
}

const isRecord = (x: unknown): x is Record<string, unknown> => typeof x === 'object' && x !== null && !Array.isArray(x);
const list = <T>(x: unknown): T[] => (Array.isArray(x) ? (x as T[]) : []);
const record = (x: unknown): Record<string, unknown> => (isRecord(x) ? x : {});
const text = (x: unknown): string => (typeof x === 'string' ? x : '');

/** A header with every field present, from whatever JSON there is. */
export function completeHeader(json: unknown): Header {
  const h = record(json);
  const tables: Record<string, ReportTable[]> = {};
  for (const [name, value] of Object.entries(record(h.tables)))
    tables[name] = list<ReportTable>(isRecord(value) ? value.tables : value).filter((t) => Array.isArray(t.rows));
  const metrics = record(h.metrics);
  return {
    kind: text(h.kind),
    name: text(h.name),
    format: typeof h.format === 'number' ? h.format : undefined,
    pellucid: text(h.pellucid),
    columns: record(h.columns) as Record<string, ColumnInfo>,
    run: record(h.run) as Record<string, Value>,
    missing: record(h.missing) as Header['missing'],
    notes: list(h.notes),
    warnings: list(h.warnings),
    machine: record(h.machine) as Machine,
    sentence: text(h.sentence),
    parts: list(h.parts),
    totals: record(h.totals) as Record<string, number>,
    tables,
    signatures: list(h.signatures),
    sites: list(h.sites),
    modules: list(h.modules),
    threads: list(h.threads),
    categories: list(h.categories),
    strings: list(h.strings),
    sources: list(h.sources),
    graphs: list<Graph>(h.graphs).map(completeGraph),
    series: list<Series>(metrics.series).map((x) => ({ ...x, values: list<unknown>(x.values).map(finite) })),
    layers: list(h.layers),
    live: list(h.live),
    position: record(h.position) as Record<string, number>,
    expression: text(record(h.playground).expression),
    inputs: record(h.inputs) as Record<string, string>,
    compare: isRecord(h.compare) ? comparisons(h.compare) : null,
  };
}

/** "nan" and "inf" are texts in a run's files. */
export const finite = (v: unknown): number | null => (typeof v === 'number' && Number.isFinite(v) ? v : null);

export const completeGraph = (g: Graph): Graph => ({
  ...g,
  title: text(g.title),
  kind: text(g.kind),
  nodes: list(g.nodes),
  edges: list(g.edges),
  boxes: list(g.boxes),
});

/** The tables of `pellucid diff --json`: seconds as "first_seconds", bytes as "first_bytes". */
function comparisons(all: Record<string, unknown>): Record<string, Comparison> {
  const out: Record<string, Comparison> = {};
  for (const [by, value] of Object.entries(all)) {
    const diff = record(value);
    if (!Array.isArray(diff.rows)) continue;
    const rows = list<Record<string, unknown>>(diff.rows).map((r): CompareRow => {
      const interval = list<number>(r.interval);
      const of = (side: string): number | null => finite(r[`${side}_seconds`]) ?? finite(r[`${side}_bytes`]);
      return {
        name: text(r.name),
        first: of('first'),
        second: of('second'),
        change: finite(r.change),
        low: finite(interval[0]),
        high: finite(interval[1]),
        verdict: text(r.verdict),
        rest: text(r.name) === '(rest)',
      };
    });
    out[by] = { what: text(diff.what), scatter: text(diff.scatter), warnings: list(diff.warnings), rows };
  }
  return out;
}
