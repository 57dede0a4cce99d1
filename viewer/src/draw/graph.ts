// Draws a graph: boxes, edges, nodes with their values, outlines of fused groups; through a camera.

import type { Graph, GraphNode } from '../data/header';
import * as format from '../model/format';
import { valueText, type FlowStep, type Placed, type PlacedNode } from '../model/graph';
import type { Painter } from './painter';
import { familyColor, familyPattern, heat, inkOn, mix } from './theme';

const SMALLEST_TEXT = 0.45;
/** Larger sets of edges are drawn without labels. */
const MANY_EDGES = 1500;

export type Camera = { x: number; y: number; scale: number };

export function weightOf(node: GraphNode, what: string): number {
  return (what === 'time' ? node.time_ns : what === 'bytes' ? node.bytes : node.flops) ?? 0;
}

export interface Scene {
  which: number;
  graph: Graph;
  placed: Placed;
  camera: Camera;
  heatBy: string;
  most: number;
  find: string;
  steps: FlowStep[];
  step: number;
  toggle: (box: string) => void;
  chosen: (node: GraphNode) => boolean;
  /** Whether the selection lights a node; null if it lights none in particular. */
  lit: ((node: GraphNode) => boolean) | null;
}

function paintNode(g: Painter, s: Scene, n: PlacedNode): void {
  const { node } = n;
  const t = g.theme;
  const value = weightOf(node, s.heatBy);
  const label = node.label || node.name;
  const matches = s.find !== '' && `${label} ${node.name} ${node.shape ?? ''}`.toLowerCase().includes(s.find);
  let fill = s.heatBy
    ? heat(t, s.most > 0 ? Math.sqrt(value / s.most) : 0)
    : mix(familyColor(t, node.family), t.back, 0.25);
  const chosen = s.chosen(node);
  const isLit = s.lit !== null && s.lit(node);
  const shownSteps = s.steps.length > 0 && s.step >= 0 ? s.steps.slice(0, s.step + 1) : [];
  const now = shownSteps[shownSteps.length - 1];
  if ((s.find !== '' && !matches) || (s.lit !== null && !isLit)) fill = mix(fill, t.back, 0.75);
  g.rect(n.x, n.y, n.w, n.h, fill, s.heatBy ? '' : familyPattern(node.family));
  const edge = now?.node === node.id ? t.worse : chosen || matches || isLit ? t.text : mix(fill, t.text, 0.35);
  g.frame(
    n.x,
    n.y,
    n.w,
    n.h,
    now?.node === node.id ? t.accent : edge,
    chosen || matches || isLit || now?.node === node.id ? 2.5 : 1,
  );
  if (s.camera.scale >= SMALLEST_TEXT) {
    const forward =
      shownSteps.length === 0
        ? node.value !== undefined
        : shownSteps.some((x) => x.node === node.id && x.phase === 'forward');
    const backward =
      shownSteps.length === 0
        ? node.gradient !== undefined
        : shownSteps.some((x) => x.node === node.id && x.phase === 'backward');
    const lines = [
      label,
      ...(forward && node.value !== undefined
        ? [`= ${valueText(node.value)}`]
        : node.shape && n.h > 34
          ? [node.shape]
          : []),
      ...(backward && node.gradient !== undefined ? [`∂ ${valueText(node.gradient)}`] : []),
    ];
    const room = lines.length * 15;
    if (!s.heatBy && familyPattern(node.family)) g.rect(n.x + 3, n.y + 3, n.w - 6, n.h - 6, fill, '', 0.8);
    lines.forEach((line, i) =>
      g.text(
        line,
        n.x + n.w / 2,
        n.y + n.h / 2 + (i - (lines.length - 1) / 2) * Math.min(15, (n.h - 4) / Math.max(1, room / 15)),
        { anchor: 'middle', size: i === 0 ? 12 : 11, mono: true, max: n.w - 8, color: inkOn(fill) },
      ),
    );
  }
  g.hit({
    x: n.x,
    y: n.y,
    w: n.w,
    h: n.h,
    id: `n${node.id}`,
    title: label,
    details: [
      node.shape ?? '',
      node.time_ns ? format.time(node.time_ns) : '',
      node.bytes ? format.bytes(node.bytes) : '',
      node.flops ? format.flops(node.flops) : '',
      node.value !== undefined ? `value ${format.cut(valueText(node.value), 300)}` : '',
      node.gradient !== undefined ? `gradient ${format.cut(valueText(node.gradient), 300)}` : '',
      node.why ? `not fused: ${node.why}` : '',
    ].filter(Boolean),
    select: { kind: 'node', id: `${s.which}.${node.id}` },
  });
}

function paintGroups(g: Painter, s: Scene): void {
  const groups = new Map<number, { x0: number; y0: number; x1: number; y1: number }>();
  for (const n of s.placed.nodes) {
    if (n.node.group === undefined || n.node.group < 0) continue;
    const b = groups.get(n.node.group) ?? { x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity };
    groups.set(n.node.group, {
      x0: Math.min(b.x0, n.x),
      y0: Math.min(b.y0, n.y),
      x1: Math.max(b.x1, n.x + n.w),
      y1: Math.max(b.y1, n.y + n.h),
    });
  }
  for (const [id, b] of groups) {
    g.frame(b.x0 - 5, b.y0 - 5, b.x1 - b.x0 + 10, b.y1 - b.y0 + 10, g.theme.accent, 2, [6, 4]);
    g.text(`fused ${id}`, b.x1 + 5, b.y1 + 12, { size: 10, color: g.theme.accent, anchor: 'end' });
  }
}

export function paintScene(g: Painter, s: Scene): void {
  const { x, y, scale } = s.camera;
  const visible = (r: { x: number; y: number; w: number; h: number }): boolean =>
    (r.x + r.w) * scale + x > 0 &&
    r.x * scale + x < g.width &&
    (r.y + r.h) * scale + y > 0 &&
    r.y * scale + y < g.height;
  const q = scaled(g, x, y, scale);
  g.clip(0, 0, g.width, g.height, () => {
    for (const b of s.placed.boxes) {
      if (!visible(b)) continue;
      const title = `${b.box.name}${(b.box.repeat ?? 1) > 1 ? ` x ${b.box.repeat}` : ''}`;
      q.rect(
        b.x,
        b.y,
        b.w,
        b.h,
        b.open
          ? mix(g.theme.raised, g.theme.text, 0.02 + 0.03 * Math.min(4, b.depth))
          : mix(g.theme.raised, g.theme.accent, 0.12),
      );
      if ((b.box.repeat ?? 1) > 1 && !b.open) q.frame(b.x + 3, b.y - 3, b.w, b.h, g.theme.line, 1);
      q.frame(b.x, b.y, b.w, b.h, g.theme.dim, 1);
      q.text(`${b.open ? '▾' : '▸'} ${title}`, b.open ? b.x + 8 : b.x + b.w / 2, b.open ? b.y + 11 : b.y + b.h / 2, {
        anchor: b.open ? 'start' : 'middle',
        bold: true,
        max: b.w - 12,
      });
      q.hit({
        x: b.x,
        y: b.y,
        w: b.w,
        h: b.open ? 22 : b.h,
        id: `b/${b.box.id}`,
        title,
        details: [`${format.count(b.inside)} nodes`, b.open ? 'Enter closes the box' : 'Enter opens the box'],
        open: () => s.toggle(b.box.id),
      });
    }
    const labels = s.placed.edges.length <= MANY_EDGES && scale >= 0.6;
    for (const e of s.placed.edges) {
      const xs = e.points.map((p) => p[0]);
      const ys = e.points.map((p) => p[1]);
      if (
        !visible({
          x: Math.min(...xs),
          y: Math.min(...ys),
          w: Math.max(...xs) - Math.min(...xs),
          h: Math.max(...ys) - Math.min(...ys) + 1,
        })
      )
        continue;
      const gradient = e.edge.kind === 'gradient';
      const color = gradient ? g.theme.families.reduction : mix(g.theme.dim, g.theme.back, 0.25);
      q.line(
        e.points,
        color,
        Math.min(4, 1 + Math.log2(Math.max(1, e.edge.count ?? 1)) / 2),
        e.edge.kind === 'order' ? [2, 3] : gradient ? [5, 3] : [],
      );
      const [ex, ey] = e.points[e.points.length - 1];
      const [px, py] = e.points[e.points.length - 2];
      const angle = Math.atan2(ey - py, ex - px);
      const corner = (turn: number): [number, number] => [
        ex - 7 * Math.cos(angle + turn),
        ey - 7 * Math.sin(angle + turn),
      ];
      q.line([corner(0.4), [ex, ey], corner(-0.4)], color, 1.4);
      const [mx, my] = e.points[Math.floor((e.points.length - 1) / 2)];
      const [nx, ny] = e.points[Math.floor((e.points.length - 1) / 2) + 1];
      if (labels && e.edge.label)
        q.text(e.edge.label, (mx + nx) / 2 + 4, (my + ny) / 2, { size: 10, color: g.theme.dim, max: 160 });
    }
    for (const n of s.placed.nodes) if (visible(n)) paintNode(q, s, n);
    paintGroups(q, s);
  });
}

/** The painter with a camera before it: sizes of text and lines follow the scale. */
function scaled(g: Painter, dx: number, dy: number, k: number): Painter {
  const x = (v: number): number => v * k + dx;
  const y = (v: number): number => v * k + dy;
  return {
    ...g,
    width: g.width,
    height: g.height,
    theme: g.theme,
    hits: g.hits,
    rects: 0,
    rect: (a, b, w, h, fill, pattern, opacity) => g.rect(x(a), y(b), w * k, h * k, fill, pattern, opacity),
    frame: (a, b, w, h, stroke, width, dash) => g.frame(x(a), y(b), w * k, h * k, stroke, width, dash),
    line: (points, stroke, width, dash) =>
      g.line(
        points.map(([a, b]): [number, number] => [x(a), y(b)]),
        stroke,
        width,
        dash,
      ),
    path: () => {},
    circle: (a, b, r, fill, stroke, width) => g.circle(x(a), y(b), r * k, fill, stroke, width),
    text: (text, a, b, style) => {
      const size = (style?.size ?? 12) * Math.min(1.25, k);
      if (size >= 5)
        g.text(text, x(a), y(b), { ...style, size, max: style?.max === undefined ? undefined : style.max * k });
    },
    measure: (text, style) => g.measure(text, style) / k,
    clip: (a, b, w, h, draw) => g.clip(x(a), y(b), w * k, h * k, draw),
    move: (_a, _b, draw) => draw(),
    hit: (hit) => g.hit({ ...hit, x: x(hit.x), y: y(hit.y), w: hit.w * k, h: hit.h * k }),
  };
}
