// Builds the page: page.html, app.js and app.css in build/viewer. The server and the HTML writer put
// script, style and data into the marked places of page.html. With --tests the tests instead.

import { build } from 'esbuild';
import { copyFile, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.PELLUCID_VIEWER_OUT ?? join(here, '..', 'build', 'viewer');
const LARGEST = 300_000;
const LARGEST_ZIPPED = 100_000;

const shared = {
  bundle: true,
  target: ['es2021', 'chrome103', 'firefox113', 'safari16.4'],
  format: 'iife',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  minify: true,
  legalComments: 'none',
  charset: 'ascii',
  logLevel: 'warning',
};

/** The text of a bundle. "</" and "<!--" inside an element of HTML would end it. */
async function bundle(entry, more = {}) {
  const result = await build({ ...shared, ...more, entryPoints: [join(here, entry)], write: false });
  const text = result.outputFiles[0].text;
  return entry.endsWith('.css') ? text : text.replace(/<\/(script)/gi, '<\\/$1').replace(/<!--/g, '<\\!--');
}

async function buildPage() {
  const worker = await bundle('src/worker.ts');
  const app = await bundle('src/main.tsx', { define: { WORKER_SOURCE: JSON.stringify(worker) } });
  const style = await bundle('src/style.css');
  const zipped = gzipSync(app, { level: 9 }).length + gzipSync(style, { level: 9 }).length;
  const size = Buffer.byteLength(app) + Buffer.byteLength(style);
  if (size > LARGEST || zipped > LARGEST_ZIPPED)
    throw new Error(
      `the page has ${size} bytes of code (${zipped} gzipped); at most ${LARGEST} (${LARGEST_ZIPPED}) are allowed`,
    );
  await mkdir(out, { recursive: true });
  await writeFile(join(out, 'app.js'), app);
  await writeFile(join(out, 'app.css'), style);
  await copyFile(join(here, 'src', 'page.html'), join(out, 'page.html'));
  console.log(`viewer: ${size} bytes of code, ${zipped} gzipped`);
}

async function buildTests() {
  const folder = join(out, 'tests');
  await rm(folder, { recursive: true, force: true });
  const names = (await readdir(join(here, 'tests'))).filter((name) => name.endsWith('.ts'));
  await build({
    ...shared,
    minify: false,
    format: 'esm',
    platform: 'node',
    target: 'node18',
    outExtension: { '.js': '.mjs' },
    entryPoints: names.map((name) => join(here, 'tests', name)),
    outdir: folder,
  });
}

if (process.argv.includes('--tests')) await buildTests();
else await buildPage();
