// Drives a real Chromium by its debugging protocol: `node browser.js PROFILE LINK APP_URL STEPS…`.
// Each step is an expression for the page; what it gives is printed, one JSON value a line. A step that begins with
// `until ` is asked again until it is true; one that begins with `go ` leads elsewhere.
const { spawn } = require('child_process'), fs = require('fs');
const [profile, ...steps] = process.argv.slice(2);
const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync',
  '--ignore-certificate-errors', '--no-proxy-server', '--remote-debugging-port=0', `--user-data-dir=${profile}`, 'about:blank'];
const chromium = spawn('chromium', flags, { stdio: 'ignore', env: { ...process.env, HOME: profile } });
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const end = (code) => { chromium.kill('SIGKILL'); process.exit(code); };
setTimeout(() => { console.log('"too slow"'); end(1); }, 60000);
(async () => {
  const file = `${profile}/DevToolsActivePort`;
  while (!fs.existsSync(file) || !fs.readFileSync(file, 'utf8').includes('\n')) await pause(20);
  const [port] = fs.readFileSync(file, 'utf8').split('\n');
  let page;
  while (!(page = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()).find((target) => target.type === 'page'))) await pause(20);
  const socket = new WebSocket(page.webSocketDebuggerUrl);
  await new Promise((done) => { socket.onopen = done; });
  let next = 0; const waiting = new Map();
  socket.onmessage = ({ data }) => { const { id, result, error } = JSON.parse(data); if (waiting.has(id)) waiting.get(id)(error ? { error } : result); };
  const call = (method, params = {}) => new Promise((done) => { waiting.set(++next, done); socket.send(JSON.stringify({ id: next, method, params })); });
  const value = async (expression) => (await call('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true })).result?.value;
  await call('Page.enable');
  for (const step of steps) {
    if (step.startsWith('go ')) {
      await call('Page.navigate', { url: step.slice(3) });
      while (await value('document.readyState') !== 'complete' || await value('location.href') === 'about:blank') await pause(20);
    } else if (step.startsWith('until ')) {
      while (!(await value(step.slice(6)))) await pause(50);
    } else console.log(JSON.stringify(await value(step)));
  }
  end(0);
})().catch((error) => { console.log(JSON.stringify(String(error))); end(1); });
