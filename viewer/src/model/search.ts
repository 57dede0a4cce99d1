// What "/" finds: ops, lines, modules, functions, nodes of graphs, views.

import type { Profile } from './profile';
import type { Selection } from './selection';

export interface Found {
  what: string;
  text: string;
  select?: Selection;
  view?: string;
  score: number;
}

const MOST = 60;

/** Smaller is better; Infinity is no match. All words must occur. */
export function score(text: string, words: string[]): number {
  const low = text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const at = low.indexOf(word);
    if (at < 0) return Infinity;
    sum += at === 0 ? (low === word ? 0 : 1) : /[^a-z0-9]/.test(low[at - 1]) ? 2 : 4;
  }
  return sum + text.length / 1000;
}

export function search(p: Profile | null, views: { id: string; title: string }[], query: string): Found[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const out: Found[] = [];
  const add = (what: string, text: string, bias: number, more: { select?: Selection; view?: string }): void => {
    const s = score(text, words);
    if (s < Infinity) out.push({ what, text, score: s + bias, ...more });
  };
  for (const view of views) add('view', view.title, 0.2, { view: view.id });
  if (p) {
    for (const name of new Set(p.header.signatures.map((s) => s.name)))
      add('op', name, 0, { select: { kind: 'op', id: name } });
    p.lines.forEach((l, i) =>
      add('line', `${p.lineName(i)} ${l.function}`, l.own ? 0.1 : 1, { select: { kind: 'line', id: String(i) } }),
    );
    p.header.modules.forEach((m, i) =>
      add('module', `${m.path || '(model)'} ${m.type}`, 0.1, { select: { kind: 'module', id: String(i) } }),
    );
    p.functions.forEach((_, i) => add('function', p.functionName(i), 0.5, { select: { kind: 'fn', id: String(i) } }));
    p.header.graphs.forEach((g, k) =>
      g.nodes.forEach((n) =>
        add('node', `${n.label || n.name} ${n.shape ?? ''}`, 1.5, {
          select: { kind: 'node', id: `${k}.${n.id}` },
          view: 'graph',
        }),
      ),
    );
  }
  return out.sort((a, b) => a.score - b.score).slice(0, MOST);
}
