// Looks at a hostile terminal in Chromium, by Playwright, then types into a shell. Prints what went wrong, a line each.
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const [link, app, scheme, width] = process.argv.slice(2);
const axe = readFileSync('node_modules/axe-core/axe.min.js', 'utf8');
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
const context = await browser.newContext({ ignoreHTTPSErrors: true, colorScheme: scheme, viewport: { width: Number(width), height: 900 } });
context.setDefaultTimeout(10000);
const page = await context.newPage();
const problem = (text) => console.log(`PROBLEM ${new URL(page.url()).pathname}: ${text}`);
page.on('dialog', (dialog) => { problem(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
page.on('console', (message) => { if (message.type() === 'error') problem(message.text()); });
page.on('pageerror', (error) => problem(String(error)));
context.on('page', (other) => problem(`opened ${other.url()}`));
page.on('request', (request) => { if (!new URL(request.url()).hostname.endsWith('.hothouse.localhost')) problem(`asks ${request.url()}`); });

await page.goto(link);
const { origin, pathname: sandbox } = new URL(page.url());
await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin });
const shown = () => page.locator('.xterm-rows').innerText();
const until = async (what, holds) => {
  for (let turn = 0; turn < 600; turn++) {
    if (await holds()) return;
    await page.waitForTimeout(50);
  }
  problem(`never: ${what}; the terminal shows ${JSON.stringify(await shown())}`);
};

// The agent's terminal: read-only, and nothing that it writes leaves it.
await page.goto(`${origin}${sandbox}/terminal`);
await page.evaluate(() => navigator.clipboard.writeText('mine'));
await until('the end of the output', async () => (await shown()).includes('the end'));
if (await page.title() !== 'Terminal · a · Hothouse') problem(`title ${await page.title()}`);
if (await page.evaluate(() => navigator.clipboard.readText()) !== 'mine') problem('the clipboard was written');
const links = await page.locator('.xterm-rows a, .xterm-rows [href], .xterm-rows script, .xterm-rows img').count();
if (links > 0) problem('there is markup in the terminal');
const place = await page.locator('.xterm-rows > div', { hasText: 'click' }).last().boundingBox();
await page.mouse.click(place.x + 20, place.y + place.height / 2);
await page.keyboard.down('Control');
await page.mouse.click(place.x + 20, place.y + place.height / 2);
await page.keyboard.up('Control');
await page.keyboard.type('xyzzy');
await page.keyboard.press('Enter');
const found = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations.map((v) => v.impact + ' ' + v.id + ': ' + v.nodes[0].html.slice(0, 150)))`);
for (const one of found) if (/^(serious|critical)/.test(one)) problem(one);
if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1)) problem('is wider than the window');
console.log('AGENT', await page.locator('#terminal-state').innerText());

// By the WebSocket itself: another token hears nothing; bytes before the click are not typed.
const talk = (token, typed) => page.evaluate(async ([token, typed]) => {
  const { sandbox, exec } = document.getElementById('terminal').dataset;
  const socket = new WebSocket(`wss://${location.host}/terminal?sandbox=${encodeURIComponent(sandbox)}&exec=${encodeURIComponent(exec)}`);
  socket.binaryType = 'arraybuffer';
  let heard = '';
  return new Promise((done) => {
    socket.onopen = () => { socket.send(JSON.stringify({ hello: { token: token ?? document.getElementById('terminal').dataset.token } })); socket.send(new TextEncoder().encode(typed)); };
    socket.onmessage = ({ data }) => { heard += typeof data === 'string' ? data : new TextDecoder().decode(data); };
    socket.onclose = () => done(`closed ${heard}`);
    setTimeout(() => done(`open ${heard}`), 1500);
  });
}, [token, typed]);
console.log('STRANGER', await talk('00', 'echo stranger\n'));

// A shell: the first click types, the key lets go.
await page.getByRole('button', { name: 'Open a shell' }).click();
await page.waitForURL('**/terminal/page-*');
await until('a prompt', async () => /[$#] ?/.test(await shown()));
await talk(null, 'echo un$((1+1))clicked\n');
await page.locator('.xterm-helper-textarea').focus();
await page.keyboard.type('echo un$((1+1))pressed\n');
await page.getByRole('button', { name: 'Type here' }).click();
await until('typing', async () => (await page.locator('#terminal-state').innerText()).startsWith('You are typing'));
await page.keyboard.type('echo ty$((40+2))ped\n');
await until('what was typed', async () => (await shown()).includes('ty42ped'));
await page.keyboard.type('head -c 3000000 /dev/zero | tr "\\0" x; yes | head -n 50000; echo; echo la$((1+1))st\n');
await until('the end of a flood', async () => (await shown()).includes('la2st'));
const rows = await page.evaluate(() => document.querySelectorAll('.xterm-rows > div').length);
if (rows > 500) problem(`${rows} rows`);
const text = await shown();
if (/un2(clicked|pressed)/.test(text)) problem('something was typed before the click');
await page.keyboard.press('Control+]');
await until('looking', async () => (await page.locator('#terminal-state').innerText()) === 'Read-only.');
console.log('TYPED', 'ok');
await page.getByRole('button', { name: 'Close this shell' }).click();
await page.waitForURL('**/terminal');
console.log('CLOSED', 'ok');

// Another site cannot open one.
page.removeAllListeners('console');
page.removeAllListeners('request');
await page.goto(app);
const foreign = await page.evaluate((to) => new Promise((done) => {
  const socket = new WebSocket(to);
  socket.onopen = () => done('opened');
  socket.onerror = () => done('refused');
}), `${origin.replace('https', 'wss')}/terminal?sandbox=a&exec=b`);
console.log('FOREIGN', foreign);
await browser.close();
