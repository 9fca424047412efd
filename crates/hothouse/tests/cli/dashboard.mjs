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

// Another page that is open follows what happens in the inbox.
const watching = await page.context().newPage();
await watching.goto(origin);
await watching.locator('#waiting').waitFor();
console.log('SIGN', await watching.locator('[id^=asks-]').innerText());
await page.goto(`${origin}/inbox`);
await page.locator('input[name=text][id^=text]').fill('go ahead');
const answered = await page.locator('form.answer input[type=hidden]').evaluateAll((inputs) => inputs.map((input) => [input.name, input.value]));
await page.locator('button[value=grant]').click();
await page.getByText('Allowed; the agent is told.').waitFor();
console.log('ASKS', await page.locator('button[value=grant]').count());
await watching.locator('#waiting').waitFor({ state: 'hidden' });
console.log('BADGE ok');
await watching.close();
// An answer that comes too late is refused where it was given.
await page.evaluate((fields) => {
  const form = Object.assign(document.createElement('form'), { method: 'post', action: '/act' });
  for (const [name, value] of [...fields, ['do', 'refuse']]) form.append(Object.assign(document.createElement('input'), { name, value }));
  document.body.append(form);
  form.submit();
}, answered);
console.log('LATE', await page.locator('.failure').innerText());

await page.goto(`${origin}${sandbox}/webhooks`);
const before = await page.locator('table.records tbody tr').count();
await page.locator('button[value=resend]').first().click();
await page.waitForFunction((count) => document.querySelectorAll('table.records tbody tr').length > count, before);
console.log('RESENT', 'ok');

// A snapshot is forked by its button, once for each name.
const fork = async () => {
  await page.goto(`${origin}${sandbox}/snapshots`);
  await page.locator('.fork input[name=name]').first().fill(`fork-${width}`);
  await page.locator('button[value=fork]').first().click();
  await page.waitForLoadState();
};
await fork();
await page.waitForURL((url) => !url.pathname.startsWith(sandbox));
console.log('FORKED', (await page.locator('h1').innerText()).replaceAll('\n', ' '));
await fork();
console.log('TWICE', (await page.locator('.failure').innerText()).replaceAll('\n', ' '));

// Results of scenarios are shown whoever ran them, and a long log has the height of the window.
await page.goto(`${origin}${sandbox}/scenarios`);
console.log('RAN', await page.locator('.checks li').count() > 0 ? 'ok' : await page.locator('main').innerText());
await page.goto(`${origin}${sandbox}/log/web`);
console.log('LOG', (await page.locator('.long').boundingBox()).height > 500 ? 'ok' : 'low');

// Lines of a mail end with CR LF, which is one line break.
await page.goto(`${origin}${sandbox}/mail`);
await page.locator('table.records td.name a').first().click();
console.log('LINES', (await page.locator('pre.log').first().innerText()).includes('\ufffd') ? 'broken' : 'ok');

// A fixture for a call that none matched is written into the worktree, once.
const unmatched = `${origin}${sandbox}/requests?q=${encodeURIComponent('matched=false')}`;
const makeFixture = async () => {
  await page.goto(unmatched);
  await page.locator('table.records td.name a').first().click();
  await page.locator('button[value=fixture]').click();
  await page.waitForURL(`**${sandbox}/changes`);
  return page.locator('main').innerText();
};
const made = await makeFixture();
console.log('FIXTURE', made.includes('hothouse/fixtures/ship/') ? 'ok' : made);
console.log('AGAIN', (await makeFixture()).includes('it is there already') ? 'refused' : 'written again');

// An update of the page takes neither the focus nor an open question away.
await page.addInitScript(() => {
  const Source = window.EventSource;
  window.heard = 0;
  window.EventSource = class extends Source {
    constructor(url) { super(url); this.addEventListener('message', () => { window.heard += 1; }); }
  };
});
await page.goto(`${origin}${sandbox}/network`);
await page.waitForFunction(() => window.heard > 0);
const other = await page.context().newPage();
const change = async () => {
  const heard = await page.evaluate(() => window.heard);
  await other.goto(`${origin}${sandbox}/webhooks`);
  await other.locator('button[value=resend]').first().click();
  await page.waitForFunction((before) => window.heard > before, heard);
};
const here = page.locator('.sections a', { hasText: 'Models' });
await here.focus();
await change();
console.log('FOCUS', await page.evaluate(() => document.activeElement.textContent.startsWith('Models')) ? 'kept' : 'lost');
await page.locator('button[value=allow]').first().click();
await page.locator('#sure[open]').waitFor();
await change();
const acted = page.waitForResponse('**/act');
const loaded = page.waitForEvent('load');
await page.keyboard.press('Tab');
await page.locator('#sure-yes').click();
console.log('SURE', (await acted).status());
await loaded;

// What a page tries against its policy is reported.
page.removeAllListeners('console');
await page.goto(`${origin}/inbox`);
const reported = page.waitForResponse('**/policy-report');
await page.evaluate(() => { const script = document.createElement('script'); script.textContent = 'alert(12)'; document.body.append(script); });
console.log('REPORTED', (await reported).status());
await browser.close();
