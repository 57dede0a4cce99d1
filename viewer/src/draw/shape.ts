// Path texts of areas and arcs, which a canvas and an SVG both read.

const n = (v: number): string => String(Math.round(v * 100) / 100);

/** The area between two step curves: value i holds from x(i) to x(i + 1). */
export function stepArea(
  count: number,
  x: (i: number) => number,
  low: (i: number) => number,
  high: (i: number) => number,
): string {
  if (count === 0) return '';
  let d = `M${n(x(0))},${n(high(0))}`;
  for (let i = 0; i < count; i++) d += `${i > 0 ? `V${n(high(i))}` : ''}H${n(x(i + 1))}`;
  for (let i = count - 1; i >= 0; i--) d += `V${n(low(i))}H${n(x(i))}`;
  return `${d}Z`;
}

/** A part of a ring; angles in turns, clockwise from the top. */
export function ringPart(inner: number, outer: number, from: number, to: number): string {
  const at = (r: number, turn: number): string => {
    const angle = (turn - 0.25) * 2 * Math.PI;
    return `${n(r * Math.cos(angle))},${n(r * Math.sin(angle))}`;
  };
  if (to - from > 0.99999) {
    const circle = (r: number, sweep: number): string =>
      `M${at(r, 0)}A${n(r)},${n(r)} 0 1 ${sweep} ${at(r, 0.5)}A${n(r)},${n(r)} 0 1 ${sweep} ${at(r, 0)}Z`;
    return inner > 0 ? `${circle(outer, 1)}${circle(inner, 0)}` : circle(outer, 1);
  }
  const large = to - from > 0.5 ? 1 : 0;
  const out = `M${at(outer, from)}A${n(outer)},${n(outer)} 0 ${large} 1 ${at(outer, to)}`;
  return inner > 0 ? `${out}L${at(inner, to)}A${n(inner)},${n(inner)} 0 ${large} 0 ${at(inner, from)}Z` : `${out}L0,0Z`;
}
