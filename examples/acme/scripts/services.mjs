/**
 * `npm run services`: a PostgreSQL and a Redis for this checkout only, with
 * their data in `.services/`. Ctrl-C stops both. `--fresh` begins with empty
 * data. The ports come from SERVICES_PG_PORT and SERVICES_REDIS_PORT.
 */
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { once } from 'node:events';

const root = fileURLToPath(new URL('../.services', import.meta.url));
const pgPort = Number(process.env.SERVICES_PG_PORT ?? 54329);
const redisPort = Number(process.env.SERVICES_REDIS_PORT ?? 63799);
const say = (text) => process.stdout.write(`${text}\n`);
const fail = (text) => {
  process.stderr.write(`services: ${text}\n`);
  process.exit(1);
};

function onPath(name) {
  return (process.env.PATH ?? '').split(':').map((folder) => join(folder, name)).find((file) => existsSync(file));
}

function findPostgres() {
  const base = '/usr/lib/postgresql';
  const versions = existsSync(base) ? readdirSync(base).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = versions.map((version) => join(base, version, 'bin'));
  const initdb = onPath('initdb');
  if (initdb) folders.push(join(initdb, '..'));
  return folders.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')));
}

const pgBin = findPostgres();
const redisServer = onPath('redis-server');
const missing = [...(pgBin ? [] : ['postgresql']), ...(redisServer ? [] : ['redis-server'])];
if (missing.length) fail(`not installed: ${missing.join(' and ')}. On Debian and Ubuntu: apt-get install ${missing.join(' ')}`);

/** PostgreSQL refuses to run as root, so another user runs it then. */
function unprivilegedUser() {
  if (process.getuid() !== 0) return null;
  for (const name of ['postgres', 'nobody']) {
    const ids = ['-u', '-g'].map((flag) => spawnSync('id', [flag, name], { encoding: 'utf8' }));
    if (ids.every((result) => result.status === 0)) return { name, uid: Number(ids[0].stdout), gid: Number(ids[1].stdout) };
  }
  return fail('this runs as root and there is neither a user "postgres" nor "nobody" to run PostgreSQL as');
}
const user = unprivilegedUser();
const asUser = user ? { uid: user.uid, gid: user.gid } : {};

if (process.argv.includes('--fresh')) rmSync(root, { recursive: true, force: true });
const data = join(root, 'postgres');
const sockets = join(root, 'run');
for (const folder of [root, data, sockets, join(root, 'redis')]) mkdirSync(folder, { recursive: true });
chmodSync(root, 0o755);
if (user) for (const folder of [data, sockets]) chownSync(folder, user.uid, user.gid);
chmodSync(data, 0o700);
if (user && spawnSync('test', ['-w', data], asUser).status !== 0) {
  fail(`the user "${user.name}" cannot reach ${data}; run this as an ordinary user, or open the folders above it`);
}

function portFree(port) {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('connect', () => { socket.destroy(); resolve(false); });
    socket.once('error', () => resolve(true));
  });
}
for (const [name, port, variable] of [['PostgreSQL', pgPort, 'SERVICES_PG_PORT'], ['Redis', redisPort, 'SERVICES_REDIS_PORT']]) {
  if (!(await portFree(port))) fail(`port ${port} for ${name} is in use; stop what uses it or set ${variable}`);
}

const run = (command, args, options = {}) => {
  const result = spawnSync(command, args, { encoding: 'utf8', cwd: '/', ...asUser, ...options });
  if (result.status !== 0) fail(`${command} failed:\n${result.stderr || result.stdout || result.error?.message}`);
  return result.stdout;
};

if (!existsSync(join(data, 'PG_VERSION')) || statSync(join(data, 'PG_VERSION')).size === 0) {
  say('preparing an empty database');
  run(join(pgBin, 'initdb'), ['-D', data, '-U', 'acme', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync']);
}

const children = [];
function start(name, command, args, options = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: '/', ...options });
  let tail = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => { tail = (tail + chunk).slice(-4000); });
  child.on('exit', (code) => {
    if (stopping) return;
    process.stderr.write(`services: ${name} ended with code ${code}:\n${tail}\n`);
    stop(1);
  });
  children.push({ child, name });
  return child;
}

let stopping = false;
async function stop(code = 0) {
  if (stopping) return;
  stopping = true;
  await Promise.all(children.map(async ({ child, name }) => {
    if (child.exitCode !== null || child.signalCode) return;
    child.kill(name === 'PostgreSQL' ? 'SIGINT' : 'SIGTERM');
    await once(child, 'exit');
  }));
  process.exit(code);
}
process.on('SIGINT', () => stop());
process.on('SIGTERM', () => stop());

start('PostgreSQL', join(pgBin, 'postgres'), ['-D', data, '-p', String(pgPort), '-k', sockets, '-c', 'listen_addresses=127.0.0.1', '-c', 'fsync=off', '-c', 'max_connections=60'], asUser);
start('Redis', redisServer, ['--port', String(redisPort), '--bind', '127.0.0.1', '--dir', join(root, 'redis'), '--appendonly', 'yes', '--save', '']);

async function until(what, check) {
  const deadline = Date.now() + 20_000;
  while (Date.now() < deadline && !stopping) {
    if (await check()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  if (!stopping) {
    process.stderr.write(`services: ${what} did not become ready\n`);
    await stop(1);
  }
}
const psql = (args) => spawnSync(join(pgBin, 'psql'), ['-h', '127.0.0.1', '-p', String(pgPort), '-U', 'acme', '-XAtq', ...args], { encoding: 'utf8', cwd: '/' });
await until('PostgreSQL', () => psql(['-d', 'postgres', '-c', 'select 1']).status === 0);
if (!psql(['-d', 'postgres', '-c', "select 1 from pg_database where datname = 'acme'"]).stdout.trim()) psql(['-d', 'postgres', '-c', 'create database acme']);
await until('Redis', async () => !(await portFree(redisPort)));

if (!stopping) {
  say(`DATABASE_URL=postgres://acme@127.0.0.1:${pgPort}/acme`);
  say(`REDIS_URL=redis://127.0.0.1:${redisPort}`);
  say('ready; Ctrl-C stops both');
}
