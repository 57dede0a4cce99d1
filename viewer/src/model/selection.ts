// What can be selected, as text (it is part of the URL), and which events and blocks it lights.

import type { GraphNode } from '../data/header';
import type { Profile } from './profile';

/** "op:mm", "sig:12", "call:7", "line:3", "fn:4", "module:2", "block:9", "node:0.17", "part:ops, waiting", "step:4". */
export interface Selection {
  kind: string;
  id: string;
}

export const NOTHING: Selection = { kind: '', id: '' };

export function selectionText(s: Selection): string {
  return s.kind ? `${s.kind}:${s.id}` : '';
}

export function parseSelection(text: string): Selection {
  const colon = text.indexOf(':');
  return colon > 0 ? { kind: text.slice(0, colon), id: text.slice(colon + 1) } : NOTHING;
}

/** Whether a row names something; a URL of another profile may not. */
export function exists(p: Profile, s: Selection): boolean {
  const id = Number(s.id);
  const within = (n: number): boolean => Number.isInteger(id) && id >= 0 && id < n;
  switch (s.kind) {
    case 'op':
      return p.header.signatures.some((x) => x.name === s.id);
    case 'sig':
      return within(p.header.signatures.length);
    case 'call':
      return within(p.n);
    case 'line':
      return within(p.lines.length);
    case 'fn':
      return within(p.functions.length);
    case 'module':
      return within(p.header.modules.length);
    case 'block':
      return within(p.blocks);
    case 'step':
      return within(p.rowsOf('step'));
    case 'node':
      return nodeOf(p, s.id) !== undefined;
    case 'part':
      return p.header.parts.some((x) => x.name === s.id);
    default:
      return false;
  }
}

/**
 * The events that a selection lights, or null if it lights none in particular. A line lights its
 * calls, their backward nodes (which have the line of the call that made them), and the updates of
 * the parameters of the modules that its forward calls belong to.
 */
export function lit(p: Profile, s: Selection): Uint8Array | null {
  if (!exists(p, s) || s.kind === 'part') return null;
  const mask = new Uint8Array(p.n);
  const { event } = p;
  const id = Number(s.id);
  const mark = (test: (i: number) => boolean): Uint8Array => {
    for (let i = 0; i < p.n; i++) if (test(i)) mask[i] = 1;
    return mask;
  };
  switch (s.kind) {
    case 'op': {
      const signatures = Uint8Array.from(p.header.signatures, (x) => (x.name === s.id ? 1 : 0));
      return mark((i) => signatures[event.signature[i]] === 1);
    }
    case 'sig':
      return mark((i) => event.signature[i] === id);
    case 'fn':
      return mark((i) => p.functionOf[i] === id);
    case 'step':
      return mark((i) => event.step[i] === id);
    case 'module': {
      const modules = p.moduleAndBelow(id);
      return mark((i) => modules.has(event.module[i]));
    }
    case 'line':
      return lightLine(p, id, mask);
    case 'block': {
      for (const e of [p.allocation.event[id], p.allocation.freed_by[id], ...savers(p, id)])
        if (e >= 0 && e < p.n) mask[e] = 1;
      return mask;
    }
    case 'node': {
      const node = nodeOf(p, s.id);
      if (node?.event !== undefined && node.event >= 0 && node.event < p.n) lightCall(p, node.event, mask);
      else if (node?.module !== undefined && node.module >= 0) {
        const modules = p.moduleAndBelow(node.module);
        return mark((i) => modules.has(event.module[i]));
      } else return null;
      return mask;
    }
    case 'call':
      lightCall(p, id, mask);
      return mask;
    default:
      return null;
  }
}

function lightCall(p: Profile, call: number, mask: Uint8Array): void {
  mask[call] = 1;
  const forward = p.event.forward[call];
  if (forward >= 0 && forward < p.n) mask[forward] = 1;
  for (let i = 0; i < p.n; i++) if (p.event.forward[i] === call) mask[i] = 1;
}

function lightLine(p: Profile, line: number, mask: Uint8Array): Uint8Array {
  const { event } = p;
  const modules = new Set<number>();
  for (let i = 0; i < p.n; i++) {
    if (p.line(i) !== line) continue;
    mask[i] = 1;
    if (event.phase[i] === 0 && event.module[i] >= 0) modules.add(event.module[i]);
  }
  for (let i = 0; i < p.n; i++) {
    const forward = event.forward[i];
    if (forward >= 0 && forward < p.n && mask[forward]) mask[i] = 1;
    if (event.phase[i] === 2 && modules.has(event.module[i])) mask[i] = 1;
  }
  return mask;
}

/** What `use.kind` says of a tensor that was saved for backward. */
const SAVED = 2;

/** Pairs of an event and a block that it saved for backward, if the profile knows them. */
export function savedPairs(p: Profile): { events: ArrayLike<number>; blocks: ArrayLike<number> } {
  const kind = p.columns['use.kind'];
  const event = p.columns['use.event'];
  const block = p.columns['use.allocation'];
  const rows: number[] = [];
  if (kind && event && block) for (let i = 0; i < kind.length; i++) if (kind[i] === SAVED) rows.push(i);
  return { events: rows.map((i) => event[i]), blocks: rows.map((i) => block[i]) };
}

/** The events that saved a block for backward, if the profile says so. */
export function savers(p: Profile, block: number): number[] {
  const { events, blocks } = savedPairs(p);
  return Array.from(events).filter((e, i) => blocks[i] === block && e >= 0 && e < p.n);
}

/** The graph and node that "0.n12" names. */
export function nodeOf(p: Profile, id: string): GraphNode | undefined {
  const dot = id.indexOf('.');
  return p.header.graphs[Number(id.slice(0, dot))]?.nodes.find((n) => n.id === id.slice(dot + 1));
}

/** A line as the reports write it ("two_layer.cpp:17"). */
export function lineNamed(p: Profile, text: string): Selection | null {
  const id = p.lines.findIndex((l, i) => p.lineName(i) === text || `${l.file}:${l.line}` === text);
  return id >= 0 ? { kind: 'line', id: String(id) } : null;
}
