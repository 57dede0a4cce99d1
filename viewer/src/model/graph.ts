// Places of a graph's nodes and boxes with any set of boxes open. Each box was laid out alone, in
// layers from top to bottom; opening one makes its layer higher and moves what stands right of it.
// Also the representative of what is hidden in a closed box, and the order of steps through a graph.

import type { Graph, GraphBox, GraphEdge, GraphNode } from '../data/header';

export interface Rect {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface PlacedNode extends Rect {
  node: GraphNode;
}
export interface PlacedBox extends Rect {
  box: GraphBox;
  open: boolean;
  depth: number;
  /** Nodes inside, however deep. */
  inside: number;
}
export interface PlacedEdge {
  edge: GraphEdge;
  points: [number, number][];
  /** How many edges of hidden nodes it stands for. */
  count: number;
  label: string;
}
export interface Placed {
  nodes: PlacedNode[];
  boxes: PlacedBox[];
  edges: PlacedEdge[];
  width: number;
  height: number;
}

const PADDING = 12;
const TITLE = 20;
const ROOT = -1;

interface Item extends Rect {
  node?: GraphNode;
  box?: GraphBox;
  openWidth: number;
  openHeight: number;
}

function finite(v: number | undefined): number {
  return v !== undefined && Number.isFinite(v) ? v : 0;
}

export class GraphIndex {
  readonly nodesIn = new Map<number, GraphNode[]>();
  readonly boxesIn = new Map<number, GraphBox[]>();
  readonly boxById = new Map<number, GraphBox>();
  readonly nodeById = new Map<number, GraphNode>();

  constructor(readonly graph: Graph) {
    for (const b of graph.boxes) this.boxById.set(b.id, b);
    for (const b of graph.boxes) push(this.boxesIn, this.parentOf(b), b);
    for (const n of graph.nodes) {
      this.nodeById.set(n.id, n);
      push(this.nodesIn, this.boxById.has(n.box) ? n.box : ROOT, n);
    }
  }

  /** A box whose parents would go round in a circle stands at the root. */
  parentOf(b: GraphBox): number {
    let at: GraphBox | undefined = b;
    for (let steps = 0; at; steps++) {
      if (steps > this.boxById.size) return ROOT;
      at = at.parent === at.id ? undefined : this.boxById.get(at.parent);
    }
    return this.boxById.has(b.parent) && b.parent !== b.id ? b.parent : ROOT;
  }

  /** The outermost closed box around a node, or null if the node is visible. */
  hiddenIn(node: GraphNode, open: Set<number>): GraphBox | null {
    let hidden: GraphBox | null = null;
    let box = this.boxById.get(node.box);
    for (let steps = 0; box && steps <= this.boxById.size; steps++) {
      if (!open.has(box.id)) hidden = box;
      box = this.boxById.get(this.parentOf(box));
    }
    return hidden;
  }

  countInside(box: number): number {
    let sum = this.nodesIn.get(box)?.length ?? 0;
    for (const b of this.boxesIn.get(box) ?? []) sum += this.countInside(b.id);
    return sum;
  }
}

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

/** A layer that grows: everything below `bottom` moves by `grow`. */
interface Growth {
  top: number;
  bottom: number;
  grow: number;
}

export function place(index: GraphIndex, open: Set<number>): Placed {
  const out: Placed = { nodes: [], boxes: [], edges: [], width: 0, height: 0 };
  const sizes = new Map<number, { w: number; h: number; items: Item[]; layers: Growth[] }>();
  measure(index, ROOT, open, sizes);
  const put = (container: number, dx: number, dy: number, depth: number): void => {
    for (const item of sizes.get(container)?.items ?? []) {
      const { x, y } = item;
      if (item.node) out.nodes.push({ node: item.node, x: dx + x, y: dy + y, w: item.w, h: item.h });
      else if (item.box) {
        const isOpen = open.has(item.box.id);
        out.boxes.push({
          box: item.box,
          open: isOpen,
          depth,
          x: dx + x,
          y: dy + y,
          w: item.openWidth,
          h: item.openHeight,
          inside: index.countInside(item.box.id),
        });
        if (isOpen) put(item.box.id, dx + x + PADDING, dy + y + TITLE + PADDING / 2, depth + 1);
      }
    }
  };
  put(ROOT, 0, 0, 0);
  const root = sizes.get(ROOT);
  out.width = root?.w ?? 0;
  out.height = root?.h ?? 0;
  out.edges = placeEdges(index, open, out, root?.layers ?? []);
  return out;
}

function measure(
  index: GraphIndex,
  container: number,
  open: Set<number>,
  sizes: Map<number, { w: number; h: number; items: Item[]; layers: Growth[] }>,
): { w: number; h: number } {
  const items: Item[] = [];
  for (const node of index.nodesIn.get(container) ?? []) {
    const w = finite(node.w) || 80;
    const h = finite(node.h) || 28;
    items.push({ node, x: finite(node.x), y: finite(node.y), w, h, openWidth: w, openHeight: h });
  }
  for (const box of index.boxesIn.get(container) ?? []) {
    const w = finite(box.w) || 120;
    const h = finite(box.h) || 32;
    const item: Item = { box, x: finite(box.x), y: finite(box.y), w, h, openWidth: w, openHeight: h };
    if (open.has(box.id)) {
      const inner = measure(index, box.id, open, sizes);
      item.openWidth = Math.max(w, inner.w + 2 * PADDING);
      item.openHeight = Math.max(h, inner.h + TITLE + 1.5 * PADDING);
    }
    items.push(item);
  }
  const growing = items.filter((i) => i.openHeight > i.h || i.openWidth > i.w);
  const layers: Growth[] = [];
  for (const item of [...growing].sort((a, b) => a.y - b.y)) {
    const last = layers[layers.length - 1];
    // Boxes that share a layer grow together.
    if (last && item.y < last.bottom) {
      last.bottom = Math.max(last.bottom, item.y + item.h);
      last.grow = Math.max(last.grow, item.openHeight - item.h);
    } else layers.push({ top: item.y, bottom: item.y + item.h, grow: item.openHeight - item.h });
  }
  const before = items.map((i) => ({ x: i.x, y: i.y, w: i.w, h: i.h }));
  items.forEach((item, k) => {
    const at = before[k];
    for (const layer of layers) if (at.y >= layer.bottom) item.y += layer.grow;
    for (const other of growing) {
      const o = before[items.indexOf(other)];
      if (other !== item && at.x >= o.x + o.w && at.y < o.y + o.h && o.y < at.y + at.h)
        item.x += other.openWidth - other.w;
    }
  });
  let w = 0;
  let h = 0;
  for (const item of items) {
    w = Math.max(w, item.x + item.openWidth);
    h = Math.max(h, item.y + item.openHeight);
  }
  sizes.set(container, { w, h, items, layers });
  return { w, h };
}

function placeEdges(index: GraphIndex, open: Set<number>, placed: Placed, layers: Growth[]): PlacedEdge[] {
  const rects = new Map<string, Rect>();
  for (const n of placed.nodes) rects.set(`n${n.node.id}`, n);
  for (const b of placed.boxes) rects.set(`b${b.box.id}`, b);
  const keys = new Map<number, string>();
  for (const node of index.graph.nodes) {
    const hidden = index.hiddenIn(node, open);
    keys.set(node.id, hidden ? `b${hidden.id}` : `n${node.id}`);
  }
  const merged = new Map<string, PlacedEdge>();
  for (const edge of index.graph.edges) {
    const from = keys.get(edge.from);
    const to = keys.get(edge.to);
    if (!from || !to || from === to) continue;
    const key = `${from}>${to}>${edge.kind}`;
    const known = merged.get(key);
    if (known) {
      known.count++;
      continue;
    }
    const a = rects.get(from);
    const b = rects.get(to);
    if (!a || !b) continue;
    const given = edge.points ?? [];
    const own =
      from[0] === 'n' &&
      to[0] === 'n' &&
      index.nodeById.get(edge.from)?.box === ROOT &&
      index.nodeById.get(edge.to)?.box === ROOT;
    const points = given.length >= 2 && own && layers.length === 0 ? given : connect(a, b);
    merged.set(key, { edge, points, count: 1, label: edge.label ?? '' });
  }
  return [...merged.values()];
}

/** From the bottom of one rectangle to the top of the next, or from side to side where that is shorter. */
function connect(a: Rect, b: Rect): [number, number][] {
  const ax = a.x + a.w / 2;
  const bx = b.x + b.w / 2;
  if (b.y >= a.y + a.h)
    return [
      [ax, a.y + a.h],
      [bx, b.y],
    ];
  if (a.y >= b.y + b.h)
    return [
      [ax, a.y],
      [bx, b.y + b.h],
    ];
  return ax < bx
    ? [
        [a.x + a.w, a.y + a.h / 2],
        [b.x, b.y + b.h / 2],
      ]
    : [
        [a.x, a.y + a.h / 2],
        [b.x + b.w, b.y + b.h / 2],
      ];
}

/** Node ids so that each comes after what it reads; nodes in a circle come last, in the order of the file. */
export function topological(graph: Graph): number[] {
  const waits = new Map<number, number>();
  const readers = new Map<number, number[]>();
  for (const n of graph.nodes) waits.set(n.id, 0);
  for (const e of graph.edges) {
    if (e.kind === 'gradient' || !waits.has(e.from) || !waits.has(e.to)) continue;
    waits.set(e.to, (waits.get(e.to) as number) + 1);
    push(readers, e.from, e.to);
  }
  const out = graph.nodes.filter((n) => waits.get(n.id) === 0).map((n) => n.id);
  for (let i = 0; i < out.length; i++)
    for (const r of readers.get(out[i]) ?? []) {
      const left = (waits.get(r) as number) - 1;
      waits.set(r, left);
      if (left === 0) out.push(r);
    }
  const done = new Set(out);
  for (const n of graph.nodes) if (!done.has(n.id)) out.push(n.id);
  return out;
}

export interface FlowStep {
  node: number;
  phase: 'forward' | 'backward';
}

/** Values forward, then gradients backward; only nodes that have one. */
export function flow(graph: Graph): FlowStep[] {
  const order = topological(graph);
  const byId = new Map(graph.nodes.map((n) => [n.id, n]));
  const forward = order.filter((id) => byId.get(id)?.value !== undefined);
  const backward = [...order].reverse().filter((id) => byId.get(id)?.gradient !== undefined);
  return [
    ...forward.map((node): FlowStep => ({ node, phase: 'forward' })),
    ...backward.map((node): FlowStep => ({ node, phase: 'backward' })),
  ];
}

/** A value of the playground as a short text: a number, or small tensors in full. */
export function valueText(value: unknown): string {
  if (typeof value === 'number')
    return Number.isInteger(value)
      ? String(value)
      : value
          .toPrecision(5)
          .replace(/\.?0+$/, '')
          .replace('-', '−');
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return `[${value.map(valueText).join(', ')}]`;
  return value === null || value === undefined ? '' : JSON.stringify(value);
}
