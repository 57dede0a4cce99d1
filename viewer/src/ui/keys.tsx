// The keys of the page, and the dialog that lists them.

import { useEffect, useRef } from 'preact/hooks';
import { signal } from '@preact/signals';
import { cards, clear, panelOpen, setRange, setView, theme } from '../state/store';

export const helpOpen = signal(false);

const KEYS: [string, string][] = [
  ['/', 'search ops, lines, modules, views'],
  ['1 … 9, 0', 'the views, in the order of the list'],
  ['arrows', 'in a picture: the next rectangle; in a table: the next row'],
  ['Enter', 'open what has the focus: zoom, re-root, open a box'],
  ['Space', 'select what has the focus'],
  ['W S A D', 'in a picture: closer, farther, left, right'],
  ['f', 'fit: the whole again'],
  ['p', 'pin the hover card; again to release it'],
  ['h', 'hover cards on or off'],
  ['r', 'the whole run (drop the brush)'],
  ['i', 'the selection panel on narrow pages'],
  ['t', 'theme: system, light, dark'],
  ['Esc', 'close, and drop the selection'],
  ['?', 'this list'],
];

export const nextTheme = (): void => {
  theme.value = theme.value === 'system' ? 'light' : theme.value === 'light' ? 'dark' : 'system';
};

export function useKeys(views: { id: string }[]): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) && event.key !== 'Escape') return;
      const digit = /^[0-9]$/.test(event.key) ? (Number(event.key) + 9) % 10 : -1;
      if (digit >= 0 && views[digit]) setView(views[digit].id);
      else if (event.key === '/') document.getElementById('search')?.focus();
      else if (event.key === '?') helpOpen.value = true;
      else if (event.key === 't') nextTheme();
      else if (event.key === 'h') cards.value = !cards.value;
      else if (event.key === 'r') setRange(null);
      else if (event.key === 'i') panelOpen.value = !panelOpen.value;
      else if (event.key === 'Escape') {
        if (helpOpen.value) helpOpen.value = false;
        else if (panelOpen.value) panelOpen.value = false;
        else clear();
      } else return;
      event.preventDefault();
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, []);
}

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helpOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helpOpen.value]);
  return (
    <dialog ref={dialog} aria-label="Keys" onClose={() => (helpOpen.value = false)}>
      <h2>Keys</h2>
      <table>
        <tbody>
          {KEYS.map(([key, what]) => (
            <tr key={key}>
              <td>
                <kbd>{key}</kbd>
              </td>
              <td>{what}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="note">
        Everything selected, zoomed and filtered is in the address: copy it to show the same to a colleague.
      </p>
      <button type="button" onClick={() => (helpOpen.value = false)}>
        close
      </button>
    </dialog>
  );
}
