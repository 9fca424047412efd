// The same captures as `hothouse browse`, by playwright-core with a browser that is kept: prints a time per page.
import { writeFileSync, mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';

const [url, rounds] = [process.argv[2], Number(process.argv[3])];
// How long the network must be quiet, as `browse` has it.
const QUIET = 120;
const browser = await chromium.launch({ executablePath: process.env.PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH, args: ['--disable-gpu', '--hide-scrollbars'] });
mkdirSync('/tmp/peer', { recursive: true });

async function capture() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  const page = await context.newPage();
  const report = { console: [], errors: [], failed: [], requests: [], dialogs: [], downloads: [] };
  let open = 0, last = Date.now();
  const noted = (change) => { open += change; last = Date.now(); };
  page.on('console', (line) => report.console.push({ level: line.type(), text: line.text(), at: line.location() }));
  page.on('pageerror', (error) => report.errors.push(error.stack));
  page.on('dialog', (dialog) => { report.dialogs.push(dialog.message()); dialog.dismiss(); });
  page.on('download', (file) => report.downloads.push(file.suggestedFilename()));
  page.on('request', () => noted(1));
  page.on('requestfinished', () => noted(-1));
  page.on('requestfailed', (request) => { noted(-1); report.failed.push(request.url()); });
  page.on('response', (response) => report.requests.push({ url: response.url(), status: response.status() }));
  const answer = await page.goto(url, { waitUntil: 'load' });
  while (open > 0 || Date.now() - last < QUIET) await new Promise((done) => setTimeout(done, open > 0 ? 5 : Math.max(1, QUIET - (Date.now() - last))));
  const [picture, tree, cookies, facts] = await Promise.all([
    page.screenshot(),
    page.locator('body').ariaSnapshot(),
    context.cookies(),
    page.evaluate(() => ({
      title: document.title, text: document.body.innerText,
      media: [...document.images].map((one) => ({ src: one.currentSrc, width: one.naturalWidth, height: one.naturalHeight })),
      local: { ...localStorage }, session: { ...sessionStorage },
      timing: performance.getEntriesByType('navigation').concat(performance.getEntriesByType('paint')).map((one) => one.toJSON()),
    })),
  ]);
  writeFileSync('/tmp/peer/page.png', picture);
  writeFileSync('/tmp/peer/result.json', JSON.stringify({ ...report, status: answer.status(), tree, cookies, ...facts }));
  await context.close();
  if (picture.length < 1000 || !facts.text.includes('Row 7')) throw new Error('the page is not there');
}

for (let round = 0; round < rounds; round += 1) {
  const begun = process.hrtime.bigint();
  await capture();
  console.log(Number(process.hrtime.bigint() - begun) / 1e6);
}
await browser.close();
