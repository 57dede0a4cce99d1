// Parts of the selection panel: rows of a name and a value, links to other selections, the little
// curve of calls.

import type { ComponentChildren } from 'preact';
import * as format from '../model/format';
import type { Selection } from '../model/selection';
import { select } from '../state/store';

export function Rows({ rows }: { rows: [string, ComponentChildren][] }) {
  const shown = rows.filter(([, value]) => value !== null && value !== '');
  if (shown.length === 0) return null;
  return <dl>{shown.map(([name, value]) => [<dt key={`t${name}`}>{name}</dt>, <dd key={`d${name}`}>{value}</dd>])}</dl>;
}

export function To({ to, children }: { to: Selection; children: ComponentChildren }) {
  return (
    <button type="button" class="link" onClick={() => select(to)}>
      {children}
    </button>
  );
}

export function Spark({ values }: { values: number[] }) {
  if (values.length < 2) return null;
  const most = Math.max(...values);
  const columns = Math.min(values.length, 140);
  const bars = Array.from({ length: columns }, (_, c) => {
    const from = Math.floor((c * values.length) / columns);
    const to = Math.max(from + 1, Math.floor(((c + 1) * values.length) / columns));
    return Math.max(...values.slice(from, to)) / most;
  });
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${columns} 36`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`time of each of ${values.length} calls, at most ${format.time(most)}`}
    >
      {bars.map((share, i) => (
        <rect
          key={i}
          x={i}
          y={36 - 34 * share}
          width="0.82"
          height={Math.max(0.5, 34 * share)}
          fill="currentColor"
          opacity="0.65"
        />
      ))}
    </svg>
  );
}
