// Verdicts of a comparison by name, as `pellucid diff` gave them.

import type { CompareRow, Header } from '../data/header';

export type Verdicts = Map<string, CompareRow>;

export function verdicts(header: Header | null): Verdicts | null {
  if (!header?.compare) return null;
  const out: Verdicts = new Map();
  // An op's verdict stands for its name, wherever else the name occurs.
  for (const by of ['module', 'line', 'op']) for (const row of header.compare[by]?.rows ?? []) out.set(row.name, row);
  return out;
}

export type Tone = 'better' | 'worse' | 'unclear' | 'added' | 'removed' | 'same';

/** One word for a verdict of the C++ side ("worse, a regression", "cannot tell", "new", "gone"). */
export function tone(row: CompareRow | undefined): Tone {
  if (!row || row.rest) return 'unclear';
  const verdict = row.verdict.toLowerCase();
  if (verdict.startsWith('worse')) return 'worse';
  if (verdict.startsWith('better')) return 'better';
  if (verdict.startsWith('new') || verdict.startsWith('added')) return 'added';
  if (verdict.startsWith('gone') || verdict.startsWith('removed')) return 'removed';
  if (verdict.startsWith('same')) return 'same';
  return 'unclear';
}
