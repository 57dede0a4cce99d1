// Graphs: autograd, modules, programs before and after each pass. Boxes open and close; heat by time,
// bytes or FLOPs; fused groups outlined; a walk through values and gradients where they are known.

import { signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type { Graph as GraphData } from '../data/header';
import { paintScene, weightOf, type Camera, type Scene } from '../draw/graph';
import * as format from '../model/format';
import { flow, GraphIndex, place, valueText, type FlowStep, type Placed } from '../model/graph';
import type { Profile } from '../model/profile';
import { mask, mode, option, page, say, select, setOption } from '../state/store';
import { Choice, FamilyLegend, Missing, program } from '../ui/common';
import { Figure } from '../ui/figure';
import { Playground, played } from '../ui/playground';
import type { TableSpec } from '../ui/table';

const HEIGHT = 600;
const MARGIN = 16;
const LEAST_SCALE = 0.02;
const MOST_SCALE = 4;

const stageWidth = signal(800);

function fitted(placed: Placed, width: number): Camera {
  const scale = Math.min(
    1.25,
    (width - 2 * MARGIN) / Math.max(1, placed.width),
    (HEIGHT - 2 * MARGIN) / Math.max(1, placed.height),
  );
  // A tall graph starts at its top, readable, instead of as a thread of pixels.
  const readable = Math.max(scale, Math.min(0.8, (width - 2 * MARGIN) / Math.max(1, placed.width)));
  return { scale: readable, x: Math.max(MARGIN, (width - placed.width * readable) / 2), y: MARGIN };
}

function cameraOf(text: string, placed: Placed, width: number): Camera {
  const [x, y, scale] = text.split(',').map(Number);
  if ([x, y, scale].every(Number.isFinite) && scale >= LEAST_SCALE && scale <= MOST_SCALE) return { x, y, scale };
  return fitted(placed, width);
}

const putCamera = (c: Camera): void =>
  setOption('graph.at', `${Math.round(c.x)},${Math.round(c.y)},${c.scale.toFixed(4)}`);

const HEATS: Record<string, string> = { '': 'op family', time: 'time', bytes: 'bytes', flops: 'FLOPs' };
function nodeSpec(s: Scene): TableSpec<GraphData['nodes'][number]> {
  return {
    name: 'nodes',
    label: 'Nodes of the graph',
    rows: s.graph.nodes,
    filter: true,
    columns: [
      { key: 'name', title: 'node', kind: 'name', value: (n) => n.label || n.name },
      { key: 'shape', title: 'shape', kind: 'text', value: (n) => n.shape ?? '' },
      { key: 'time', title: 'time', kind: 'time', value: (n) => n.time_ns ?? null, bar: true },
      { key: 'bytes', title: 'bytes', kind: 'bytes', value: (n) => n.bytes ?? null },
      { key: 'flops', title: 'FLOPs', kind: 'flops', value: (n) => n.flops ?? null },
      {
        key: 'value',
        title: 'value',
        kind: 'text',
        value: (n) => (n.value === undefined ? null : format.cut(valueText(n.value), 60)),
      },
      {
        key: 'gradient',
        title: 'gradient',
        kind: 'text',
        value: (n) => (n.gradient === undefined ? null : format.cut(valueText(n.gradient), 60)),
      },
      {
        key: 'group',
        title: 'group',
        kind: 'text',
        value: (n) => (n.group !== undefined && n.group >= 0 ? `fused ${n.group}` : (n.why ?? '')),
      },
    ],
    select: (n) => ({ kind: 'node', id: `${s.which}.${n.id}` }),
  };
}

const stepOf = (steps: FlowStep[]): number =>
  Math.min(steps.length - 1, Math.floor(Number(option('graph.step', '-1'))) || 0);

/** Boxes that are open at first: those the file says, or all of a small graph. */
function startOpen(graph: GraphData): Set<string> {
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
  const open = useMemo(
    () => (openText ? new Set(openText.split('.')) : graph ? startOpen(graph) : new Set<string>()),
    [openText, graph],
  );
  const placed = useMemo(() => (index ? place(index, open) : null), [index, open]);
  const steps = useMemo(() => (index ? flow(index) : []), [index]);
  const step = stepOf(steps);
  const walk = (to: number): void => {
    const next = Math.max(-1, Math.min(steps.length - 1, to));
    setOption('graph.step', next < 0 ? '' : String(next));
    const s = steps[next];
    if (s && index) {
      const node = index.nodeById.get(s.node);
      say(
        node
          ? `${s.phase}: ${node.label || node.name} ${s.phase === 'forward' ? `is ${valueText(node.value)}` : `has the gradient ${valueText(node.gradient)}`}`
          : '',
      );
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
        {mode.value === 'server' && <Playground header={p.header} />}
        <Missing
          what="graphs"
          title="This file has no graph"
          why="Graphs of autograd, modules and programs are recorded with the ops they belong to."
          command={`pellucid profile -- ${program()}`}
        />
      </>
    );
  const find = option('graph.find', '').toLowerCase();
  const heatBy = option('graph.heat', '');
  const camera = cameraOf(option('graph.at', ''), placed, stageWidth.value);
  const toggle = (box: string): void => {
    const next = new Set(open);
    if (next.has(box)) next.delete(box);
    else next.add(box);
    setOption('graph.open', next.size > 0 ? [...next].join('.') : '-', true);
    say(`${index.boxById.get(box)?.name ?? 'box'} ${next.has(box) ? 'open' : 'closed'}`);
  };
  const shownWhich = live ? which - 1 : which;
  const selection = page.value.selection;
  const lights = mask.value;
  // A graph that holds none of the lit calls stays as it is.
  const lens =
    lights && selection.kind !== 'node' && graph.nodes.some((n) => (n.event ?? -1) >= 0 && lights[n.event as number])
      ? lights
      : null;
  const scene: Scene = {
    which: shownWhich,
    graph,
    placed,
    camera,
    heatBy,
    find,
    steps,
    step,
    toggle,
    most: Math.max(0, ...graph.nodes.map((n) => weightOf(n, heatBy))),
    chosen: (node) => selection.kind === 'node' && selection.id === `${shownWhich}.${node.id}`,
    lit: lens && ((node) => (node.event ?? -1) >= 0 && lens[node.event as number] === 1),
  };
  const now = steps[step];
  return (
    <>
      <h2>Graph</h2>
      {mode.value === 'server' && <Playground header={p.header} />}
      <div class="tools">
        {graphs.length > 1 && (
          <label>
            graph
            <select
              aria-label="Graph"
              value={which}
              onChange={(e) => (
                setOption('graph.at', ''),
                setOption('graph.open', ''),
                setOption('graph.which', e.currentTarget.value, true)
              )}
            >
              {graphs.map((x, i) => (
                <option key={i} value={i}>
                  {format.visible(format.cut(x.title || x.kind, 80))}
                </option>
              ))}
            </select>
          </label>
        )}
        <Choice name="graph.heat" fallback="" label="colour" values={HEATS} />
        <input
          type="search"
          placeholder="find a node"
          aria-label="Find a node"
          value={option('graph.find', '')}
          onInput={(e) => setOption('graph.find', e.currentTarget.value)}
        />
        {graph.boxes.length > 0 && (
          <span class="group">
            <button type="button" onClick={() => setOption('graph.open', graph.boxes.map((b) => b.id).join('.'), true)}>
              open all
            </button>
            <button type="button" onClick={() => setOption('graph.open', '-', true)}>
              close all
            </button>
          </span>
        )}
        <button type="button" onClick={() => setOption('graph.at', '')}>
          fit
        </button>
      </div>
      {steps.length > 0 && (
        <div class="tools flow" role="group" aria-label="Values forward, then gradients backward">
          <button type="button" onClick={() => walk(step - 1)} disabled={step < 0}>
            back (b)
          </button>
          <button type="button" onClick={() => walk(step + 1)} disabled={step >= steps.length - 1}>
            next (n)
          </button>
          <span>
            {step < 0
              ? `${steps.length} steps: values forward, then gradients backward`
              : `${now.phase} ${step + 1} of ${steps.length}`}
          </span>
          {now && <b class="mono">{flowText(index, now)}</b>}
        </div>
      )}
      <Figure
        name="graph"
        title={graph.title || graph.kind}
        height={HEIGHT}
        paint={(g) => {
          stageWidth.value = g.width;
          paintScene(g, scene);
        }}
        table={() => nodeSpec(scene)}
        label={`Graph ${graph.title}: ${graph.nodes.length} nodes, ${graph.edges.length} edges`}
        gestures={{
          left: 0,
          right: (w) => w,
          drag2: (dx, dy) => putCamera({ ...camera, x: camera.x + dx, y: camera.y + dy }),
          zoom2: (factor, x, y) => {
            const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, camera.scale * factor));
            const k = scale / camera.scale;
            putCamera({ scale, x: x - (x - camera.x) * k, y: y - (y - camera.y) * k });
          },
          fit: () => setOption('graph.at', ''),
        }}
      />
      {!heatBy && <FamilyLegend />}
      <p class="note">
        Drag moves, the wheel zooms, Enter opens a box. Dashed outline: one fused kernel.{' '}
        <button
          type="button"
          class="link"
          onClick={() => select({ kind: 'node', id: `${scene.which}.${graph.nodes[0]?.id ?? ''}` })}
        >
          select the first node
        </button>
      </p>
    </>
  );
}

/** "c = exp(b) = 2.4826" or "∂y/∂b = local x incoming = …", as far as the graph says it. */
function flowText(index: GraphIndex, step: FlowStep): string {
  const node = index.nodeById.get(step.node);
  if (!node) return '';
  if (step.phase === 'forward') return `${node.label || node.name} = ${format.cut(valueText(node.value), 160)}`;
  // Of each reader: its local derivative by this node, times the gradient that comes in at the reader.
  const terms = index.graph.edges
    .filter((e) => e.from === node.id && e.local !== undefined)
    .map((e) => `${valueText(e.local)} x ${format.cut(valueText(index.nodeById.get(e.to)?.gradient), 60)}`);
  return `gradient of ${node.label || node.name} = ${terms.length > 0 ? `${terms.join(' + ')} = ` : ''}${format.cut(valueText(node.gradient), 160)}`;
}
