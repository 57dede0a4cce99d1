// The page around the views: header with the sentence and the bar, the list, the panel, the brush.

import { Component, type ComponentChildren } from 'preact';
import * as format from '../model/format';
import {
  comparison,
  go,
  items,
  load,
  loads,
  mode,
  page,
  panelOpen,
  profile,
  selected,
  setItem,
  setView,
  spoken,
  theme,
  view,
} from '../state/store';
import { VIEWS } from '../views';
import { Brush } from './brush';
import { Empty } from './common';
import { Help, helpOpen, nextTheme, useKeys } from './keys';
import { Panel } from './panel';
import { PartsBar } from './parts';
import { Search } from './search';

/** What a view that fails shows, so that the others stay usable. */
class Guard extends Component<{ children: ComponentChildren; name: string }, { error: string }> {
  state = { error: '' };
  componentDidCatch(error: Error): void {
    this.setState({ error: error.message });
    console.error(error);
  }
  componentDidUpdate(before: { name: string }): void {
    if (before.name !== this.props.name && this.state.error) this.setState({ error: '' });
  }
  render() {
    if (this.state.error) return <Empty title="This view cannot show the file" why={this.state.error} />;
    return this.props.children;
  }
}

function facts(): string {
  const h = profile.value?.header;
  if (!h) return '';
  const t = h.totals;
  const out: string[] = [];
  if (t.duration_ns) out.push(format.time(t.duration_ns));
  if (t.ops) out.push(`${format.count(t.ops)} ops`);
  if (t.peak_bytes) out.push(`${format.bytes(t.peak_bytes)} peak`);
  return out.join(' · ');
}

/** Sides matter only where there are two. */
const baseSide = (side: string | undefined): string =>
  side && items.value.some((i) => i.side === 'B') ? `${side}: ` : '';

function Header() {
  const all = items.value;
  const now = all.find((i) => i.id === page.value.item) ?? all[0];
  const sides = all.filter((i) => i.side === 'A' || i.side === 'B');
  const other = sides.find((i) => i.side !== now?.side);
  return (
    <header>
      <div class="titles">
        <h1>pellucid</h1>
        {all.length > 1 ? (
          <select aria-label="What is shown" value={now?.id} onChange={(e) => setItem(Number(e.currentTarget.value))}>
            {all.map((i) => (
              <option key={i.id} value={i.id}>
                {baseSide(i.side)}
                {format.visible(format.cut(i.name, 60))}
              </option>
            ))}
          </select>
        ) : (
          <span class="name">{format.visible(format.cut(now?.name ?? '', 60))}</span>
        )}
        <span class="facts">{facts()}</span>
        <Search views={VIEWS} />
        {comparison.value && other && now?.side && (
          <button type="button" title={`Show side ${other.side}`} onClick={() => go({ item: other.id })}>
            A ⇄ B
          </button>
        )}
        <button
          type="button"
          class="foldbutton"
          aria-pressed={panelOpen.value}
          onClick={() => (panelOpen.value = !panelOpen.value)}
        >
          {selected.value.kind ? 'selection ●' : 'selection'}
        </button>
        <button
          type="button"
          onClick={nextTheme}
          title={`Theme: ${theme.value} (t)`}
          aria-label={`Theme: ${theme.value}`}
        >
          {theme.value === 'dark' ? '●' : theme.value === 'light' ? '○' : '◐'}
        </button>
        <button type="button" onClick={() => (helpOpen.value = true)} aria-label="Keys" title="Keys (?)">
          ?
        </button>
      </div>
      {profile.value && (
        <>
          {profile.value.header.sentence && <p class="sentence">{format.visible(profile.value.header.sentence)}</p>}
          <PartsBar />
        </>
      )}
    </header>
  );
}

export function Shell() {
  useKeys(VIEWS);
  const now = VIEWS.find((v) => v.id === view.value) ?? VIEWS[0];
  const l = load.value;
  return (
    <div class={`page ${panelOpen.value ? 'open' : ''}`}>
      <Header />
      <nav aria-label="Views">
        {VIEWS.map((v, i) => (
          <button
            type="button"
            key={v.id}
            aria-current={v === now ? 'page' : undefined}
            onClick={() => setView(v.id)}
            class={profile.value && v.has && !v.has(profile.value) ? 'absent' : ''}
          >
            {v.title}
            <span class="key" aria-hidden="true">
              {i < 10 ? (i + 1) % 10 : ''}
            </span>
          </button>
        ))}
      </nav>
      <main tabIndex={-1} aria-label={now.title} aria-busy={l.state === 'loading'}>
        {l.state === 'loading' && (
          <p class="wait" role="status">
            {l.what || 'Loading …'}
          </p>
        )}
        {l.state === 'failed' && <Empty title="This file cannot be shown" why={format.visible(l.why)} />}
        {l.state === 'ready' && (
          <Guard name={`${now.id}/${page.value.item}`}>
            <now.view key={`${now.id}/${page.value.item}`} p={l.profile} />
          </Guard>
        )}
        {mode.value === 'server' && Object.keys(loads.value).length === 0 && <p class="wait">Nothing is open.</p>}
      </main>
      <Panel />
      <Brush />
      <Help />
      <div class="spoken" role="status" aria-live="polite">
        {spoken.value}
      </div>
    </div>
  );
}
