// Colours of the page as the style sheet defines them, for what is drawn. Hue is identity, lightness
// is quantity; patterns say again what a hue says.

export const FAMILIES = ['contraction', 'pointwise', 'reduction', 'movement', 'optimizer', 'other'] as const;

export interface Theme {
  dark: boolean;
  text: string;
  dim: string;
  line: string;
  back: string;
  raised: string;
  accent: string;
  better: string;
  worse: string;
  unclear: string;
  families: Record<string, string>;
  series: string[];
}

let known: Theme | null = null;

export function themeOf(dark: boolean): Theme {
  if (known && known.dark === dark) return known;
  const style = getComputedStyle(document.documentElement);
  const read = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const families: Record<string, string> = {};
  for (const family of FAMILIES) families[family] = read(family);
  known = {
    dark,
    text: read('text'),
    dim: read('dim'),
    line: read('line'),
    back: read('back'),
    raised: read('raised'),
    accent: read('accent'),
    better: read('better'),
    worse: read('worse'),
    unclear: read('unclear'),
    families,
    series: ['contraction', 'reduction', 'pointwise', 'optimizer', 'movement', 'other'].map((f) => families[f]),
  };
  return known;
}

/** Modules, backward nodes and other scopes are neutral: their colour is that of what they call. */
export const familyColor = (t: Theme, family: string): string =>
  family === 'scope' ? mix(t.unclear, t.back, 0.55) : (t.families[family] ?? t.families.other);

/** The pattern that goes with a family; '' is plain. */
export function familyPattern(family: string): Pattern {
  switch (family) {
    case 'pointwise':
      return 'up';
    case 'reduction':
      return 'dots';
    case 'movement':
      return 'across';
    case 'optimizer':
      return 'down';
    case 'other':
      return 'grid';
    default:
      return '';
  }
}

export type Pattern = '' | 'up' | 'down' | 'across' | 'dots' | 'grid' | 'sparse';
export const PATTERNS: Pattern[] = ['', 'up', 'dots', 'down', 'across', 'grid', 'sparse'];

type Rgb = [number, number, number];

export function parseColor(color: string): Rgb {
  const hex = /^#([0-9a-f]{6})$/i.exec(color);
  if (!hex) return [128, 128, 128];
  const n = parseInt(hex[1], 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

const toHex = (c: Rgb): string => `#${c.map((v) => Math.round(v).toString(16).padStart(2, '0')).join('')}`;

/** `share` of b in a. */
export function mix(a: string, b: string, share: number): string {
  const x = parseColor(a);
  const y = parseColor(b);
  return toHex([0, 1, 2].map((i) => x[i] + (y[i] - x[i]) * share) as Rgb);
}

function luminance(color: string): number {
  const [r, g, b] = parseColor(color).map((v) => {
    const c = v / 255;
    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a: string, b: string): number {
  const x = luminance(a);
  const y = luminance(b);
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

/** Black or white, whichever is read better on a colour. */
export const inkOn = (color: string): string =>
  contrast(color, '#000000') >= contrast(color, '#ffffff') ? '#000000' : '#ffffff';

// A perceptual scale from light to dark (and for the dark theme from dark to light): 0 is the page.
const HEAT_LIGHT = ['#f3efe4', '#f6d9a0', '#f0b06a', '#dd7f4e', '#b9503f', '#7f2b37'];
const HEAT_DARK = ['#26262c', '#4d3346', '#86404f', '#c05d4c', '#eb9156', '#fbd48c'];

/** Heat of a share between 0 and 1. */
export function heat(t: Theme, share: number): string {
  const scale = t.dark ? HEAT_DARK : HEAT_LIGHT;
  const at = Math.min(1, Math.max(0, share)) * (scale.length - 1);
  const i = Math.min(scale.length - 2, Math.floor(at));
  return mix(scale[i], scale[i + 1], at - i);
}
