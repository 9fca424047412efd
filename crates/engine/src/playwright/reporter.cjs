// Loaded by Playwright's test runner in a room (`PW_TEST_REPORTER`): the room's Chromium stands where the runner
// looks for its own, and results go to the timeline. Whatever fails here fails no test.
'use strict';
const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');

const SOCKET = '/run/hothouse/api.sock';
const BATCH = 50;
const TEXT = 4000;

const quietly = (work) => { try { return work(); } catch { return undefined; } };

/** Lets Playwright of this project find the room's browser where it would have downloaded its own. */
function lendBrowser(folders) {
  const browser = process.env.PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH;
  if (!browser || !fs.existsSync(browser)) return;
  const found = quietly(() => require.resolve('playwright-core', { paths: folders }));
  const wanted = found && quietly(() => require(found).chromium.executablePath());
  const parts = wanted && /^(.*\/)chromium-(\d+)\/(.+)$/.exec(wanted);
  // Only in a cache of the user, never in a project.
  const caches = [os.homedir(), process.env.XDG_CACHE_HOME, process.env.PLAYWRIGHT_BROWSERS_PATH].filter((one) => one && path.isAbsolute(one));
  if (!parts || !caches.some((one) => parts[1].startsWith(one.replace(/\/*$/, '/')))) return;
  const [, registry, revision, file] = parts;
  const shell = `${registry}chromium_headless_shell-${revision}/`;
  const machine = process.arch === 'arm64' ? 'linux-arm64' : 'linux64';
  for (const place of [
    wanted,
    `${registry}chromium-${revision}/chrome-linux/chrome`,
    `${shell}${path.dirname(file)}/headless_shell`,
    `${shell}chrome-linux/headless_shell`,
    `${shell}chrome-headless-shell-${machine}/chrome-headless-shell`,
  ]) {
    quietly(() => {
      fs.mkdirSync(path.dirname(place), { recursive: true });
      fs.symlinkSync(browser, place);
    });
  }
  process.env.PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS = '1';
}

function send(tests) {
  const body = JSON.stringify({ runner: 'playwright', tests });
  return new Promise((done) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), host: 'hothouse' };
    const request = http.request({ socketPath: SOCKET, method: 'POST', path: '/v1/timeline/tests', headers, timeout: 10000 }, (answer) => {
      answer.resume();
      answer.on('close', done);
    });
    request.on('error', done);
    request.on('timeout', () => request.destroy());
    request.end(body);
  });
}

const cut = (text) => String(text ?? '').slice(0, TEXT);
// eslint-disable-next-line no-control-regex
const plain = (text) => cut(text).replace(/\u001b\[[0-9;]*m/g, '');

class Reporter {
  constructor() {
    this.tests = [];
    this.sent = Promise.resolve();
    quietly(() => lendBrowser([process.cwd(), path.dirname(process.argv[1] ?? '.')]));
  }

  printsToStdio() { return false; }

  onBegin(config) { this.root = config.rootDir; }

  onTestEnd(test, result) {
    quietly(() => {
      const [, project, ...titles] = test.titlePath();
      this.tests.push({
        project: cut(project), file: path.relative(process.cwd(), test.location.file), line: test.location.line,
        title: cut(titles.slice(1).join(' › ')), status: result.status, expected: test.expectedStatus, outcome: test.outcome(),
        retry: result.retry, duration_ms: Math.round(result.duration),
        error: result.error ? plain(result.error.message ?? result.error.value) : null,
        files: result.attachments.filter((one) => one.path).slice(0, 20).map((one) => ({ name: cut(one.name), type: cut(one.contentType), path: one.path })),
      });
      if (this.tests.length >= BATCH) this.flush();
    });
  }

  flush() {
    const tests = this.tests.splice(0);
    if (tests.length > 0) this.sent = this.sent.then(() => send(tests));
    return this.sent;
  }

  async onEnd() { await this.flush(); }

  async onExit() { await this.flush(); }
}

module.exports = Reporter;
