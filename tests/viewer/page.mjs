// The page made from the built script and containers, as the C++ side makes it: for tests of the page
// alone, with containers that no recorder writes.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';

const hash = (text) => `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`;

/** `items`: [{name, kind, bytes, side?}]; in server mode their bytes are asked for. */
export function pageParts(dist, items, mode, can = []) {
  const read = (name) => readFileSync(join(dist, name), 'utf8');
  const style = read('app.css');
  const script = read('app.js');
  const boot = JSON.stringify({
    mode,
    can,
    version: '0.1.0',
    items: items.map((item, id) => ({
      id,
      name: item.name,
      kind: item.kind ?? 'profile',
      side: item.side,
    })),
  }).replace(/</g, '\\u003c');
  const policy = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    'worker-src blob:',
    'img-src blob: data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const data = (mode === 'file' ? items : [])
    .map(
      (item, id) =>
        `<script type="application/octet-stream" id="pellucid-data-${id}">${deflateRawSync(item.bytes).toString('base64')}</script>`,
    )
    .join('\n');
  const places = {
    policy: mode === 'file' ? `<meta http-equiv="Content-Security-Policy" content="${policy}">` : '',
    title: 'pellucid view',
    style: `<style>${style}</style>`,
    notice: '',
    boot: `<script type="application/json" id="pellucid-boot">${boot}</script>`,
    data,
    script: `<script>${script}</script>`,
  };
  const html = read('page.html').replace(/<!--pellucid:(\w+)-->/g, (_, name) => places[name]);
  return { html, policy };
}

export const makePage = (dist, items) => pageParts(dist, items, 'file').html;
