// The painter of exported pictures: the same drawing as text.

import { fit, fontOf, measureText, MONO, SANS, SIZE, type Hit, type Painter, type TextStyle } from './painter';
import { points, strokes } from './canvas';
import { PATTERNS, type Pattern, type Theme } from './theme';

// What XML 1.0 has no way to write, and what would end a text.
const escapeXml = (text: string): string =>
  text
    // eslint-disable-next-line no-control-regex
    .replace(
      /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
      '\ufffd',
    )
    .replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c] as string);

const number = (v: number): string => String(Math.round(v * 100) / 100);

export class SvgPainter implements Painter {
  readonly hits: Hit[] = [];
  rects = 0;
  private readonly out: string[] = [];
  private readonly defs: string[] = [];
  private clips = 0;

  constructor(
    readonly width: number,
    readonly height: number,
    readonly theme: Theme,
    private readonly title: string,
  ) {}

  private shape(markup: string, pattern: Pattern): void {
    this.out.push(markup);
    if (pattern) this.out.push(markup.replace(/fill="[^"]*"/, `fill="url(#p-${pattern})"`));
  }

  rect(x: number, y: number, w: number, h: number, fill: string, pattern: Pattern = '', opacity = 1): void {
    this.rects++;
    this.shape(
      `<rect x="${number(x)}" y="${number(y)}" width="${number(Math.max(0, w))}" height="${number(Math.max(0, h))}" fill="${fill}"${opacity < 1 ? ` opacity="${opacity}"` : ''}/>`,
      w >= 5 ? pattern : '',
    );
  }

  frame(x: number, y: number, w: number, h: number, stroke: string, width = 1, dash: number[] = []): void {
    this.out.push(
      `<rect x="${number(x + width / 2)}" y="${number(y + width / 2)}" width="${number(Math.max(0, w - width))}" height="${number(Math.max(0, h - width))}" fill="none" stroke="${stroke}" stroke-width="${width}"${dashes(dash)}/>`,
    );
  }

  line(list: readonly (readonly [number, number])[], stroke: string, width = 1, dash: number[] = []): void {
    this.out.push(
      `<polyline points="${list.map(([x, y]) => `${number(x)},${number(y)}`).join(' ')}" fill="none" stroke="${stroke}" stroke-width="${width}" stroke-linejoin="round"${dashes(dash)}/>`,
    );
  }

  path(
    d: string,
    fill: string | null,
    stroke: string | null = null,
    width = 1,
    pattern: Pattern = '',
    opacity = 1,
  ): void {
    const strokes_ = stroke ? ` stroke="${stroke}" stroke-width="${width}"` : '';
    this.shape(
      `<path d="${d}" fill="${fill ?? 'none'}"${strokes_}${opacity < 1 ? ` opacity="${opacity}"` : ''}/>`,
      fill ? pattern : '',
    );
  }

  circle(x: number, y: number, r: number, fill: string | null, stroke: string | null = null, width = 1): void {
    const strokes_ = stroke ? ` stroke="${stroke}" stroke-width="${width}"` : '';
    this.out.push(`<circle cx="${number(x)}" cy="${number(y)}" r="${number(r)}" fill="${fill ?? 'none'}"${strokes_}/>`);
  }

  text(text: string, x: number, y: number, style: TextStyle = {}): void {
    const shown = style.max === undefined ? text : fit(text, style.max, fontOf(style));
    if (!shown) return;
    const turn = style.turn
      ? ` transform="rotate(${number((style.turn * 180) / Math.PI)} ${number(x)} ${number(y)})"`
      : '';
    this.out.push(
      `<text x="${number(x)}" y="${number(y)}" dominant-baseline="central" font-family="${escapeXml(style.mono ? MONO : SANS)}" font-size="${style.size ?? SIZE}"${style.bold ? ' font-weight="600"' : ''} text-anchor="${style.anchor ?? 'start'}" fill="${style.color ?? this.theme.text}"${turn}>${escapeXml(shown)}</text>`,
    );
  }

  measure(text: string, style: TextStyle = {}): number {
    return measureText(text, fontOf(style));
  }

  clip(x: number, y: number, w: number, h: number, draw: () => void): void {
    const id = `c${this.clips++}`;
    this.defs.push(
      `<clipPath id="${id}"><rect x="${number(x)}" y="${number(y)}" width="${number(Math.max(0, w))}" height="${number(Math.max(0, h))}"/></clipPath>`,
    );
    this.out.push(`<g clip-path="url(#${id})">`);
    draw();
    this.out.push('</g>');
  }

  move(dx: number, dy: number, draw: () => void): void {
    this.out.push(`<g transform="translate(${number(dx)} ${number(dy)})">`);
    draw();
    this.out.push('</g>');
  }

  hit(): void {}

  finish(): string {
    const ink = this.theme.dark ? '#000' : '#fff';
    const opacity = this.theme.dark ? 0.34 : 0.42;
    const patterns = PATTERNS.filter((p) => p !== '').map((pattern) => {
      const lines = strokes(pattern).map(
        ([a, b, c, d]) => `<line x1="${a}" y1="${b}" x2="${c}" y2="${d}" stroke="${ink}" stroke-width="1.4"/>`,
      );
      const spots = points(pattern).map(([a, b]) => `<rect x="${a}" y="${b}" width="2" height="2" fill="${ink}"/>`);
      return `<pattern id="p-${pattern}" width="8" height="8" patternUnits="userSpaceOnUse"><g opacity="${opacity}">${lines.join('')}${spots.join('')}</g></pattern>`;
    });
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" role="img">` +
      `<title>${escapeXml(this.title)}</title><defs>${patterns.join('')}${this.defs.join('')}</defs>` +
      `<rect width="100%" height="100%" fill="${this.theme.back}"/>${this.out.join('')}</svg>\n`
    );
  }
}

function dashes(dash: number[]): string {
  return dash.length > 0 ? ` stroke-dasharray="${dash.join(' ')}"` : '';
}
