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

export interface GraphNode {
  id: number;
  name: string;
  label: string;
  family: string;
  box: number;
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
  value?: unknown;
  gradient?: unknown;
  shape?: string;
  group?: number;
  why?: string;
}

export interface GraphEdge {
  from: number;
  to: number;
  label: string;
  kind: string;
  points: [number, number][];
}

export interface GraphBox {
  id: number;
  parent: number;
  name: string;
  repeat?: number;
  x: number;
  y: number;
  w: number;
  h: number;
  open?: boolean;
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
  metrics: { series: Series[]; layers?: LayerLog[]; live?: unknown } | null;
  compare: { what: string; scatter: string; warnings: string[]; rows: CompareRow[] } | null;
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
  const compare = isRecord(h.compare) ? h.compare : null;
  const metrics = isRecord(h.metrics) ? h.metrics : null;
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
    graphs: list<Graph>(h.graphs).map((g) => ({
      ...g,
      nodes: list(g.nodes),
      edges: list(g.edges),
      boxes: list(g.boxes),
    })),
    metrics: metrics && { ...metrics, series: list(metrics.series), layers: list(metrics.layers) },
    compare: compare && {
      what: text(compare.what),
      scatter: text(compare.scatter),
      warnings: list(compare.warnings),
      rows: list(compare.rows),
    },
  };
}
