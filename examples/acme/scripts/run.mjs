/** `npm start` and `npm run dev`: all four apps in one terminal. */
import '@acme/shared/load-env';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { checkApps } from '@acme/shared/config';
import { EnvironmentError } from '@acme/shared/env';

const APPS = { api: 36, worker: 35, web: 32, admin: 33 };
const watch = process.argv.includes('--watch');
const colour = process.stdout.isTTY && !process.env.NO_COLOR;
const env = { ...process.env };
delete env.PORT; // every app has its own port here

try {
  checkApps(Object.keys(APPS), env);
} catch (error) {
  if (!(error instanceof EnvironmentError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}

const root = fileURLToPath(new URL('..', import.meta.url));
const children = new Map();
let code = 0;

function stop() {
  for (const child of children.values()) child.kill('SIGTERM');
}

for (const [name, shade] of Object.entries(APPS)) {
  const child = spawn(process.execPath, [...(watch ? ['--watch', '--watch-preserve-output'] : []), `apps/${name}/src/main.js`], {
    cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.set(name, child);
  const label = colour ? `\u001b[${shade}m${name.padEnd(6)}\u001b[0m` : name.padEnd(6);
  for (const stream of ['stdout', 'stderr']) {
    createInterface({ input: child[stream] }).on('line', (line) => process[stream].write(`${label} ${line}\n`));
  }
  child.on('exit', (status, signal) => {
    children.delete(name);
    if (status) {
      code = status;
      process.stderr.write(`${name} ended with code ${status}; stopping the others\n`);
      stop();
    } else if (signal && signal !== 'SIGTERM' && signal !== 'SIGINT') {
      code = 1;
      stop();
    }
    if (children.size === 0) process.exit(code);
  });
}
process.on('SIGINT', stop);
process.on('SIGTERM', stop);
