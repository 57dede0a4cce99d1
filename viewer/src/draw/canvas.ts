// The painter of the screen.

import { fit, fontOf, measureText, type Hit, type Painter, type TextStyle } from './painter';
import type { Pattern, Theme } from './theme';

const TILE = 8;
const tiles = new Map<string, CanvasPattern>();

/** A tile of a pattern in a neutral ink, to be laid over a fill. */
function tile(context: CanvasRenderingContext2D, pattern: Pattern, dark: boolean): CanvasPattern | null {
  const key = `${pattern}/${dark}`;
  const known = tiles.get(key);
  if (known) return known;
  const canvas = document.createElement('canvas');
  canvas.width = canvas.height = TILE;
  const c = canvas.getContext('2d');
  if (!c) return null;
  c.strokeStyle = c.fillStyle = dark ? 'rgba(0,0,0,0.34)' : 'rgba(255,255,255,0.42)';
  c.lineWidth = 1.4;
  c.beginPath();
  for (const [x1, y1, x2, y2] of strokes(pattern)) {
    c.moveTo(x1, y1);
    c.lineTo(x2, y2);
  }
  c.stroke();
  for (const [x, y] of points(pattern)) c.fillRect(x, y, 2, 2);
  const made = context.createPattern(canvas, 'repeat');
  if (made) tiles.set(key, made);
  return made;
}

export function strokes(pattern: Pattern): [number, number, number, number][] {
  switch (pattern) {
    case 'up':
      return [
        [0, 8, 8, 0],
        [-2, 2, 2, -2],
        [6, 10, 10, 6],
      ];
    case 'down':
      return [
        [0, 0, 8, 8],
        [-2, 6, 2, 10],
        [6, -2, 10, 2],
      ];
    case 'across':
      return [[0, 4, 8, 4]];
    case 'grid':
      return [
        [0, 4, 8, 4],
        [4, 0, 4, 8],
      ];
    default:
      return [];
  }
}

export function points(pattern: Pattern): [number, number][] {
  return pattern === 'dots'
    ? [
        [1, 1],
        [5, 5],
      ]
    : pattern === 'sparse'
      ? [[3, 3]]
      : [];
}

/** Below this width a pattern is noise. */
const PATTERN_WIDTH = 5;

export class CanvasPainter implements Painter {
  readonly hits: Hit[] = [];
  rects = 0;
  private dx = 0;
  private dy = 0;
  private bounds: [number, number, number, number];

  constructor(
    private readonly c: CanvasRenderingContext2D,
    readonly width: number,
    readonly height: number,
    readonly theme: Theme,
  ) {
    this.bounds = [0, 0, width, height];
    c.textBaseline = 'middle';
  }

  rect(x: number, y: number, w: number, h: number, fill: string, pattern: Pattern = '', opacity = 1): void {
    this.rects++;
    const { c } = this;
    c.globalAlpha = opacity;
    c.fillStyle = fill;
    c.fillRect(x, y, w, h);
    if (pattern && w >= PATTERN_WIDTH) {
      const made = tile(c, pattern, this.theme.dark);
      if (made) {
        c.fillStyle = made;
        c.fillRect(x, y, w, h);
      }
    }
    c.globalAlpha = 1;
  }

  frame(x: number, y: number, w: number, h: number, stroke: string, width = 1, dash: number[] = []): void {
    this.c.strokeStyle = stroke;
    this.c.lineWidth = width;
    this.c.setLineDash(dash);
    this.c.strokeRect(x + width / 2, y + width / 2, Math.max(0, w - width), Math.max(0, h - width));
    this.c.setLineDash([]);
  }

  line(points_: readonly (readonly [number, number])[], stroke: string, width = 1, dash: number[] = []): void {
    const { c } = this;
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.lineJoin = 'round';
    c.setLineDash(dash);
    c.beginPath();
    points_.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
    c.stroke();
    c.setLineDash([]);
  }

  path(
    d: string,
    fill: string | null,
    stroke: string | null = null,
    width = 1,
    pattern: Pattern = '',
    opacity = 1,
  ): void {
    const path = new Path2D(d);
    const { c } = this;
    c.globalAlpha = opacity;
    if (fill) {
      c.fillStyle = fill;
      c.fill(path);
      const made = pattern && tile(c, pattern, this.theme.dark);
      if (made) {
        c.fillStyle = made;
        c.fill(path);
      }
    }
    c.globalAlpha = 1;
    if (stroke) {
      c.strokeStyle = stroke;
      c.lineWidth = width;
      c.stroke(path);
    }
  }

  circle(x: number, y: number, r: number, fill: string | null, stroke: string | null = null, width = 1): void {
    const { c } = this;
    c.beginPath();
    c.arc(x, y, r, 0, 2 * Math.PI);
    if (fill) {
      c.fillStyle = fill;
      c.fill();
    }
    if (stroke) {
      c.strokeStyle = stroke;
      c.lineWidth = width;
      c.stroke();
    }
  }

  text(text: string, x: number, y: number, style: TextStyle = {}): void {
    const font = fontOf(style);
    const shown = style.max === undefined ? text : fit(text, style.max, font);
    if (!shown) return;
    const { c } = this;
    c.font = font;
    c.fillStyle = style.color ?? this.theme.text;
    c.textAlign = style.anchor === 'middle' ? 'center' : (style.anchor ?? 'start');
    if (style.turn) {
      c.save();
      c.translate(x, y);
      c.rotate(style.turn);
      c.fillText(shown, 0, 0);
      c.restore();
    } else c.fillText(shown, x, y);
  }

  measure(text: string, style: TextStyle = {}): number {
    return measureText(text, fontOf(style));
  }

  clip(x: number, y: number, w: number, h: number, draw: () => void): void {
    const before = this.bounds;
    const [bx, by, bw, bh] = before;
    const left = Math.max(bx, x + this.dx);
    const top = Math.max(by, y + this.dy);
    this.bounds = [left, top, Math.min(bx + bw, x + this.dx + w) - left, Math.min(by + bh, y + this.dy + h) - top];
    this.c.save();
    this.c.beginPath();
    this.c.rect(x, y, w, h);
    this.c.clip();
    draw();
    this.c.restore();
    this.c.textBaseline = 'middle';
    this.bounds = before;
  }

  move(dx: number, dy: number, draw: () => void): void {
    this.c.save();
    this.c.translate(dx, dy);
    this.dx += dx;
    this.dy += dy;
    draw();
    this.dx -= dx;
    this.dy -= dy;
    this.c.restore();
    this.c.textBaseline = 'middle';
  }

  /** Only what is visible can be pointed at. */
  hit(hit: Hit): void {
    const [bx, by, bw, bh] = this.bounds;
    const x = Math.max(bx, hit.x + this.dx);
    const y = Math.max(by, hit.y + this.dy);
    const w = Math.min(bx + bw, hit.x + this.dx + hit.w) - x;
    const h = Math.min(by + bh, hit.y + this.dy + hit.h) - y;
    if (w > 0 && h > 0) this.hits.push({ ...hit, x, y, w, h });
  }
}
