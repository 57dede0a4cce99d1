// Opens the exported page in Debian's chromium, uses it as a reader would (sorts, filters, enters and leaves a call,
// opens a table) and prints what it saw as JSON. Usage: node page.js PLAYWRIGHT PAGE SCREENSHOT
'use strict';
const [playwright, page_path, screenshot] = process.argv.slice(2);
const {chromium} = require(playwright);

const column = (table, index) => table.locator('tbody tr').evaluateAll(
    (rows, i) => rows.filter(r => !r.hidden).map(r => r.cells[i].dataset.v === undefined ? r.cells[i].textContent
                                                                                         : Number(r.cells[i].dataset.v)), index);

async function sort_and_filter(page, found) {
  const calls = page.locator('table', {has: page.locator('th', {hasText: /^Op$/})}).first();
  const head = calls.locator('th', {hasText: /^Calls$/}), index = await head.evaluate(h => h.cellIndex);
  await head.click();
  found.falling = await column(calls, index);
  await head.click();
  found.rising = await column(calls, index);
  found.first_column = await column(page.locator('table').first(), 0);
  await page.locator('table').first().locator('th').nth(1).click();
  found.first_sorted = await column(page.locator('table').first(), 0);
  for (const details of await page.locator('details').all()) await details.locator('summary').click();
  const box = page.locator('.filter').first();
  found.filters = await page.locator('.filter').count();
  if (found.filters > 0) {
    const table = page.locator('.filter + .scroll table').first();
    const names = await table.locator('tbody tr td:first-child').allTextContents();
    found.rows = names.length;
    found.wanted = names[1];
    await box.fill(found.wanted);
    found.filtered = await table.locator('tbody tr:not([hidden])').allTextContents();
    await box.fill('');
    found.unfiltered = (await column(table, 0)).length;
  }
}

async function use_icicle(page, found) {
  const rects = page.locator('#icicle rect'), widths = () => rects.evaluateAll(all => all.map(r => r.width.baseVal.value));
  found.widths = await widths();
  const inner = found.widths.findIndex(w => w < found.widths[0] * 0.95 && w > 4);
  await rects.nth(inner).hover();
  found.hint = await page.locator('#what').textContent();
  await rects.nth(inner).click();
  found.entered = await widths();
  await page.setViewportSize({width: 900, height: 800});
  await page.waitForTimeout(200);
  found.resized = (await widths()).length;
  await page.setViewportSize({width: 1280, height: 900});
  await page.waitForTimeout(200);
  for (let i = 0; i < 9 && (await widths()).length !== found.widths.length; ++i) await rects.first().click();
  found.left = await widths();
}

(async () => {
  const browser = await chromium.launch({executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-gpu']});
  const found = {errors: [], requests: []};
  try {
    const page = await browser.newPage({viewport: {width: 1280, height: 900}});
    page.on('pageerror', e => found.errors.push(String(e)));
    page.on('console', m => { if (m.type() === 'error') found.errors.push(m.text()); });
    page.on('request', r => found.requests.push(r.url()));
    await page.goto('file://' + page_path);
    await page.screenshot({path: screenshot, fullPage: true});
    await sort_and_filter(page, found);
    await use_icicle(page, found);
    found.bars = await page.locator('td[data-bar]').first().evaluate(c => getComputedStyle(c).backgroundImage);
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify(found));
})().catch(e => { console.error(e); process.exit(1); });
