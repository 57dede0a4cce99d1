// Starts the page: reads what to open, shows the shell at once, and opens the items one after another.

import { render } from 'preact';
import { readBoot, type Boot } from './data/boot';
import { openItem } from './data/open';
import { Profile } from './model/profile';
import { can, items, keepPreferences, loads, mode, openState, page, type Load } from './state/store';
import { Shell } from './ui/shell';
import { VIEWS } from './views';
import { effect } from '@preact/signals';

function put(id: number, load: Load): void {
  loads.value = { ...loads.value, [id]: load };
}

async function open(boot: Boot, id: number): Promise<void> {
  put(id, { state: 'loading', what: 'Unpacking and indexing the events …' });
  try {
    put(id, { state: 'ready', profile: new Profile(await openItem(boot, id)) });
  } catch (error) {
    put(id, { state: 'failed', why: (error as Error).message });
  }
}

async function start(): Promise<void> {
  keepPreferences();
  openState(VIEWS.map((v) => v.id));
  const root = document.getElementById('app') as HTMLElement;
  root.replaceChildren();
  render(<Shell />, root);
  let boot: Boot;
  try {
    boot = readBoot();
  } catch (error) {
    put(page.value.item, { state: 'failed', why: (error as Error).message });
    return;
  }
  items.value = boot.items;
  mode.value = boot.mode;
  can.value = boot.can ?? [];
  if (boot.items.length === 0) return put(page.value.item, { state: 'failed', why: 'nothing was opened' });
  if (!boot.items.some((i) => i.id === page.value.item)) page.value = { ...page.value, item: boot.items[0].id };
  // A comparison colours every view, and runs share their curves: they are opened with the first item.
  const opened = new Set<number>();
  const want = (id: number): void => {
    if (opened.has(id)) return;
    opened.add(id);
    void open(boot, id);
  };
  effect(() => want(page.value.item));
  for (const item of boot.items) if (item.kind === 'compare' || item.kind === 'run') want(item.id);
}

void start();
