// A browser for the tests: headless Chromium with a fresh profile, one page at a time, and a note of
// everything on its console and every request.

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const PLACES = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
export const executable = PLACES.find((path) => path && existsSync(path));

export async function openBrowser({ width = 1400, height = 900, dark = false, reduced = true } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'pellucid-viewer-'));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: executable,
    headless: true,
    viewport: { width, height },
    colorScheme: dark ? 'dark' : 'light',
    reducedMotion: reduced ? 'reduce' : 'no-preference',
    acceptDownloads: true,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
  const problems = [];
  const watch = (page) => {
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()));
    page.on('pageerror', (error) => problems.push(String(error)));
    page.on('request', (request) => browser.requests.push(request.url()));
  };
  const browser = {
    context,
    page: context.pages()[0] ?? (await context.newPage()),
    problems,
    requests: [],
    async close() {
      await context.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  context.pages().forEach(watch);
  context.on('page', watch);
  return browser;
}

/** Waits until the view has been drawn. */
export async function settled(page) {
  await page.waitForSelector('main[aria-busy="false"]', { timeout: 60_000 });
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60)))),
  );
}
