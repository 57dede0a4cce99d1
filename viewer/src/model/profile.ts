// A profile as the views read it: its columns by name, what follows from them at once (durations,
// names, functions, lines), and the masks of a selection. Nothing here draws.

import type { Column } from '../data/columns';
import type { Container } from '../data/container';
import type { Header, Signature } from '../data/header';
import { buildRows, type Rows } from './rows';

export interface EventColumns {
  begin: ArrayLike<number>;
  end: ArrayLike<number>;
  parent: ArrayLike<number>;
  signature: ArrayLike<number>;
  thread: ArrayLike<number>;
  site: ArrayLike<number>;
  module: ArrayLike<number>;
  forward: ArrayLike<number>;
  stack: ArrayLike<number>;
  step: ArrayLike<number>;
  self: ArrayLike<number>;
  allocated: ArrayLike<number>;
  freed: ArrayLike<number>;
  phase: ArrayLike<number>;
  flags: ArrayLike<number>;
  inputs: ArrayLike<number>;
  ceiling_ns: ArrayLike<number>;
  first: ArrayLike<number>;
  stalled: ArrayLike<number>;
}

export interface AllocationColumns {
  begin: ArrayLike<number>;
  end: ArrayLike<number>;
  bytes: ArrayLike<number>;
  event: ArrayLike<number>;
  freed_by: ArrayLike<number>;
  thread: ArrayLike<number>;
  category: ArrayLike<number>;
  before: ArrayLike<number>;
  order: ArrayLike<number>;
  freed_order: ArrayLike<number>;
  site: ArrayLike<number>;
  module: ArrayLike<number>;
}

const DEFAULTS: Record<string, number> = {
  'event.inputs': 0,
  'event.first': 0,
  'event.stalled': 0,
  'event.allocated': 0,
  'event.freed': 0,
  'event.phase': 0,
  'event.flags': 0,
  'event.self': 0,
  'allocation.before': 0,
  'stall.count': 1,
};

export interface Prepared {
  header: Header;
  columns: Record<string, Column>;
  rows: Rows;
}

/** The part that costs time in proportion to the events; it runs in the worker. */
export function prepare(container: Container): Prepared {
  const { header, columns } = container;
  const none = new Int32Array(0);
  const rows = buildRows(
    columns['event.begin'] ?? none,
    columns['event.end'] ?? none,
    columns['event.parent'] ?? none,
    columns['event.thread'] ?? none,
  );
  return { header, columns, rows };
}

export const OP = 'op';

export interface Line {
  file: string;
  line: number;
  function: string;
  own: boolean;
  sites: number[];
}

export class Profile {
  readonly header: Header;
  readonly columns: Record<string, Column>;
  readonly rows: Rows;
  readonly n: number;
  readonly event: EventColumns;
  readonly allocation: AllocationColumns;
  readonly blocks: number;
  /** The end of the recording, in ns from its start. */
  readonly duration: number;
  readonly isOp: Uint8Array;
  readonly lines: Line[];
  readonly lineOf: Int32Array;
  /** Functions as cProfile's: a name at a line. */
  readonly functions: { name: string; line: number }[];
  readonly functionOf: Int32Array;
  private readonly moduleKids: number[][];

  constructor(prepared: Prepared) {
    this.header = prepared.header;
    this.columns = prepared.columns;
    this.rows = prepared.rows;
    this.n = this.rowsOf('event');
    this.blocks = this.rowsOf('allocation');
    this.event = this.table('event', this.n, [
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
    ]) as unknown as EventColumns;
    this.allocation = this.table('allocation', this.blocks, [
      'begin',
      'end',
      'bytes',
      'event',
      'freed_by',
      'thread',
      'category',
      'before',
      'order',
      'freed_order',
      'site',
      'module',
    ]) as unknown as AllocationColumns;
    let last = Number(this.header.totals.duration_ns ?? this.header.run.duration ?? 0) || 0;
    for (let i = 0; i < this.n; i++) last = Math.max(last, this.event.end[i]);
    this.duration = last > 0 ? last : 1;
    this.isOp = Uint8Array.from(this.header.signatures, (s) => (s.kind === OP ? 1 : 0));
    this.lines = [];
    this.lineOf = this.buildLines();
    this.functions = [];
    this.functionOf = this.buildFunctions();
    this.moduleKids = this.header.modules.map(() => []);
    this.header.modules.forEach((m, i) => this.moduleKids[m.parent]?.push(i));
  }

  rowsOf(table: string): number {
    for (const [name, info] of Object.entries(this.header.columns)) if (name.startsWith(`${table}.`)) return info.rows;
    return 0;
  }

  /** The columns of a table; one that the file lacks is filled with "none". */
  table(name: string, rows: number, columns: string[]): Record<string, ArrayLike<number>> {
    const out: Record<string, ArrayLike<number>> = {};
    for (const c of columns) {
      const key = `${name}.${c}`;
      out[c] = this.columns[key] ?? new Int32Array(rows).fill(DEFAULTS[key] ?? -1);
    }
    return out;
  }

  private buildLines(): Int32Array {
    const ids = new Map<string, number>();
    return Int32Array.from(this.header.sites, (s, site) => {
      const key = `${s.file}\n${s.line}`;
      let id = ids.get(key);
      if (id === undefined) {
        id = this.lines.length;
        ids.set(key, id);
        this.lines.push({ file: s.file, line: s.line, function: s.function, own: s.own, sites: [] });
      }
      this.lines[id].sites.push(site);
      return id;
    });
  }

  private buildFunctions(): Int32Array {
    const ids = new Map<string, number>();
    const out = new Int32Array(this.n);
    // Events share few pairs of a signature and a site: look the text up once for each pair.
    const pairs = new Map<number, number>();
    const stride = this.header.sites.length + 1;
    for (let i = 0; i < this.n; i++) {
      const pair = this.event.signature[i] * stride + this.event.site[i] + 1;
      let id = pairs.get(pair);
      if (id === undefined) {
        const name = this.name(i);
        const line = this.line(i);
        const key = `${line}\n${name}`;
        id = ids.get(key);
        if (id === undefined) {
          id = this.functions.length;
          ids.set(key, id);
          this.functions.push({ name, line });
        }
        pairs.set(pair, id);
      }
      out[i] = id;
    }
    return out;
  }

  signature(event: number) {
    return this.header.signatures[this.event.signature[event]];
  }
  name(event: number): string {
    return this.signature(event)?.name ?? '?';
  }
  family(event: number): string {
    const s = this.signature(event);
    return s ? this.familyOf(s) : 'other';
  }
  familyOf(s: Signature): string {
    return s.family === 'other' && s.kind !== OP ? 'scope' : s.family;
  }
  time(event: number): number {
    return this.event.end[event] - this.event.begin[event];
  }
  /** The line of an event, -1 if it has none. */
  line(event: number): number {
    const site = this.event.site[event];
    return site >= 0 && site < this.lineOf.length ? this.lineOf[site] : -1;
  }
  lineName(line: number): string {
    const l = this.lines[line];
    return l && l.file ? `${baseName(l.file)}:${l.line}` : '';
  }
  /** "mm · two_layer.cpp:17": the op first, the file after it. */
  functionName(id: number): string {
    const f = this.functions[id];
    if (!f) return '?';
    return f.line >= 0 ? `${f.name} · ${this.lineName(f.line)}` : f.name;
  }
  modulePath(module: number): string {
    const m = this.header.modules[module];
    return m ? m.path || m.name || m.type : '';
  }
  /** A module's path for people; a number says nothing without its type. */
  moduleLabel(module: number): string {
    const path = this.modulePath(module);
    if (!path) return this.header.modules[module] ? '(model)' : '';
    return /(^|\.)\d+$/.test(path) ? `${path} ${this.header.modules[module].type}` : path;
  }
  moduleAndBelow(module: number): Set<number> {
    const out = new Set<number>();
    const open = [module];
    while (open.length > 0) {
      const m = open.pop() as number;
      if (out.has(m)) continue;
      out.add(m);
      open.push(...(this.moduleKids[m] ?? []));
    }
    return out;
  }
  moduleChildren(module: number): number[] {
    return this.moduleKids[module] ?? [];
  }
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
