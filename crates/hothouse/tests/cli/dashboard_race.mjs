// Looks at a race in Chromium, by Playwright: its sides, their checks and their comparison.
import { open } from './page.mjs';

const [link, scheme, width] = process.argv.slice(2);
const { browser, page, origin, look } = await open(link, scheme, width);
await look('/races');
const rows = page.locator('table.records tbody tr');
for (const row of await rows.all()) console.log('SIDE', (await row.innerText()).replace(/\s+/g, ' '));
for (const summary of await page.locator('details.caveats summary').all()) await summary.click();
for (const check of await page.locator('ul.checks li').all()) console.log('CHECK', await check.getAttribute('class'), await check.innerText());
const compare = await page.getByRole('link', { name: 'Compare the sides' }).getAttribute('href');
await look(compare);
console.log('COMPARED', (await page.locator('main').innerText()).replace(/\s+/g, ' '));
await page.goto(`${origin}/races`);
await rows.first().getByRole('link').first().click();
await page.waitForURL('**/sandbox/*');
console.log('OPENED', (await page.locator('h1').innerText()).replace(/\s+/g, ' '));
await browser.close();
