// Opens every page of the dashboard in Chromium, by Playwright, with hostile text in every field. Prints what went wrong,
// a line each, and at the end what the buttons did.
import { open } from './page.mjs';

const [link, scheme, width] = process.argv.slice(2);
const { browser, page, origin, sandbox, look } = await open(link, scheme, width);
const pages = ['data', 'summary', 'terminal', 'log/web'];
const sections = ['timeline', 'mail', 'errors', 'events', 'requests', 'webhooks', 'objects', 'flags', 'models', 'traces', 'network', 'browser', 'queue', 'agents', 'scenarios', 'snapshots', 'changes', ...pages];
const sides = ['shop/a', 'shop/b'].map((side) => `side=${encodeURIComponent(side)}`).join('&');
for (const path of ['/', '/inbox', '/runs', '/races', '/compare', `/compare?${sides}`, sandbox, ...sections.map((word) => `${sandbox}/${word}`)]) {
  await look(path);
  const record = path.startsWith(`${sandbox}/`) && await page.locator('table.records td.name a').first().getAttribute('href', { timeout: 200 }).catch(() => null);
  if (record) await look(record);
}
const frame = async () => {
  await page.goto(`${origin}${sandbox}/mail`);
  await page.locator('table.records td.name a').first().click();
  const inner = page.frameLocator('iframe').locator('body');
  return inner.innerText();
};
console.log('MAIL', JSON.stringify(await frame()));

// The rows of a table, page by page.
await page.goto(`${origin}${sandbox}/data`);
await page.locator('table.records td.name a').first().click();
await page.locator('#rows').waitFor();
await look(new URL(page.url()).pathname + new URL(page.url()).search);
await page.getByRole('link', { name: 'Next' }).click();
await page.waitForURL('**from=50*');
console.log('ROWS', (await page.locator('#rows h2 small').innerText()).replace('rows ', ''));
await page.goto(`${origin}/compare?${sides}`);
const mails = await page.locator('.beside iframe').count();
console.log('COMPARED', mails === 2 ? 1 : `${mails} frames`);

// By keys alone.
await page.goto(origin);
await page.keyboard.press('Control+k');
await page.locator('#palette-list li').first().waitFor();
await page.keyboard.type('mail');
await page.keyboard.press('Enter');
await page.waitForURL(`**${sandbox}/mail`);
await page.keyboard.press('j');
await page.keyboard.press('Enter');
await page.waitForURL(`**${sandbox}/mail/*`);
console.log('KEYS', 'ok');

await page.goto(`${origin}${sandbox}/flags`);
await page.locator('button[value=flag]').first().click();
await page.getByText('pinned').first().waitFor();
console.log('FLAG', await page.locator('tr', { hasText: 'new-checkout' }).first().locator('td').nth(1).innerText());

await page.goto(`${origin}/inbox`);
await page.locator('input[name=text][id^=text]').fill('go ahead');
await page.locator('button[value=grant]').click();
await page.waitForURL('**/inbox');
console.log('ASKS', await page.locator('button[value=grant]').count());

await page.goto(`${origin}${sandbox}/webhooks`);
const before = await page.locator('table.records tbody tr').count();
await page.locator('button[value=resend]').first().click();
await page.waitForFunction((count) => document.querySelectorAll('table.records tbody tr').length > count, before);
console.log('RESENT', 'ok');

// What a page tries against its policy is reported.
page.removeAllListeners('console');
await page.goto(`${origin}/inbox`);
const reported = page.waitForResponse('**/policy-report');
await page.evaluate(() => { const script = document.createElement('script'); script.textContent = 'alert(12)'; document.body.append(script); });
console.log('REPORTED', (await reported).status());
await browser.close();
