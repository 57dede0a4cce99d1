// The state of the page as text: the part of the address after '#'. Unknown views, ranges without a
// length and broken escapes are dropped, since an address may come from anywhere.

import type { Range } from '../model/range';
import { NOTHING, parseSelection, selectionText, type Selection } from '../model/selection';

export interface PageState {
  item: number;
  /** '' is the view that suits what is open. */
  view: string;
  selection: Selection;
  range: Range | null;
  /** What views keep: "flame.by" -> "module". */
  options: Record<string, string>;
}

export const START: PageState = { item: 0, view: '', selection: NOTHING, range: null, options: {} };

/** Longer addresses do not survive being sent around. */
const LONGEST_OPTION = 2000;

export function encodeState(s: PageState): string {
  const out = new URLSearchParams();
  if (s.item !== START.item) out.set('item', String(s.item));
  if (s.view !== START.view) out.set('view', s.view);
  const selected = selectionText(s.selection);
  if (selected) out.set('sel', selected);
  if (s.range) out.set('range', `${Math.round(s.range.from)}-${Math.round(s.range.to)}`);
  for (const key of Object.keys(s.options).sort())
    if (s.options[key].length <= LONGEST_OPTION) out.set(key, s.options[key]);
  return out.toString();
}

export function decodeState(text: string, views: readonly string[]): PageState {
  const params = new URLSearchParams(text.replace(/^#/, ''));
  const state: PageState = { ...START, options: {} };
  for (const [key, value] of params) {
    if (key === 'item') {
      const id = Number(value);
      if (Number.isInteger(id) && id >= 0) state.item = id;
    } else if (key === 'view') {
      if (views.includes(value)) state.view = value;
    } else if (key === 'sel') {
      state.selection = parseSelection(value);
    } else if (key === 'range') {
      const match = /^(\d+)-(\d+)$/.exec(value);
      if (match && Number(match[2]) > Number(match[1])) state.range = { from: Number(match[1]), to: Number(match[2]) };
    } else if (/^[a-z]+\.[a-z]+$/.test(key) && value.length <= LONGEST_OPTION) {
      state.options[key] = value;
    }
  }
  return state;
}
