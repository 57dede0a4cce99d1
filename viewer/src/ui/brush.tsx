// The brush: memory, steps and threads over the whole run; a drag limits every view to a part of it.

import { bottomAxis, linear } from '../draw/axis';
import type { Painter } from '../draw/painter';
import { stepArea } from '../draw/shape';
import { mix } from '../draw/theme';
import { percent, time } from '../model/format';
import { pieces } from '../model/rows';
import { memory, profile, range, say, setRange } from '../state/store';
import { Figure } from './figure';

const HEIGHT = 52;
const PLOT = 36;
/** The smallest part that a key press leaves. */
const SMALLEST_NS = 100;

export function Brush() {
  const p = profile.value;
  const m = memory.value;
  const now = range.value;
  if (!p || p.n === 0 || !m) return null;
  const paint = (g: Painter): void => {
    const x = linear([0, p.duration], [0, g.width]);
    g.rect(0, 0, g.width, PLOT, mix(g.theme.back, g.theme.raised, 0.5));
    if (m.peak.bytes > 0) {
      const columns = Math.max(1, Math.floor(g.width / 2));
      const sums = new Float64Array(columns);
      for (const category of m.stacked(0, p.duration, columns)) category.forEach((v, i) => (sums[i] += v));
      const shape = stepArea(
        columns,
        (i) => (i * g.width) / columns,
        () => PLOT,
        (i) => PLOT - (sums[i] / m.peak.bytes) * (PLOT - 8),
      );
      g.path(shape, mix(g.theme.families.contraction, g.theme.back, 0.6));
    }
    p.rows.rows
      .filter((r) => r.depth === 0)
      .slice(0, 3)
      .forEach((row, i) => {
        for (const piece of pieces(p.rows, row, p.event.begin, p.event.end, 0, p.duration, g.width))
          g.rect(piece.from, 2 + 3 * i, Math.max(1, piece.to - piece.from), 2, g.theme.dim);
      });
    const stepBegin = p.columns['step.begin'];
    if (stepBegin && stepBegin.length <= g.width / 3)
      for (const t of stepBegin)
        g.line(
          [
            [x(t), PLOT - 4],
            [x(t), PLOT],
          ],
          g.theme.dim,
          1,
        );
    bottomAxis(g, x, x.ticks(Math.max(2, Math.floor(g.width / 120))), PLOT, PLOT, (v) => time(v));
    if (now) {
      g.rect(0, 0, x(now.from), PLOT, g.theme.back, '', 0.7);
      g.rect(x(now.to), 0, g.width - x(now.to), PLOT, g.theme.back, '', 0.7);
      g.frame(x(now.from), 0, Math.max(2, x(now.to) - x(now.from)), PLOT, g.theme.accent, 2);
    }
  };
  const change = (from: number, to: number): void => {
    const length = Math.max(SMALLEST_NS, Math.min(p.duration, to - from));
    const start = Math.max(0, Math.min(p.duration - length, from));
    const whole = length >= p.duration * 0.9999;
    setRange(whole ? null : { from: start, to: start + length }, false);
    say(whole ? 'the whole run' : `${time(start)} to ${time(start + length)}`);
  };
  const current = now ?? { from: 0, to: p.duration };
  const length = current.to - current.from;
  return (
    <section class="brush" aria-label="Brush">
      <Figure
        name="brush"
        title="Brush"
        height={HEIGHT}
        paint={paint}
        label="Brush over the whole run. Drag to limit every view to a part; W and S zoom, A and D move, F shows the whole run"
        gestures={{
          left: 0,
          right: (w) => w,
          range: (a, b) => setRange({ from: a * p.duration, to: b * p.duration }),
          zoom: (factor) => {
            const mid = (current.from + current.to) / 2;
            change(mid - length / factor / 2, mid + length / factor / 2);
          },
          pan: (share) => change(current.from + share * length, current.to + share * length),
          fit: () => setRange(null),
        }}
      />
      <div class="where">
        {now ? (
          <>
            <div>
              {time(now.to - now.from)} · {percent((now.to - now.from) / p.duration)} of the run
            </div>
            <button type="button" class="link" onClick={() => setRange(null)}>
              show the whole run
            </button>
          </>
        ) : (
          <span class="dim">the whole run, {time(p.duration)}; drag to see a part</span>
        )}
      </div>
    </section>
  );
}
