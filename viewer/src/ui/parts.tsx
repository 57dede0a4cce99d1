// The bar "where the time goes": the parts of the run as the C++ report gives them. They sum to it.

import { points, strokes } from '../draw/canvas';
import { inkOn, mix, themeOf, type Pattern, type Theme } from '../draw/theme';
import { percent, time } from '../model/format';
import { dark, page, profile, select } from '../state/store';

/** What the parts mean, as docs/profile.md says. */
export const PART_MEANING: [RegExp, string, string][] = [
  [
    /compute ceiling/,
    'The time that the FLOPs of the ops take at the measured best of the machine. Only less work makes it shorter.',
    'roofline',
  ],
  [
    /memory ceiling/,
    'The time that the bytes of the ops take at the measured best of the memory. Only less work makes it shorter.',
    'roofline',
  ],
  [/dispatch/, 'The cost of calling ops, from the median of the views of the run, which do nothing else.', 'calls'],
  [/page faults/, 'The system had to map a page while an op ran.', 'timeline'],
  [/preempted/, 'The system gave the core of the thread of an op to another program.', 'timeline'],
  [/waiting for data/, 'The program waited for its data loader.', 'timeline'],
  [/waiting/, 'The thread of an op waited for something.', 'timeline'],
  [
    /first calls/,
    'How much longer the first call of an op with its sizes took than the mean of later calls: new memory, new primitives.',
    'roofline',
  ],
  [
    /below both/,
    'The rest of the time of the ops: small sizes, awkward layouts, other programs on the cores.',
    'roofline',
  ],
  [/scopes/, 'The own time of modules, backward nodes and scopes, between their ops.', 'flame'],
  [/outside/, 'Code of the program itself, outside every op and scope.', 'timeline'],
];

export const partMeaning = (name: string): [string, string] => {
  for (const [test, meaning, where] of PART_MEANING) if (test.test(name)) return [meaning, where];
  return ['A part of the time of the run.', 'overview'];
};

function look(t: Theme, name: string): { fill: string; pattern: Pattern } {
  const f = t.families;
  if (/compute ceiling/.test(name)) return { fill: f.contraction, pattern: '' };
  if (/memory ceiling/.test(name)) return { fill: f.movement, pattern: 'across' };
  if (/dispatch/.test(name)) return { fill: f.optimizer, pattern: 'dots' };
  if (/faults/.test(name)) return { fill: f.reduction, pattern: 'up' };
  if (/preempted/.test(name)) return { fill: mix(f.reduction, t.back, 0.3), pattern: 'grid' };
  if (/waiting/.test(name)) return { fill: mix(f.reduction, t.back, 0.5), pattern: 'down' };
  if (/first/.test(name)) return { fill: f.pointwise, pattern: 'up' };
  if (/below both/.test(name)) return { fill: mix(f.contraction, t.back, 0.55), pattern: 'sparse' };
  if (/scopes/.test(name)) return { fill: mix(f.other, t.back, 0.3), pattern: 'down' };
  return { fill: mix(t.unclear, t.back, 0.6), pattern: '' };
}

export function PartsBar() {
  const parts = profile.value?.header.parts ?? [];
  const theme = themeOf(dark.value);
  const whole = parts.reduce((sum, p) => sum + p.ns, 0);
  if (!(whole > 0)) return null;
  const ink = theme.dark ? '#000' : '#fff';
  const chosen = page.value.selection;
  return (
    <div class="parts" role="group" aria-label="Where the time goes">
      {parts
        .filter((p) => p.ns > 0)
        .map((part, i) => {
          const { fill, pattern } = look(theme, part.name);
          const short = part.name.replace(/^ops, /, '');
          const shown = `${short} ${percent(part.ns / whole)}`;
          const said = `${shown}, ${time(part.ns)}`;
          return (
            <button
              type="button"
              key={part.name}
              title={`${part.name}: ${time(part.ns)}, ${percent(part.ns / whole)}`}
              aria-label={said}
              data-ns={part.ns}
              aria-pressed={chosen.kind === 'part' && chosen.id === part.name}
              style={{ flex: `${part.ns / whole} 1 0`, background: fill, color: inkOn(fill) }}
              onClick={() => select({ kind: 'part', id: part.name })}
            >
              <svg aria-hidden="true">
                <defs>
                  <pattern id={`part-${i}`} width="8" height="8" patternUnits="userSpaceOnUse">
                    {strokes(pattern).map(([a, b, c, d], k) => (
                      <line key={k} x1={a} y1={b} x2={c} y2={d} stroke={ink} stroke-width="1.2" opacity="0.22" />
                    ))}
                    {points(pattern).map(([a, b], k) => (
                      <rect key={k} x={a} y={b} width="2" height="2" fill={ink} opacity="0.3" />
                    ))}
                  </pattern>
                </defs>
                <rect width="100%" height="100%" fill={`url(#part-${i})`} />
              </svg>
              {part.ns / whole > 0.045 && <span>{shown}</span>}
            </button>
          );
        })}
    </div>
  );
}
