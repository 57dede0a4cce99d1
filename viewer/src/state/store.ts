// The one store: what is open, selected, in view. The address is its text form (url.ts); "back" goes
// to the state before. Views read signals and call the functions here, and never one another.

import { computed, effect, signal } from '@preact/signals';
import type { BootItem } from '../data/boot';
import type { LayerLog, Series } from '../data/header';
import { MemoryUse } from '../model/memory';
import type { Profile } from '../model/profile';
import type { Range } from '../model/range';
import { exists, lit, NOTHING, type Selection, selectionText } from '../model/selection';
import { decodeState, encodeState, START, type PageState } from './url';

export type Load =
  | { state: 'loading'; what: string }
  | { state: 'ready'; profile: Profile }
  | { state: 'failed'; why: string };

export const page = signal<PageState>(START);
export const items = signal<BootItem[]>([]);
export const mode = signal<'file' | 'server'>('file');
/** What the server offers beyond the data, such as "record". */
export const can = signal<string[]>([]);
export const loads = signal<Record<number, Load>>({});

/** The first view of a run is its curves, of an expression its graph. */
const FIRST_VIEW: Record<string, string> = { run: 'training', graph: 'graph' };
export const view = computed(
  () => page.value.view || FIRST_VIEW[items.value.find((i) => i.id === page.value.item)?.kind ?? ''] || 'overview',
);
export const selection = computed(() => page.value.selection);
export const range = computed(() => page.value.range);
export const load = computed<Load>(() => loads.value[page.value.item] ?? { state: 'loading', what: '' });
export const profile = computed<Profile | null>(() => (load.value.state === 'ready' ? load.value.profile : null));

/** The comparison among the open items, if there is one. */
export const comparison = computed(() => {
  for (const entry of Object.values(loads.value))
    if (entry.state === 'ready' && entry.profile.header.compare) return entry.profile.header;
  return null;
});

const selectedText = computed(() => selectionText(page.value.selection));
/** The events that the selection lights; null if it lights none in particular. */
export const mask = computed<Uint8Array | null>(() => {
  const p = profile.value;
  return p && selectedText.value ? lit(p, page.value.selection) : null;
});

export const memory = computed<MemoryUse | null>(() => (profile.value ? new MemoryUse(profile.value) : null));

/** What a running program has added to the log of an item since it was opened. */
export const liveRun = signal<Record<number, { series: Series[]; layers: LayerLog[] }>>({});

/** What a screen reader hears when something changed. */
export const spoken = signal('');
export const say = (text: string): void => {
  spoken.value = text;
};

let views: readonly string[] = [];

function write(push: boolean): void {
  const text = encodeState(page.peek());
  try {
    if (push) history.pushState(null, '', `#${text}`);
    else history.replaceState(null, '', `#${text}`);
  } catch {
    // Inside a notebook's frame the history belongs to another page; the state then lives here alone.
  }
}

export function go(change: Partial<PageState>, push = true): void {
  const before = encodeState(page.peek());
  page.value = { ...page.peek(), ...change };
  if (encodeState(page.peek()) !== before) write(push);
}

export function openState(known: readonly string[]): void {
  views = known;
  page.value = decodeState(location.hash, views);
  addEventListener('popstate', () => {
    page.value = decodeState(location.hash, views);
  });
}

export const setView = (id: string): void => go({ view: id });
export const setRange = (next: Range | null, push = true): void => go({ range: next }, push);
export const select = (next: Selection): void => go({ selection: next });
export const clear = (): void => go({ selection: NOTHING });
export const setItem = (id: number): void => go({ item: id, selection: NOTHING, range: null });

export function setOption(key: string, value: string, push = false): void {
  const options = { ...page.peek().options };
  if (value === '') delete options[key];
  else options[key] = value;
  go({ options }, push);
}

export const option = (key: string, fallback: string): string => page.value.options[key] ?? fallback;

/** The selection, unless the open profile does not have it. */
export const selected = computed<Selection>(() => {
  const p = profile.value;
  return p && exists(p, page.value.selection) ? page.value.selection : NOTHING;
});

export const theme = signal<'system' | 'light' | 'dark'>('system');
export const systemDark = signal(false);
export const dark = computed(() => theme.value === 'dark' || (theme.value === 'system' && systemDark.value));
export const cards = signal(true);
export const panelOpen = signal(false);

const KEPT = 'pellucid-viewer';

/** Theme and hover cards are kept by the browser, where it lets a page keep things. */
export function keepPreferences(): void {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? '{}') as { theme?: string; cards?: boolean };
    if (kept.theme === 'light' || kept.theme === 'dark') theme.value = kept.theme;
    if (kept.cards === false) cards.value = false;
  } catch {
    // No storage for this page (a file, a private window): the defaults hold.
  }
  const query = matchMedia('(prefers-color-scheme: dark)');
  systemDark.value = query.matches;
  query.addEventListener('change', () => (systemDark.value = query.matches));
  effect(() => {
    document.documentElement.dataset.theme = dark.value ? 'dark' : 'light';
    const text = JSON.stringify({ theme: theme.value, cards: cards.value });
    try {
      localStorage.setItem(KEPT, text);
    } catch {
      // As above.
    }
  });
}
