// Graphs: autograd, modules, programs before and after each pass. Boxes open and close; heat by time,
// bytes or FLOPs; fused groups outlined; a walk through values and gradients where they are known.

import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { Graph as GraphData } from '../data/header';
import type { Painter } from '../draw/painter';
import { familyColor, familyPattern, heat, inkOn, mix } from '../draw/theme';
import * as format from '../model/format';
import { flow, GraphIndex, place, valueText, type FlowStep, type Placed, type PlacedNode } from '../model/graph';
import type { Profile } from '../model/profile';
import { mask, mode, option, page, say, select, setOption } from '../state/store';
import { Choice, FamilyLegend, Missing, program } from '../ui/common';
import { Figure } from '../ui/figure';
import { Playground, played } from '../ui/playground';
import type { TableSpec } from '../ui/table';

const HEIGHT = 600;
const SMALLEST_TEXT = 0.45;
const MARGIN = 16;
const LEAST_SCALE = 0.02;
const MOST_SCALE = 4;
/** Larger sets of edges are drawn without labels. */
const MANY_EDGES = 1500;

type Camera = { x: number; y: number; scale: number };
const stageWidth = signal(800);

function fitted(placed: Placed, width: number): Camera {
  const scale = Math.min(1.25, (width - 2 * MARGIN) / Math.max(1, placed.width), (HEIGHT - 2 * MARGIN) / Math.max(1, placed.height));
  // A tall graph starts at its top, readable, instead of as a thread of pixels.
  const readable = Math.max(scale, Math.min(0.8, (width - 2 * MARGIN) / Math.max(1, placed.width)));
  return { scale: readable, x: Math.max(MARGIN, (width - placed.width * readable) / 2), y: MARGIN };
}

function cameraOf(text: string, placed: Placed, width: number): Camera {
  const [x, y, scale] = text.split(',').map(Number);
  if ([x, y, scale].every(Number.isFinite) && scale >= LEAST_SCALE && scale <= MOST_SCALE) return { x, y, scale };
  return fitted(placed, width);
}

const putCamera = (c: Camera): void => setOption('graph.at', `${Math.round(c.x)},${Math.round(c.y)},${c.scale.toFixed(4)}`);

const HEATS: Record<string, string> = { '': 'op family', time: 'time', bytes: 'bytes', flops: 'FLOPs' };

function weightOf(node: GraphData['nodes'][number], what: string): number {
  return (what === 'time' ? node.time_ns : what === 'bytes' ? node.bytes : node.flops) ?? 0;
}

interface Scene {
  p: Profile;
  which: number;
  graph: GraphData;
  placed: Placed;
  camera: Camera;
  heatBy: string;
  most: number;
  find: string;
  steps: FlowStep[];
  step: number;
  toggle: (box: number) => void;
}

function paintNode(g: Painter, s: Scene, n: PlacedNode): void {
  const { node } = n;
  const t = g.theme;
  const value = weightOf(node, s.heatBy);
  const label = node.label || node.name;
  const matches = s.find !== '' && `${label} ${node.name} ${node.shape ?? ''}`.toLowerCase().includes(s.find);
  let fill = s.heatBy ? heat(t, s.most > 0 ? Math.sqrt(value / s.most) : 0) : mix(familyColor(t, node.family), t.back, 0.25);
  const selection = page.value.selection;
  const chosen = selection.kind === 'node' && selection.id === `${s.which}.${node.id}`;
  const isLit = mask.value !== null && (node.event ?? -1) >= 0 && mask.value[node.event as number] === 1;
  const shownSteps = s.steps.length > 0 && s.step >= 0 ? s.steps.slice(0, s.step + 1) : [];
  const now = shownSteps[shownSteps.length - 1];
  if ((s.find !== '' && !matches) || (selection.kind === 'line' && mask.value !== null && !isLit)) fill = mix(fill, t.back, 0.75);
  g.rect(n.x, n.y, n.w, n.h, fill, s.heatBy ? '' : familyPattern(node.family));
  const edge = now?.node === node.id ? t.worse : chosen || matches || isLit ? t.text : mix(fill, t.text, 0.35);
  g.frame(n.x, n.y, n.w, n.h, now?.node === node.id ? t.accent : edge, chosen || matches || isLit || now?.node === node.id ? 2.5 : 1);
  if (s.camera.scale >= SMALLEST_TEXT) {
    const forward = shownSteps.length === 0 ? node.value !== undefined : shownSteps.some((x) => x.node === node.id && x.phase === 'forward');
    const backward = shownSteps.length === 0 ? node.gradient !== undefined : shownSteps.some((x) => x.node === node.id && x.phase === 'backward');
    const lines = [label, ...(forward && node.value !== undefined ? [`= ${valueText(node.value)}`] : node.shape && n.h > 34 ? [node.shape] : []), ...(backward && node.gradient !== undefined ? [`∂ ${valueText(node.gradient)}`] : [])];
    const room = lines.length * 15;
    if (!s.heatBy && familyPattern(node.family)) g.rect(n.x + 3, n.y + 3, n.w - 6, n.h - 6, fill, '', 0.8);
    lines.forEach((line, i) =>
      g.text(line, n.x + n.w / 2, n.y + n.h / 2 + (i - (lines.length - 1) / 2) * Math.min(15, (n.h - 4) / Math.max(1, room / 15)), { anchor: 'middle', size: i === 0 ? 12 : 11, mono: true, max: n.w - 8, color: inkOn(fill) }));
  }
  g.hit({
    x: n.x, y: n.y, w: n.w, h: n.h, id: `n${node.id}`, title: label,
    details: [node.shape ?? '', node.time_ns ? format.time(node.time_ns) : '', node.bytes ? format.bytes(node.bytes) : '', node.flops ? format.flops(node.flops) : '', node.value !== undefined ? `value ${format.cut(valueText(node.value), 300)}` : '', node.gradient !== undefined ? `gradient ${format.cut(valueText(node.gradient), 300)}` : '', node.why ? `not fused: ${node.why}` : ''].filter(Boolean),
    select: { kind: 'node', id: `${s.which}.${node.id}` } });
}

function paintGroups(g: Painter, s: Scene): void {
  const groups = new Map<number, { x0: number; y0: number; x1: number; y1: number }>();
  for (const n of s.placed.nodes) {
    if (n.node.group === undefined || n.node.group < 0) continue;
    const b = groups.get(n.node.group) ?? { x0: Infinity, y0: Infinity, x1: -Infinity, y1: -Infinity };
    groups.set(n.node.group, { x0: Math.min(b.x0, n.x), y0: Math.min(b.y0, n.y), x1: Math.max(b.x1, n.x + n.w), y1: Math.max(b.y1, n.y + n.h) });
  }
  for (const [id, b] of groups) {
    g.frame(b.x0 - 5, b.y0 - 5, b.x1 - b.x0 + 10, b.y1 - b.y0 + 10, g.theme.accent, 2, [6, 4]);
    g.text(`fused ${id}`, b.x1 + 5, b.y1 + 12, { size: 10, color: g.theme.accent, anchor: 'end' });
  }
}

function paintScene(g: Painter, s: Scene): void {
  stageWidth.value = g.width;
  const { x, y, scale } = s.camera;
  const visible = (r: { x: number; y: number; w: number; h: number }): boolean =>
    (r.x + r.w) * scale + x > 0 && r.x * scale + x < g.width && (r.y + r.h) * scale + y > 0 && r.y * scale + y < g.height;
  const q = scaled(g, x, y, scale);
  g.clip(0, 0, g.width, g.height, () => {
    for (const b of s.placed.boxes) {
      if (!visible(b)) continue;
      const title = `${b.box.name}${(b.box.repeat ?? 1) > 1 ? ` x ${b.box.repeat}` : ''}`;
      q.rect(b.x, b.y, b.w, b.h, b.open ? mix(g.theme.raised, g.theme.text, 0.02 + 0.03 * Math.min(4, b.depth)) : mix(g.theme.raised, g.theme.accent, 0.12));
      if ((b.box.repeat ?? 1) > 1 && !b.open) q.frame(b.x + 3, b.y - 3, b.w, b.h, g.theme.line, 1);
      q.frame(b.x, b.y, b.w, b.h, g.theme.dim, 1);
      q.text(`${b.open ? '▾' : '▸'} ${title}`, b.open ? b.x + 8 : b.x + b.w / 2, b.open ? b.y + 11 : b.y + b.h / 2, { anchor: b.open ? 'start' : 'middle', bold: true, max: b.w - 12 });
      q.hit({ x: b.x, y: b.y, w: b.w, h: b.open ? 22 : b.h, id: `b${b.box.id}`, title, details: [`${format.count(b.inside)} nodes`, b.open ? 'Enter closes the box' : 'Enter opens the box'], open: () => s.toggle(b.box.id) });
    }
    const labels = s.placed.edges.length <= MANY_EDGES && scale >= 0.6;
    for (const e of s.placed.edges) {
      const xs = e.points.map((p) => p[0]);
      const ys = e.points.map((p) => p[1]);
      if (!visible({ x: Math.min(...xs), y: Math.min(...ys), w: Math.max(...xs) - Math.min(...xs), h: Math.max(...ys) - Math.min(...ys) + 1 })) continue;
      const gradient = e.edge.kind === 'gradient';
      const color = gradient ? g.theme.families.reduction : mix(g.theme.dim, g.theme.back, 0.25);
      q.line(e.points, color, Math.min(4, 1 + Math.log2(e.count) / 2), e.edge.kind === 'order' ? [2, 3] : gradient ? [5, 3] : []);
      const [ex, ey] = e.points[e.points.length - 1];
      const [px, py] = e.points[e.points.length - 2];
      const angle = Math.atan2(ey - py, ex - px);
      const corner = (turn: number): [number, number] => [ex - 7 * Math.cos(angle + turn), ey - 7 * Math.sin(angle + turn)];
      q.line([corner(0.4), [ex, ey], corner(-0.4)], color, 1.4);
      const [mx, my] = e.points[Math.floor((e.points.length - 1) / 2)];
      const [nx, ny] = e.points[Math.floor((e.points.length - 1) / 2) + 1];
      if (labels && e.label) q.text(e.label, (mx + nx) / 2 + 4, (my + ny) / 2, { size: 10, color: g.theme.dim, max: 160 });
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
    ...g, width: g.width, height: g.height, theme: g.theme, hits: g.hits, rects: 0,
    rect: (a, b, w, h, fill, pattern, opacity) => g.rect(x(a), y(b), w * k, h * k, fill, pattern, opacity),
    frame: (a, b, w, h, stroke, width, dash) => g.frame(x(a), y(b), w * k, h * k, stroke, width, dash),
    line: (points, stroke, width, dash) => g.line(points.map(([a, b]): [number, number] => [x(a), y(b)]), stroke, width, dash),
    path: () => {},
    circle: (a, b, r, fill, stroke, width) => g.circle(x(a), y(b), r * k, fill, stroke, width),
    text: (text, a, b, style) => {
      const size = (style?.size ?? 12) * Math.min(1.25, k);
      if (size >= 5) g.text(text, x(a), y(b), { ...style, size, max: style?.max === undefined ? undefined : style.max * k });
    },
    measure: (text, style) => g.measure(text, style) / k,
    clip: (a, b, w, h, draw) => g.clip(x(a), y(b), w * k, h * k, draw),
    move: (_a, _b, draw) => draw(),
    hit: (hit) => g.hit({ ...hit, x: x(hit.x), y: y(hit.y), w: hit.w * k, h: hit.h * k }),
  };
}

function nodeSpec(s: Scene): TableSpec<GraphData['nodes'][number]> {
  return {
    name: 'nodes', label: 'Nodes of the graph', rows: s.graph.nodes, filter: true,
    columns: [
      { key: 'name', title: 'node', kind: 'name', value: (n) => n.label || n.name },
      { key: 'shape', title: 'shape', kind: 'text', value: (n) => n.shape ?? '' },
      { key: 'time', title: 'time', kind: 'time', value: (n) => n.time_ns ?? null, bar: true },
      { key: 'bytes', title: 'bytes', kind: 'bytes', value: (n) => n.bytes ?? null },
      { key: 'flops', title: 'FLOPs', kind: 'flops', value: (n) => n.flops ?? null },
      { key: 'value', title: 'value', kind: 'text', value: (n) => (n.value === undefined ? null : format.cut(valueText(n.value), 60)) },
      { key: 'gradient', title: 'gradient', kind: 'text', value: (n) => (n.gradient === undefined ? null : format.cut(valueText(n.gradient), 60)) },
      { key: 'group', title: 'group', kind: 'text', value: (n) => (n.group !== undefined && n.group >= 0 ? `fused ${n.group}` : (n.why ?? '')) },
    ],
    select: (n) => ({ kind: 'node', id: `${s.which}.${n.id}` }),
  };
}

const stepOf = (steps: FlowStep[]): number => Math.min(steps.length - 1, Math.floor(Number(option('graph.step', '-1'))) || 0);

/** Boxes that are open at first: those the file says, or all of a small graph. */
function startOpen(graph: GraphData): Set<number> {
  const said = graph.boxes.filter((b) => b.open).map((b) => b.id);
  return new Set(said.length > 0 || graph.nodes.length > 40 ? said : graph.boxes.map((b) => b.id));
}

export function Graph({ p }: { p: Profile }) {
  const live = played.value;
  const graphs = live ? [live, ...p.header.graphs] : p.header.graphs;
  const which = Math.min(Math.max(0, Number(option('graph.which', '0')) || 0), Math.max(0, graphs.length - 1));
  const graph = graphs[which];
  const index = useMemo(() => (graph ? new GraphIndex(graph) : null), [graph]);
  const openText = option('graph.open', '');
  const open = useMemo(() => (openText ? new Set(openText.split('.').map(Number)) : graph ? startOpen(graph) : new Set<number>()), [openText, graph]);
  const placed = useMemo(() => (index ? place(index, open) : null), [index, open]);
  const steps = useMemo(() => (graph ? flow(graph) : []), [graph]);
  const step = stepOf(steps);
  const walk = (to: number): void => {
    const next = Math.max(-1, Math.min(steps.length - 1, to));
    setOption('graph.step', next < 0 ? '' : String(next));
    const s = steps[next];
    if (s && index) {
      const node = index.nodeById.get(s.node);
      say(node ? `${s.phase}: ${node.label || node.name} ${s.phase === 'forward' ? `is ${valueText(node.value)}` : `has the gradient ${valueText(node.gradient)}`}` : '');
    }
  };
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      if (/^(INPUT|SELECT|TEXTAREA)$/.test((event.target as HTMLElement).tagName) || steps.length === 0) return;
      // From the store: a key may come before the page is drawn again.
      const at = stepOf(steps);
      if (event.key === 'n') walk(at + 1);
      else if (event.key === 'b') walk(at < 0 ? steps.length - 1 : at - 1);
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  });
  if (!graph || !placed || !index)
    return (
      <>
        <h2>Graph</h2>
        {mode.value === 'server' && <Playground />}
        <Missing what="graphs" title="This file has no graph" why="Graphs of autograd, modules and programs are recorded with the ops they belong to." command={`pellucid profile -- ${program()}`} />
      </>
    );
  const find = option('graph.find', '').toLowerCase();
  const heatBy = option('graph.heat', '');
  const camera = cameraOf(option('graph.at', ''), placed, stageWidth.value);
  const toggle = (box: number): void => {
    const next = new Set(open);
    if (next.has(box)) next.delete(box);
    else next.add(box);
    setOption('graph.open', next.size > 0 ? [...next].join('.') : '-1', true);
    say(`${index.boxById.get(box)?.name ?? 'box'} ${next.has(box) ? 'open' : 'closed'}`);
  };
  const scene: Scene = { p, which: live ? which - 1 : which, graph, placed, camera, heatBy, find, steps, step, toggle, most: Math.max(0, ...graph.nodes.map((n) => weightOf(n, heatBy))) };
  const now = steps[step];
  return (
    <>
      <h2>Graph</h2>
      {mode.value === 'server' && <Playground />}
      <div class="tools">
        {graphs.length > 1 && (
          <label>
            graph
            <select aria-label="Graph" value={which} onChange={(e) => (setOption('graph.at', ''), setOption('graph.open', ''), setOption('graph.which', e.currentTarget.value, true))}>
              {graphs.map((x, i) => <option key={i} value={i}>{format.visible(format.cut(x.title || x.kind, 80))}</option>)}
            </select>
          </label>
        )}
        <Choice name="graph.heat" fallback="" label="colour" values={HEATS} />
        <input type="search" placeholder="find a node" aria-label="Find a node" value={option('graph.find', '')} onInput={(e) => setOption('graph.find', e.currentTarget.value)} />
        {graph.boxes.length > 0 && (
          <span class="group">
            <button type="button" onClick={() => setOption('graph.open', graph.boxes.map((b) => b.id).join('.'), true)}>open all</button>
            <button type="button" onClick={() => setOption('graph.open', '-1', true)}>close all</button>
          </span>
        )}
        <button type="button" onClick={() => setOption('graph.at', '')}>fit</button>
      </div>
      {steps.length > 0 && (
        <div class="tools flow" role="group" aria-label="Values forward, then gradients backward">
          <button type="button" onClick={() => walk(step - 1)} disabled={step < 0}>back (b)</button>
          <button type="button" onClick={() => walk(step + 1)} disabled={step >= steps.length - 1}>next (n)</button>
          <span>{step < 0 ? `${steps.length} steps: values forward, then gradients backward` : `${now.phase} ${step + 1} of ${steps.length}`}</span>
          {now && <b class="mono">{flowText(index, now)}</b>}
        </div>
      )}
      <Figure
        name="graph" title={graph.title || graph.kind} height={HEIGHT} paint={(g) => paintScene(g, scene)} table={() => nodeSpec(scene)}
        label={`Graph ${graph.title}: ${graph.nodes.length} nodes, ${graph.edges.length} edges`}
        gestures={{
          left: 0, right: (w) => w,
          drag2: (dx, dy) => putCamera({ ...camera, x: camera.x + dx, y: camera.y + dy }),
          zoom2: (factor, x, y) => {
            const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, camera.scale * factor));
            const k = scale / camera.scale;
            putCamera({ scale, x: x - (x - camera.x) * k, y: y - (y - camera.y) * k });
          },
          fit: () => setOption('graph.at', ''),
        }} />
      {!heatBy && <FamilyLegend />}
      <p class="note">Drag moves, the wheel zooms, Enter opens a box. Dashed outline: one fused kernel. <button type="button" class="link" onClick={() => select({ kind: 'node', id: `${scene.which}.${graph.nodes[0]?.id ?? 0}` })}>select the first node</button></p>
    </>
  );
}

/** "c = exp(b) = 2.4826" or "∂y/∂b = local x incoming = …", as far as the graph says it. */
function flowText(index: GraphIndex, step: FlowStep): string {
  const node = index.nodeById.get(step.node);
  if (!node) return '';
  if (step.phase === 'forward') return `${node.label || node.name} = ${format.cut(valueText(node.value), 160)}`;
  const terms = index.graph.edges.filter((e) => e.kind === 'gradient' && e.to === node.id && e.label).map((e) => e.label);
  return `gradient of ${node.label || node.name} = ${terms.length > 0 ? `${terms.join(' + ')} = ` : ''}${format.cut(valueText(node.gradient), 160)}`;
}
