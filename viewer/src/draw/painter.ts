// What a picture is drawn with. One drawing function serves the screen (canvas) and the exported SVG
// (its twin), and leaves the places of what can be pointed at, selected and reached with the keyboard.

import type { Selection } from '../model/selection';
import type { Pattern, Theme } from './theme';

export interface Hit {
  x: number;
  y: number;
  w: number;
  h: number;
  /** The first line of the hover card, and what is spoken. */
  title: string;
  details: string[];
  select?: Selection;
  /** What Enter and a double click do, such as re-rooting. */
  open?: () => void;
  /** Identity over frames, for the focus. */
  id: string;
}

export interface TextStyle {
  color?: string;
  size?: number;
  bold?: boolean;
  mono?: boolean;
  anchor?: 'start' | 'middle' | 'end';
  /** Cut with "…" at this width; nothing is drawn below `least` pixels. */
  max?: number;
  turn?: number;
}

export interface Painter {
  readonly width: number;
  readonly height: number;
  readonly theme: Theme;
  readonly hits: Hit[];
  /** How many rectangles were drawn. */
  rects: number;
  rect(x: number, y: number, w: number, h: number, fill: string, pattern?: Pattern, opacity?: number): void;
  frame(x: number, y: number, w: number, h: number, stroke: string, width?: number, dash?: number[]): void;
  line(points: readonly (readonly [number, number])[], stroke: string, width?: number, dash?: number[]): void;
  path(
    d: string,
    fill: string | null,
    stroke?: string | null,
    width?: number,
    pattern?: Pattern,
    opacity?: number,
  ): void;
  circle(x: number, y: number, r: number, fill: string | null, stroke?: string | null, width?: number): void;
  text(text: string, x: number, y: number, style?: TextStyle): void;
  measure(text: string, style?: TextStyle): number;
  clip(x: number, y: number, w: number, h: number, draw: () => void): void;
  move(dx: number, dy: number, draw: () => void): void;
  hit(hit: Hit): void;
}

export const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
export const MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';
export const SIZE = 12;

export function fontOf(style: TextStyle): string {
  return `${style.bold ? '600 ' : ''}${style.size ?? SIZE}px ${style.mono ? MONO : SANS}`;
}

const widths = new Map<string, Map<string, number>>();
/** Above this many texts the measurements are forgotten. */
const KEPT_TEXTS = 20000;
let ruler: CanvasRenderingContext2D | null = null;

/** The width of a text, measured once. */
export function measureText(text: string, font: string): number {
  let known = widths.get(font);
  if (!known) widths.set(font, (known = new Map()));
  let width = known.get(text);
  if (width === undefined) {
    ruler ??= document.createElement('canvas').getContext('2d');
    if (!ruler) return text.length * 7;
    ruler.font = font;
    width = ruler.measureText(text).width;
    if (known.size > KEPT_TEXTS) known.clear();
    known.set(text, width);
  }
  return width;
}

/** The longest beginning of a text that fits, with "…" if something is missing; '' if not even three letters fit. */
export function fit(text: string, max: number, font: string): string {
  if (max <= 0) return '';
  // Nothing that is shown is longer; names may have 10 kB.
  const short = text.length > 400 ? `${text.slice(0, 400)}…` : text;
  if (measureText(short, font) <= max) return short;
  let lo = 0;
  let hi = short.length;
  while (lo < hi) {
    const mid = (lo + hi + 1) >> 1;
    if (measureText(`${short.slice(0, mid)}…`, font) <= max) lo = mid;
    else hi = mid - 1;
  }
  return lo >= 3 || (lo > 0 && short.length <= 4) ? `${short.slice(0, lo)}…` : '';
}
