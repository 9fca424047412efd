// Opens pages of the dashboard in Chromium, by Playwright, and prints what is wrong with them, a line each.
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const axe = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');

export const open = async (link, scheme, width) => {
  const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
  const context = await browser.newContext({ ignoreHTTPSErrors: true, colorScheme: scheme, viewport: { width: Number(width), height: 900 } });
  const page = await context.newPage();
  const problem = (text) => console.log(`PROBLEM ${new URL(page.url()).pathname}: ${text}`);
  page.on('dialog', (dialog) => { problem(`a script ran: ${dialog.message()}`); dialog.dismiss(); });
  page.on('console', (message) => { if (message.type() === 'error') problem(message.text()); });
  page.on('response', (response) => { if (response.status() >= 400) problem(`${response.status()} of ${response.url()}`); });
  page.on('pageerror', (error) => problem(String(error)));
  page.on('request', (request) => { if (!new URL(request.url()).hostname.endsWith('.hothouse.localhost')) problem(`asks ${request.url()}`); });
  await page.goto(link);
  const { origin, pathname: sandbox } = new URL(page.url());
  // A page must answer, be live, fit its window and have no serious fault that axe finds.
  const look = async (path) => {
    const answer = await page.goto(origin + path);
    if (answer.status() !== 200) problem(`status ${answer.status()}`);
    await page.waitForFunction(() => !document.querySelector('main[data-at]') || document.getElementById('live').textContent === 'live');
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
    if (wide) problem('is wider than the window');
    // On a phone the sections are one line, and nothing that can be pressed is beyond the edge.
    const { beyond, high } = await page.evaluate(() => {
      const outside = (button) => { const at = button.getBoundingClientRect(); return at.width > 0 && (at.right > innerWidth + 1 || at.left < 0); };
      const beyond = [...document.querySelectorAll('main button')].filter(outside).map((button) => button.textContent);
      return { beyond, high: document.querySelector('.sections')?.getBoundingClientRect().height ?? 0 };
    });
    if (beyond.length) problem(`beyond the edge: ${beyond.join(', ')}`);
    if (Number(width) < 500 && high > 60) problem(`sections take ${high} pixels`);
    const found = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.impact + ' ' + v.id + ': ' + v.nodes[0].html.slice(0, 150)))`);
    for (const one of found) if (/^(serious|critical)/.test(one)) problem(one);
  };
  return { browser, page, origin, sandbox, look, problem };
};
