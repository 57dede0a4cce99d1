// Every view of the page in a browser, from one HTML file with its policy on: nothing on the console,
// no request, shares that sum, the keyboard, accessibility in both themes, hostile names, damaged
// files, exports and the eight interactions.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { openBrowser, settled } from './browser.mjs';
import { makePage } from './page.mjs';
import { startServer } from './server.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const built = process.env.PELLUCID_VIEWER_OUT ?? join(root, 'build', 'viewer');
const fixture = await import(pathToFileURL(join(built, 'tests', 'fixture.mjs')).href);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const folder = mkdtempSync(join(tmpdir(), 'pellucid-pages-'));
const pictures = process.argv[3] === '--pictures' ? process.argv[4] : null;
let passed = Number(process.argv[2] ?? 0);
if (pictures) mkdirSync(pictures, { recursive: true });

const VIEWS = ['overview', 'flame', 'timeline', 'calls', 'layers', 'roofline', 'memory', 'source', 'graph', 'training'];

function page(name, items) {
  const path = join(folder, `${name}.html`);
  writeFileSync(path, makePage(built, items));
  return pathToFileURL(path).href;
}
const profile = fixture.profileContainer({ steps: 20 });
const urls = {
  profile: page('profile', [{ name: 'two_layer.pellucid', bytes: profile }]),
  hostile: page('hostile', [
    {
      name: `p${fixture.HOSTILE}`,
      bytes: fixture.profileContainer({ steps: 3, hostile: true }),
    },
  ]),
  empty: page('empty', [
    {
      name: 'empty.pellucid',
      bytes: fixture.profileContainer({ events: false }),
    },
  ]),
  run: page('run', [{ name: 'runs/two-layer', kind: 'run', bytes: fixture.runContainer() }]),
  compare: page('compare', [
    { name: 'a', side: 'A', bytes: profile },
    { name: 'b', side: 'B', bytes: fixture.profileContainer({ steps: 25 }) },
    { name: 'A and B', kind: 'compare', bytes: fixture.compareContainer() },
  ]),
  damaged: page('damaged', [{ name: 'damaged', bytes: profile.slice(0, profile.length - 40) }]),
};

let failed = 0;
let browser;
async function check(name, body) {
  browser.problems.length = 0;
  browser.requests = [];
  try {
    await body(browser.page);
    assert.deepEqual(browser.problems, [], 'the console is empty');
    const foreign = browser.requests.filter((url) => !/^(file|blob|data|about):/.test(url));
    assert.deepEqual(foreign, [], 'no request leaves the page');
    passed++;
  } catch (error) {
    failed++;
    console.error(`FAILED ${name}: ${error.message}`);
  }
}

async function open(p, url, hash = '') {
  await p.goto('about:blank');
  await p.goto(`${url}#${hash}`);
  await settled(p);
}
const text = (p, selector) => p.locator(selector).first().innerText();

async function accessible(p, name) {
  await p.evaluate(axe);
  const result = await p.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const said = result.violations.map(
    (v) =>
      `${v.id}: ${v.nodes
        .slice(0, 2)
        .map((n) => `${n.target} ${n.failureSummary}`)
        .join(' | ')}`,
  );
  assert.deepEqual(said, [], `axe: ${name}`);
}

// What is opened, the selection, and the views: each view by itself in both themes, the rest in one.
const LOOKS = [
  ['profile', '&sel=op%3Amm', VIEWS],
  ['profile', '', ['overview', 'memory']],
  ['hostile', '&sel=line%3A0', VIEWS],
  ['empty', '', VIEWS],
  ['run', '', ['overview', 'layers', 'training']],
  ['compare', '', ['overview', 'flame', 'calls']],
];

async function looks() {
  for (const dark of [false, true]) {
    browser = await openBrowser({ dark });
    for (const [kind, hash, views] of dark ? LOOKS.slice(0, 1) : LOOKS)
      for (const view of views)
        await check(`${view} of ${kind}${hash}, ${dark ? 'dark' : 'light'}`, async (p) => {
          await open(p, urls[kind], `view=${view}${hash}`);
          const overflow = await p.evaluate(() => [
            document.querySelector('main').scrollWidth - document.querySelector('main').clientWidth,
            document.documentElement.scrollWidth - innerWidth,
          ]);
          assert.ok(overflow[0] <= 0 && overflow[1] <= 0, `scrolls sideways by ${overflow}`);
          assert.equal(
            await p.evaluate(() => document.querySelectorAll('[onerror], main img, [style*="expression"]').length),
            0,
            'no element comes from a name',
          );
          assert.notEqual((await text(p, 'main')).trim(), '', 'the view is not blank');
          if (kind !== 'hostile') await accessible(p, view);
        });
    await browser.close();
  }
}

async function sums() {
  await check('the parts of the bar sum to the run', async (p) => {
    await open(p, urls.profile);
    const parts = await p.$$eval('.parts button', (all) =>
      all.map((b) => [Number(b.dataset.ns), b.getBoundingClientRect().width]),
    );
    const whole = parts.reduce((sum, [ns]) => sum + ns, 0);
    const width = parts.reduce((sum, [, w]) => sum + w, 0);
    assert.equal(
      whole,
      1 * ((await p.evaluate(() => Number(document.querySelector('.parts').dataset.total ?? 0))) || whole),
    );
    for (const [ns, w] of parts)
      assert.ok(Math.abs(w / width - ns / whole) < 0.01, `${w / width} of the width for ${ns / whole} of the time`);
  });
  await check('rectangles a frame stay below four a pixel column and row', async (p) => {
    await open(p, urls.profile, 'view=timeline');
    const [rects, width, height] = await p.$eval('.figure-timeline canvas', (c) => [
      Number(c.dataset.rects),
      c.clientWidth,
      c.clientHeight,
    ]);
    assert.ok(rects > 0 && rects <= 4 * width * Math.ceil(height / 12), `${rects} rectangles`);
  });
  await check('a brushed range limits the calls', async (p) => {
    await open(p, urls.profile, 'view=calls&calls.by=op&range=0-1500000');
    const inside = Number((await text(p, 'tbody tr:has-text("mm") td:nth-child(2)')).replace(/,/g, ''));
    assert.ok(inside >= 1 && inside < 20, `${inside} calls`);
  });
}

async function keyboard() {
  await check('digits choose views, / searches, ? helps, Esc closes, back goes back', async (p) => {
    await open(p, urls.profile);
    await p.keyboard.press('3');
    assert.match(p.url(), /view=timeline/);
    await p.keyboard.press('/');
    await p.keyboard.type('mm');
    await p.keyboard.press('Enter');
    assert.match(decodeURIComponent(p.url()), /sel=op:mm/);
    assert.match(await text(p, 'aside h2'), /mm/);
    await p.keyboard.press('?');
    await p.waitForSelector('dialog[open]');
    await p.keyboard.press('Escape');
    await p.waitForSelector('dialog[open]', { state: 'detached' });
    await p.keyboard.press('Escape');
    assert.doesNotMatch(p.url(), /sel=/);
    await p.goBack();
    assert.match(decodeURIComponent(p.url()), /sel=op:mm/);
    await p.waitForFunction(() => /mm/.test(document.querySelector('aside h2').textContent));
  });
  await check('arrows move in a picture, Space selects, Enter re-roots, f fits', async (p) => {
    await open(p, urls.profile, 'view=flame');
    await p.focus('.figure-flame .stage');
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown', ' ']) await p.keyboard.press(key);
    assert.match(decodeURIComponent(p.url()), /sel=fn:/);
    await p.keyboard.press('Enter');
    assert.match(p.url(), /flame\.root=/);
    await p.keyboard.press('f');
    assert.doesNotMatch(p.url(), /flame\.root=/);
    assert.notEqual((await text(p, '.spoken')).trim(), '');
  });
  await check('W, A, S and D zoom and move the timeline', async (p) => {
    await open(p, urls.profile, 'view=timeline');
    await p.focus('.figure-timeline .stage');
    await p.keyboard.press('w');
    const first = p.url();
    assert.match(first, /range=/);
    await p.keyboard.press('d');
    assert.notEqual(p.url(), first);
    await p.keyboard.press('f');
    assert.doesNotMatch(p.url(), /range=/);
  });
}

async function interactions() {
  await check('1: a line lights its calls in every view', async (p) => {
    await open(p, urls.profile, 'view=source');
    await p.click('.code button.link');
    assert.match(decodeURIComponent(p.url()), /sel=line:/);
    await p.keyboard.press('4');
    await settled(p);
    const lit = await p.$$eval('tbody tr.lit td.name', (all) => all.map((td) => td.textContent));
    for (const name of ['linear', 'mm', 'sgd_step'])
      assert.ok(
        lit.some((t) => t.includes(name)),
        `${name} is lit`,
      );
  });
  await check('2: dragged to its ceiling, the run is shorter at best', async (p) => {
    await open(p, urls.profile, 'view=roofline');
    const before = Number(await p.getAttribute('[data-after]', 'data-after'));
    await p.focus('.slider input');
    for (let i = 0; i < 4; i++) await p.keyboard.press('ArrowRight');
    const after = Number(await p.getAttribute('[data-after]', 'data-after'));
    assert.ok(after < before, `${after} < ${before}`);
    assert.match(await text(p, '[data-after]'), /at best/);
  });
  await check('3: who keeps the peak', async (p) => {
    await open(p, urls.profile, 'view=memory');
    assert.equal(Number(await p.getAttribute('[data-bytes]', 'data-bytes')), 451200);
    assert.match(await text(p, 'main'), /checkpoint this module/);
  });
  await check('4: why was this call slow, in parts that sum', async (p) => {
    await open(p, urls.profile, 'sel=call%3A2');
    assert.match(await text(p, '.whyslow'), /page faults[\s\S]*its excess/);
  });
  await check('5: calls with the same inputs are linked', async (p) => {
    await open(p, urls.profile, 'view=calls&calls.by=op&sel=op%3Amm');
    const call = await p.evaluate(() => location.hash);
    assert.ok(call);
    for (let i = 0; i < 400 && !(await p.locator('.repeats').count()); i++) {
      await p.evaluate((k) => (location.hash = `sel=call%3A${k}`), i);
      await p.waitForTimeout(5);
    }
    assert.match(await text(p, '.repeats'), /would have saved/);
  });
  await check('6: a comparison colours verdicts, grey cannot tell', async (p) => {
    await open(p, urls.compare, 'view=overview');
    await p.waitForSelector('td.worse');
    assert.ok(await p.locator('td.better').count());
    assert.match(await text(p, 'td.unclear'), /\+/);
    await p.click('text=A ⇄ B');
    assert.match(p.url(), /item=1/);
  });
  await check('8: values forward, gradients backward, one step a key', async (p) => {
    await open(p, urls.profile, 'view=graph');
    for (let i = 0; i < 5; i++) await p.keyboard.press('n');
    assert.match(await text(p, '.flow'), /backward 5 of 8/);
    assert.match(await text(p, '.flow b'), /gradient of y/);
    await p.keyboard.press('b');
    assert.match(await text(p, '.flow'), /forward 4 of 8/);
  });
}

async function served() {
  const graph = fixture.smallGraph();
  const server = await startServer(
    built,
    [
      {
        name: 'runs/two-layer',
        kind: 'run',
        bytes: fixture.runContainer(20),
      },
      { name: 'steps 200 to 220', bytes: profile },
    ],
    {
      '/api/record': () => [200, {}],
      '/api/playground': (body) =>
        body.expression.includes('boom') ? [400, { error: 'boom: no such function' }] : [200, { graph }],
    },
  );
  try {
    await check('7: live points appear, and the next steps are recorded and opened', async (p) => {
      await p.goto(`${server.url}#view=training`);
      await settled(p);
      await p.waitForSelector('text=● live');
      server.send({ type: 'lines', metrics: [{ step: 9990, loss: 0.5 }], live: [{ time: 1, step: 9990, memory: 5 }] });
      await p.click('.figure-curve-loss button:text-is("table")');
      await p.waitForSelector('td :text-is("9,990")');
      await p.click('text=record the next 20 steps');
      server.send({ type: 'recorded', item: 1, name: 'steps 200 to 220' });
      await p.click('text=open their profile');
      await p.waitForSelector('.parts button');
      assert.deepEqual(server.posts[0], ['/api/record', { item: 0, steps: 20 }]);
      browser.requests = browser.requests.filter((url) => !url.startsWith(server.url));
    });
    await check('8: the playground evaluates an expression, and shows a refusal', async (p) => {
      await p.goto(`${server.url}#view=graph&item=1`);
      await settled(p);
      await p.click('button:text-is("evaluate")');
      await p.waitForSelector('.flow b');
      assert.match(await text(p, '.flow'), /forward 1 of 8/);
      await p.fill('form input >> nth=0', 'boom(x)');
      await p.click('button:text-is("evaluate")');
      assert.match(await text(p, '[role=alert]'), /no such function/);
      // The browser itself notes the refused request.
      browser.problems.splice(0, browser.problems.length, ...browser.problems.filter((m) => !m.includes('400')));
      browser.requests = browser.requests.filter((url) => !url.startsWith(server.url));
    });
  } finally {
    await server.close();
  }
  await check('a server that has ended is named as the reason', async (p) => {
    await p.goto('about:blank');
    const gone = await startServer(built, [{ name: 'a', bytes: profile }], {});
    await p.route('**/data/0', (route) => route.abort());
    await p.goto(gone.url);
    await settled(p);
    assert.match(await text(p, '.empty'), /does not answer/);
    await p.unroute('**/data/0');
    await gone.close();
    browser.problems.length = 0;
    browser.requests = [];
  });
}

async function files() {
  await check('a damaged file is a readable page', async (p) => {
    await open(p, urls.damaged);
    assert.match(await text(p, '.empty'), /cut off|damaged/);
  });
  await check('an empty state names the command and copies it', async (p) => {
    await open(p, urls.empty, 'view=flame');
    assert.match(await text(p, '.empty code'), /pellucid profile/);
    await p.click('.empty button');
  });
  for (const [button, pattern] of [
    ['SVG', /^<svg[\s\S]*linear[\s\S]*<\/svg>\n$/],
    ['CSV', /^name,path,value/],
    ['PNG', /PNG/],
  ])
    await check(`the flame is saved as ${button}`, async (p) => {
      await open(p, urls.profile, 'view=flame');
      const [download] = await Promise.all([
        p.waitForEvent('download'),
        p.click(`.figure-flame button:text-is("${button}")`),
      ]);
      assert.match(readFileSync(await download.path(), 'latin1'), pattern);
    });
  await check('the exported SVG of hostile names is well-formed', async (p) => {
    await open(p, urls.hostile, 'view=flame');
    const [download] = await Promise.all([p.waitForEvent('download'), p.click('.figure-flame button:text-is("SVG")')]);
    const svg = readFileSync(await download.path(), 'utf8');
    const errors = await p.evaluate(
      (s) => new DOMParser().parseFromString(s, 'image/svg+xml').querySelectorAll('parsererror, script, img').length,
      svg,
    );
    assert.equal(errors, 0);
  });
  await check('without DecompressionStream the page says what to use', async (p) => {
    await p.addInitScript(() => {
      delete window.DecompressionStream;
      window.Worker = undefined;
    });
    await open(p, urls.profile);
    assert.match(await text(p, '.empty'), /DecompressionStream/);
  });
}

async function takePictures() {
  for (const dark of [false, true])
    for (const width of [1000, 1400, 2500]) {
      browser = await openBrowser({
        width,
        height: width > 2000 ? 1300 : 900,
        dark,
      });
      for (const [kind, views] of [
        ['profile', VIEWS],
        ['run', ['layers', 'training']],
        ['compare', ['overview']],
      ])
        for (const view of views) {
          await open(browser.page, urls[kind], `view=${view}&sel=op%3Amm`);
          await browser.page.screenshot({
            path: join(pictures, `${kind}-${view}-${width}-${dark ? 'dark' : 'light'}.png`),
          });
        }
      await browser.close();
    }
}

try {
  if (pictures) await takePictures();
  else {
    await looks();
    browser = await openBrowser();
    await sums();
    await keyboard();
    await interactions();
    await served();
    await files();
    await browser.close();
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
