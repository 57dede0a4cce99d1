// The search of the header: "/" goes there, arrows choose, Enter selects.

import { useRef, useState } from 'preact/hooks';
import { cut, visible } from '../model/format';
import { search, type Found } from '../model/search';
import { go, page, profile, say } from '../state/store';

// The types of preact want a list of every combobox; this one has results of its own.
const COMBOBOX = { role: 'combobox' } as Record<string, string>;

export function Search({ views }: { views: { id: string; title: string }[] }) {
  const [query, setQuery] = useState('');
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const found = search(profile.value, views, query);
  const take = (hit: Found | undefined): void => {
    if (!hit) return;
    go({ selection: hit.select ?? page.value.selection, view: hit.view ?? page.value.view });
    say(`selected: ${hit.what} ${hit.text}`);
    setQuery('');
    input.current?.blur();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowDown') setAt(Math.min(found.length - 1, at + 1));
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1));
    else if (event.key === 'Enter') take(found[at]);
    else if (event.key === 'Escape') {
      setQuery('');
      input.current?.blur();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const open = query !== '';
  return (
    <div class="search">
      <input
        ref={input}
        id="search"
        type="search"
        placeholder="search  /"
        aria-label="Search ops, lines, modules and views"
        {...COMBOBOX}
        aria-expanded={open && found.length > 0}
        aria-controls="results"
        aria-autocomplete="list"
        autocomplete="off"
        aria-activedescendant={open && found[at] ? `result-${at}` : undefined}
        value={query}
        onInput={(event) => (setQuery(event.currentTarget.value), setAt(0))}
        onKeyDown={onKey}
        onBlur={() => setTimeout(() => setQuery(''), 150)}
      />
      {open && found.length > 0 && (
        <ul class="results" id="results" role="listbox" aria-label="Search results">
          {found.map((hit, i) => (
            <li
              key={i}
              id={`result-${i}`}
              role="option"
              aria-selected={i === at}
              onPointerDown={(e) => (e.preventDefault(), take(hit))}
            >
              <span class="what">{hit.what}</span>
              <span class="hit mono">{visible(cut(hit.text, 200))}</span>
            </li>
          ))}
        </ul>
      )}
      {open && found.length === 0 && (
        <div class="results dim" id="results">
          nothing has these words
        </div>
      )}
    </div>
  );
}
