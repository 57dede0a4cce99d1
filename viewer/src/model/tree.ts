// The tree of the flame views: the calls of a range added up by call path, by module or by op; by
// time, bytes or FLOPs; inverted if asked. A node's value is its own and that of its children, to
// the last unit. Iterative throughout: calls may nest thousands deep.

import { OP, type Profile } from './profile';
import { contains, type Range } from './range';

export interface TreeNode {
  name: string;
  detail: string;
  family: string;
  /** What the node stands for, as a selection's text; '' for none. */
  key: string;
  own: number;
  value: number;
  calls: number;
  lit: number;
  mine: boolean;
  parent: TreeNode | null;
  children: TreeNode[];
  /** Distinguishes it among its siblings, and with its ancestors in the URL. */
  id: string;
}

export type By = 'call' | 'module' | 'op';
export type Weight = 'time' | 'bytes' | 'flops' | 'samples';

export interface TreeOptions {
  by: By;
  weight: Weight;
  inverted: boolean;
  range: Range | null;
  /** Events that the selection lights. */
  mask: Uint8Array | null;
  /** Only functions of the user's own files; what they call is added to them. */
  mineOnly: boolean;
}

interface Step {
  id: string;
  name: string;
  detail: string;
  family: string;
  key: string;
  mine: boolean;
}

function makeNode(step: Step, parent: TreeNode | null): TreeNode {
  return { ...step, own: 0, value: 0, calls: 0, lit: 0, parent, children: [] };
}

class Builder {
  readonly root: TreeNode;
  private readonly index = new Map<TreeNode, Map<string, TreeNode>>();

  constructor(name: string) {
    this.root = makeNode({ id: '', name, detail: '', family: 'other', key: '', mine: true }, null);
  }

  child(parent: TreeNode, step: Step): TreeNode {
    let kids = this.index.get(parent);
    if (!kids) this.index.set(parent, (kids = new Map()));
    let node = kids.get(step.id);
    if (!node) {
      node = makeNode(step, parent);
      kids.set(step.id, node);
      parent.children.push(node);
    }
    return node;
  }

  /** Values from the leaves up, and children in the order of value. */
  finish(): TreeNode {
    const all = nodesOf(this.root);
    for (let i = all.length - 1; i >= 0; i--) {
      const node = all[i];
      node.value += node.own;
      if (node.parent) {
        node.parent.value += node.value;
        node.parent.lit += node.lit;
      }
      node.children.sort((a, b) => b.value - a.value);
    }
    this.root.calls = this.root.children.reduce((sum, c) => sum + c.calls, 0);
    return this.root;
  }
}

/** The node and all below, parents first. */
export function nodesOf(root: TreeNode): TreeNode[] {
  const out = [root];
  for (let i = 0; i < out.length; i++) for (const child of out[i].children) out.push(child);
  return out;
}

/** What an event adds itself: time without children; the bytes and FLOPs of ops. */
export function weigh(p: Profile, weight: Weight): (event: number) => number {
  const { self, signature } = p.event;
  if (weight === 'time') return (i) => self[i];
  const values = Float64Array.from(p.header.signatures, (s) =>
    s.kind === OP ? (weight === 'bytes' ? s.bytes : s.flops) : 0,
  );
  return (i) => values[signature[i]] ?? 0;
}

function functionStep(p: Profile, event: number): Step {
  const fn = p.functionOf[event];
  const { name, line } = p.functions[fn];
  const where = line >= 0 ? p.lines[line] : null;
  return {
    id: `f${fn}`,
    name,
    detail: where ? p.lineName(line) : '',
    family: p.family(event),
    key: `fn:${fn}`,
    mine: where ? where.own : false,
  };
}

/** The nearest event at or above `i` on a line of the user, or -1. */
function nearestMine(p: Profile): Int32Array {
  const out = new Int32Array(p.n);
  for (let i = 0; i < p.n; i++) {
    const line = p.line(i);
    const parent = p.event.parent[i];
    out[i] = line >= 0 && p.lines[line].own ? i : parent >= 0 ? out[parent] : -1;
  }
  return out;
}

function byCall(p: Profile, o: TreeOptions, b: Builder): void {
  const { begin, parent } = p.event;
  const own = weigh(p, o.weight);
  const place: TreeNode[] = new Array(p.n);
  const steps = new Map<number, Step>();
  const mine = o.mineOnly ? nearestMine(p) : null;
  for (let i = 0; i < p.n; i++) {
    const up = parent[i] >= 0 && parent[i] < i ? place[parent[i]] : b.root;
    if (mine && mine[i] !== i) {
      place[i] = up;
    } else {
      const fn = p.functionOf[i];
      let step = steps.get(fn);
      if (!step) steps.set(fn, (step = functionStep(p, i)));
      place[i] = b.child(up, step);
    }
    if (!contains(o.range, begin[i])) continue;
    add(p, o, place[i], i, own(i), place[i] === up ? 0 : 1);
  }
}

function add(_p: Profile, o: TreeOptions, node: TreeNode, event: number, value: number, calls: number): void {
  node.own += value;
  node.calls += calls;
  if (o.mask && o.mask[event]) node.lit += value;
}

function byModule(p: Profile, o: TreeOptions, b: Builder): void {
  const own = weigh(p, o.weight);
  const places = new Map<number, TreeNode>();
  const placeOf = (module: number): TreeNode => {
    const m = p.header.modules[module];
    if (!m) return b.child(b.root, { id: 'm-1', name: 'no module', detail: '', family: 'other', key: '', mine: false });
    const known = places.get(module);
    if (known) return known;
    const up = m.parent >= 0 && m.parent < module ? placeOf(m.parent) : b.root;
    const node = b.child(up, {
      id: `m${module}`,
      name: m.name || m.type || 'module',
      detail: m.type,
      family: 'other',
      key: `module:${module}`,
      mine: true,
    });
    places.set(module, node);
    return node;
  };
  for (let i = 0; i < p.n; i++) {
    if (!contains(o.range, p.event.begin[i])) continue;
    const value = own(i);
    if (value === 0 && p.signature(i)?.kind !== OP) continue;
    const kind = p.signature(i)?.kind;
    const at = placeOf(p.event.module[i]);
    if (kind === 'module') {
      add(p, o, at, i, value, 1);
      continue;
    }
    const name = p.name(i);
    const node = b.child(at, { id: `o${name}`, name, detail: '', family: p.family(i), key: `op:${name}`, mine: true });
    add(p, o, node, i, value, 1);
  }
}

function byOp(p: Profile, o: TreeOptions, b: Builder): void {
  const own = weigh(p, o.weight);
  for (let i = 0; i < p.n; i++) {
    if (!contains(o.range, p.event.begin[i])) continue;
    const value = own(i);
    const name = p.name(i);
    const op = b.child(b.root, {
      id: `o${name}`,
      name,
      detail: '',
      family: p.family(i),
      key: `op:${name}`,
      mine: true,
    });
    const signature = p.event.signature[i];
    const kind = b.child(op, {
      id: `s${signature}`,
      name: shapes(p, signature) || 'no tensors',
      detail: name,
      family: op.family,
      key: `sig:${signature}`,
      mine: true,
    });
    const line = p.line(i);
    const leaf =
      line < 0
        ? kind
        : b.child(kind, {
            id: `l${line}`,
            name: p.lineName(line),
            detail: p.lines[line].function,
            family: op.family,
            key: `line:${line}`,
            mine: p.lines[line].own,
          });
    op.calls++;
    if (leaf !== kind) kind.calls++;
    add(p, o, leaf, i, value, 1);
  }
}

export function shapes(p: Profile, signature: number): string {
  const s = p.header.signatures[signature];
  return (s?.inputs ?? []).map(([, sizes]) => `[${(sizes ?? []).join(',')}]`).join(' ');
}

export function buildTree(p: Profile, o: TreeOptions): TreeNode {
  const b = new Builder(o.weight === 'time' ? 'all calls' : 'all ops');
  if (o.by === 'call') byCall(p, o, b);
  else if (o.by === 'module') byModule(p, o, b);
  else byOp(p, o, b);
  const tree = b.finish();
  return o.inverted ? invert(tree) : tree;
}

/** The stacks of a sampled recording; a node's value is how many samples are in it and below. */
export function sampleTree(p: Profile, o: Pick<TreeOptions, 'range' | 'mineOnly' | 'inverted'>): TreeNode {
  const b = new Builder('all samples');
  const at = p.columns['sample.at'] ?? new Float64Array(0);
  const stack = p.columns['sample.stack'] ?? new Int32Array(at.length).fill(-1);
  const parent = p.columns['frame.parent'] ?? new Int32Array(0);
  const site = p.columns['frame.site'] ?? new Int32Array(0);
  const places: TreeNode[] = new Array(parent.length);
  for (let f = 0; f < parent.length; f++) {
    const up = parent[f] >= 0 && parent[f] < f ? places[parent[f]] : b.root;
    const s = p.header.sites[site[f]];
    const line = s ? p.lineOf[site[f]] : -1;
    places[f] =
      o.mineOnly && !s?.own
        ? up
        : b.child(up, {
            id: `s${site[f]}`,
            name: s ? s.function || p.lineName(line) : '?',
            detail: s && s.function ? p.lineName(line) : '',
            family: s?.own ? 'contraction' : 'scope',
            key: line >= 0 ? `line:${line}` : '',
            mine: s?.own ?? false,
          });
  }
  for (let i = 0; i < at.length; i++) {
    if (!contains(o.range, at[i])) continue;
    const node = places[stack[i]] ?? b.root;
    node.own++;
    node.calls++;
  }
  const tree = b.finish();
  return o.inverted ? invert(tree) : tree;
}

/** Callers below callees: each node's own value under its name, then under its caller's, and so on. */
export function invert(tree: TreeNode): TreeNode {
  const b = new Builder(tree.name);
  for (const node of nodesOf(tree)) {
    if (node.parent === null || (node.own === 0 && node.calls === 0)) continue;
    const path: TreeNode[] = [];
    for (let n: TreeNode | null = node; n !== null && n.parent !== null; n = n.parent) path.push(n);
    const last = path.length - 1;
    let at = b.root;
    const lit = node.lit - node.children.reduce((sum, c) => sum + c.lit, 0);
    path.forEach((step, i) => {
      at = b.child(at, step);
      at.calls += node.calls;
      if (i === last) {
        at.own += node.own;
        at.lit += lit;
      }
    });
  }
  return b.finish();
}

/** The node that a path of ids leads to, or the root. */
export function find(root: TreeNode, path: string[]): TreeNode {
  let at = root;
  for (const id of path) {
    const next = at.children.find((c) => c.id === id);
    if (!next) return root;
    at = next;
  }
  return at;
}

export function pathOf(node: TreeNode): string[] {
  const out: string[] = [];
  for (let n: TreeNode | null = node; n !== null && n.parent !== null; n = n.parent) out.unshift(n.id);
  return out;
}

export interface Cell {
  node: TreeNode | null;
  /** The parent whose small children "other" stands for; of a node itself. */
  of: TreeNode;
  x0: number;
  x1: number;
  depth: number;
  value: number;
  /** For "other": how many children are drawn together. */
  merged: number;
}

/**
 * Cells of a node's subtree between 0 and 1. Children that are narrower than `cutoff` of the whole
 * are drawn together as "other"; with the node's own value the widths of a level sum to the parent's.
 */
export function layout(top: TreeNode, depth: number, cutoff: number): Cell[] {
  const cells: Cell[] = [];
  const whole = top.value;
  if (!(whole > 0)) return cells;
  cells.push({ node: top, of: top, x0: 0, x1: 1, depth: 0, value: whole, merged: 0 });
  for (let i = 0; i < cells.length; i++) {
    const cell = cells[i];
    if (cell.node === null || cell.depth + 1 >= depth) continue;
    const start = cell.x0 * whole;
    let sum = 0;
    let rest = 0;
    let merged = 0;
    for (const child of cell.node.children) {
      if (child.value <= 0) continue;
      if (child.value < cutoff * whole) {
        rest += child.value;
        merged++;
        continue;
      }
      const x0 = (start + sum) / whole;
      sum += child.value;
      cells.push({
        node: child,
        of: child,
        x0,
        x1: (start + sum) / whole,
        depth: cell.depth + 1,
        value: child.value,
        merged: 0,
      });
    }
    if (rest > 0)
      cells.push({
        node: null,
        of: cell.node,
        x0: (start + sum) / whole,
        x1: (start + sum + rest) / whole,
        depth: cell.depth + 1,
        value: rest,
        merged,
      });
  }
  return cells;
}
