// Places of a graph's nodes, boxes and edges with any set of boxes open. Each box was laid out alone,
// in layers from top to bottom; opening one makes its layer higher and moves what stands right of it.
// Also the order of steps through a graph's values and gradients.

import type { Graph, GraphBox, GraphEdge, GraphNode, TensorValue } from '../data/header';

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
}
export interface Placed {
  nodes: PlacedNode[];
  boxes: PlacedBox[];
  edges: PlacedEdge[];
  width: number;
  height: number;
}

const PADDING = 12;
const TITLE = 24;
const CLOSED_HEIGHT = 40;
/** The key of what is in no box. */
const ROOT = '';

interface Item extends Rect {
  node?: GraphNode;
  box?: GraphBox;
  shownWidth: number;
  shownHeight: number;
}

interface Level {
  items: Item[];
  w: number;
  h: number;
  move: (x: number, y: number) => [number, number];
}

const finite = (v: number | undefined): number => (v !== undefined && Number.isFinite(v) ? v : 0);

function push<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

export class GraphIndex {
  readonly nodesIn = new Map<string, GraphNode[]>();
  readonly boxesIn = new Map<string, GraphBox[]>();
  readonly edgesIn = new Map<string, GraphEdge[]>();
  readonly boxById = new Map<string, GraphBox>();
  readonly nodeById = new Map<string, GraphNode>();
  private readonly counts = new Map<string, number>();

  constructor(readonly graph: Graph) {
    for (const b of graph.boxes) this.boxById.set(b.id, b);
    for (const b of graph.boxes) push(this.boxesIn, this.parentOf(b), b);
    for (const n of graph.nodes) {
      this.nodeById.set(n.id, n);
      push(this.nodesIn, this.keyOf(n.box), n);
    }
    for (const e of graph.edges) push(this.edgesIn, this.keyOf(e.box), e);
  }

  private keyOf(box: string | null | undefined): string {
    return box && this.boxById.has(box) ? box : ROOT;
  }

  /** A box whose parents would go round in a circle stands at the root. */
  private parentOf(b: GraphBox): string {
    let at: GraphBox | undefined = b;
    for (let steps = 0; at; steps++) {
      if (steps > this.boxById.size) return ROOT;
      at = at.parent ? this.boxById.get(at.parent) : undefined;
    }
    return this.keyOf(b.parent);
  }

  countInside(box: string): number {
    let sum = this.counts.get(box);
    if (sum === undefined) {
      sum = this.nodesIn.get(box)?.length ?? 0;
      for (const b of this.boxesIn.get(box) ?? []) sum += this.countInside(b.id);
      this.counts.set(box, sum);
    }
    return sum;
  }

  labelOf(id: string): string {
    const node = this.nodeById.get(id);
    return node ? node.label || node.name : (this.boxById.get(id)?.name ?? id);
  }
}

export function place(index: GraphIndex, open: Set<string>): Placed {
  const out: Placed = { nodes: [], boxes: [], edges: [], width: 0, height: 0 };
  const levels = new Map<string, Level>();
  const root = measure(index, ROOT, open, levels);
  const put = (container: string, dx: number, dy: number, depth: number): void => {
    const level = levels.get(container) as Level;
    for (const item of level.items) {
      const [x, y] = [dx + item.x, dy + item.y];
      if (item.node) out.nodes.push({ node: item.node, x, y, w: item.w, h: item.h });
      else if (item.box) {
        const { box } = item;
        const isOpen = open.has(box.id);
        const inside = index.countInside(box.id);
        out.boxes.push({ box, open: isOpen, depth, inside, x, y, w: item.shownWidth, h: item.shownHeight });
        if (isOpen) put(box.id, x + (box.inner_x ?? PADDING), y + (box.inner_y ?? TITLE), depth + 1);
      }
    }
    for (const edge of index.edgesIn.get(container) ?? []) {
      const points = edgePoints(edge, level);
      if (points.length >= 2) out.edges.push({ edge, points: points.map(([x, y]) => [x + dx, y + dy]) });
    }
  };
  put(ROOT, 0, 0, 0);
  out.width = root.w;
  out.height = root.h;
  return out;
}

function boxSize(box: GraphBox, isOpen: boolean, inner: Level | null): { w: number; h: number } {
  const w = finite(box.w) || 120;
  const h = finite(box.h) || CLOSED_HEIGHT;
  if (inner) {
    const left = box.inner_x ?? PADDING;
    return { w: Math.max(inner.w + 2 * left, box.open ? 0 : w), h: inner.h + (box.inner_y ?? TITLE) + left };
  }
  return isOpen || !box.open ? { w, h } : { w: Math.min(w, 200), h: CLOSED_HEIGHT };
}

function measure(index: GraphIndex, container: string, open: Set<string>, levels: Map<string, Level>): Level {
  const items: Item[] = [];
  for (const node of index.nodesIn.get(container) ?? []) {
    const w = finite(node.w) || 80;
    const h = finite(node.h) || 28;
    items.push({ node, x: finite(node.x), y: finite(node.y), w, h, shownWidth: w, shownHeight: h });
  }
  for (const box of index.boxesIn.get(container) ?? []) {
    const isOpen = open.has(box.id);
    const shown = boxSize(box, isOpen, isOpen ? measure(index, box.id, open, levels) : null);
    const w = finite(box.w) || 120;
    const h = finite(box.h) || CLOSED_HEIGHT;
    items.push({ box, x: finite(box.x), y: finite(box.y), w, h, shownWidth: shown.w, shownHeight: shown.h });
  }
  const move = mover(items);
  let w = 0;
  let h = 0;
  for (const item of items) {
    [item.x, item.y] = move(item.x, item.y);
    w = Math.max(w, item.x + item.shownWidth);
    h = Math.max(h, item.y + item.shownHeight);
  }
  const level = { items, w, h, move };
  levels.set(container, level);
  return level;
}

/** Where a place goes to when the boxes of a level are as large as they are shown. */
function mover(items: Item[]): Level['move'] {
  const changed = items.filter((i) => i.shownHeight !== i.h || i.shownWidth !== i.w).map((i) => ({ ...i }));
  const layers: { top: number; bottom: number; grow: number }[] = [];
  for (const item of [...changed].sort((a, b) => a.y - b.y)) {
    const last = layers[layers.length - 1];
    const grow = Math.max(0, item.shownHeight - item.h);
    // Boxes that share a layer grow together.
    if (last && item.y < last.bottom) {
      last.bottom = Math.max(last.bottom, item.y + item.h);
      last.grow = Math.max(last.grow, grow);
    } else layers.push({ top: item.y, bottom: item.y + item.h, grow });
  }
  return (x, y) => {
    let dx = 0;
    let dy = 0;
    for (const layer of layers) if (y >= layer.bottom - 0.01) dy += layer.grow;
    for (const o of changed)
      if (x >= o.x + o.w - 0.01 && y >= o.y && y < o.y + o.h) dx += Math.max(0, o.shownWidth - o.w);
    return [x + dx, y + dy];
  };
}

/** The route that was laid out, moved with its level; straight where there is none. */
function edgePoints(edge: GraphEdge, level: Level): [number, number][] {
  if (Array.isArray(edge.points) && edge.points.length >= 2) return edge.points.map(([x, y]) => level.move(x, y));
  const rect = (id: string): Item | undefined => level.items.find((i) => (i.node ?? i.box)?.id === id);
  const a = rect(edge.from);
  const b = rect(edge.to);
  if (!a || !b) return [];
  const middle = (i: Item): number => i.x + i.shownWidth / 2;
  return b.y >= a.y
    ? [
        [middle(a), a.y + a.shownHeight],
        [middle(b), b.y],
      ]
    : [
        [middle(a), a.y],
        [middle(b), b.y + b.shownHeight],
      ];
}

/** Node ids so that each comes after what it reads; a box stands where its inputs are ready. */
export function topological(index: GraphIndex, container = ROOT): string[] {
  const things = [...(index.nodesIn.get(container) ?? []), ...(index.boxesIn.get(container) ?? [])].map((t) => t.id);
  const waits = new Map(things.map((id) => [id, 0]));
  const readers = new Map<string, string[]>();
  for (const e of index.edgesIn.get(container) ?? []) {
    if (e.kind === 'gradient' || !waits.has(e.from) || !waits.has(e.to) || e.from === e.to) continue;
    waits.set(e.to, (waits.get(e.to) as number) + 1);
    push(readers, e.from, e.to);
  }
  const order = things.filter((id) => waits.get(id) === 0);
  for (let i = 0; i < order.length; i++)
    for (const reader of readers.get(order[i]) ?? []) {
      const left = (waits.get(reader) as number) - 1;
      waits.set(reader, left);
      if (left === 0) order.push(reader);
    }
  const done = new Set(order);
  for (const id of things) if (!done.has(id)) order.push(id);
  return order.flatMap((id) => (index.boxById.has(id) ? topological(index, id) : [id]));
}

export interface FlowStep {
  node: string;
  phase: 'forward' | 'backward';
}

/** Values forward, then gradients backward; only nodes that have one. */
export function flow(index: GraphIndex): FlowStep[] {
  const order = topological(index);
  const has = (id: string, key: 'value' | 'gradient'): boolean => {
    const v = index.nodeById.get(id)?.[key];
    return v !== undefined && v !== null;
  };
  const forward = order.filter((id) => has(id, 'value'));
  const backward = [...order].reverse().filter((id) => has(id, 'gradient'));
  return [
    ...forward.map((node): FlowStep => ({ node, phase: 'forward' })),
    ...backward.map((node): FlowStep => ({ node, phase: 'backward' })),
  ];
}

/** A value as a short text: a number, a small tensor in full, a large one as its range. */
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
  if (typeof value !== 'object' || value === null) return '';
  const tensor = value as TensorValue;
  if (tensor.value !== undefined) return valueText(tensor.value);
  const shape = `[${(tensor.shape ?? []).join(',')}]`;
  if (tensor.min !== undefined && tensor.max !== undefined)
    return `${shape} ${valueText(tensor.min)} … ${valueText(tensor.max)}`;
  return tensor.text ?? shape;
}
