// Numbers as people read them: three significant digits, units beside them, decimal prefixes.

const PREFIXES: [number, string][] = [
  [1e15, 'P'],
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
];

/** Three significant digits, no exponent for what people meet. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? '–' : value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  if (size === 0) return '0';
  let text: string;
  if (size >= 1e6 || size < 1e-4) text = value.toExponential(2);
  else if (size >= 1000) return count(value);
  else if (size >= 100) text = value.toFixed(0);
  else if (size >= 10) text = value.toFixed(1);
  else if (size >= 1) text = value.toFixed(2);
  else text = value.toPrecision(3);
  return text.replace('-', '−');
}

/** "1.23 M" of 1.23e6, with the unit. */
function prefixed(value: number, unit: string, largest: string): string {
  if (!Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  for (const [scale, prefix] of PREFIXES) {
    if (prefix.length > 0 && 'kMGTP'.indexOf(prefix) > 'kMGTP'.indexOf(largest)) continue;
    if (size >= scale * 0.9995) return `${digits(value / scale)} ${prefix}${unit}`;
  }
  return `${digits(value)} ${unit}`;
}

export function time(ns: number): string {
  if (!Number.isFinite(ns)) return '–';
  const size = Math.abs(ns);
  if (size >= 0.9995e9) return `${digits(ns / 1e9)} s`;
  if (size >= 0.9995e6) return `${digits(ns / 1e6)} ms`;
  if (size >= 0.9995e3) return `${digits(ns / 1e3)} us`;
  return `${size > 0 && size < 1 ? digits(ns) : Math.round(ns).toString().replace('-', '−')} ns`;
}

export function bytes(value: number): string {
  return Math.abs(value) < 1000 ? `${Math.round(value)} B` : prefixed(value, 'B', 'P');
}
export const flops = (value: number): string => prefixed(value, 'FLOPs', 'P');
export const rate = (perSecond: number, unit: string): string => prefixed(perSecond, `${unit}/s`, 'P');

export function count(value: number): string {
  if (!Number.isFinite(value)) return '–';
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',')
    .replace('-', '−');
}

/** A share, with one decimal at most. */
export function percent(share: number): string {
  if (!Number.isFinite(share)) return '–';
  const value = 100 * share;
  const size = Math.abs(value);
  if (size === 0) return '0 %';
  if (size < 0.05) return '< 0.1 %';
  return `${size >= 99.95 || Math.abs(size - Math.round(size)) < 0.05 ? value.toFixed(0) : value.toFixed(1)} %`.replace(
    '-',
    '−',
  );
}

/** A change with its sign. */
export function change(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return '–';
  return `${share > 0 ? '+' : share < 0 ? '−' : ''}${percent(Math.abs(share))}`;
}

/** Control characters as they are escaped in a terminal, so that a name is one visible line. */
export function visible(text: string): string {
  // eslint-disable-next-line no-control-regex
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (c) => {
    const code = c.charCodeAt(0);
    return c === '\n'
      ? '⏎'
      : c === '\t'
        ? '⇥'
        : code < 0x100
          ? `\\x${code.toString(16).padStart(2, '0')}`
          : `\\u${code.toString(16)}`;
  });
}

/** The beginning of a text; what does not fit is cut at the end. */
export function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, Math.max(0, length - 1))}…`;
}

export function csvCell(value: string | number | null): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  // A cell that a spreadsheet would take for a formula begins with a quote instead.
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}
