import test from 'node:test';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { checkApps, loadConfig, rules } from '@acme/shared/config';
import { EnvironmentError } from '@acme/shared/env';
import { planMigrations, readMigrations } from '@acme/shared/migrate';
import { storageOrigins } from '@acme/shared/storage-origins';
import { createAnalytics } from '@acme/shared/integrations/analytics';

const exampleFile = fileURLToPath(new URL('../../../.env.example', import.meta.url));
const example = Object.fromEntries(
  readFileSync(exampleFile, 'utf8').split('\n').filter((line) => /^[A-Z]/.test(line)).map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
);

test('the example environment is complete and valid for every app', () => {
  for (const app of Object.keys(rules)) assert.doesNotThrow(() => loadConfig(app, example), app);
  const documented = new Set(Object.keys(example));
  const read = new Set(Object.values(rules).flatMap((r) => Object.keys(r)));
  assert.deepEqual([...read].filter((name) => !documented.has(name)), [], 'read but not documented');
  assert.deepEqual([...documented].filter((name) => !read.has(name)), [], 'documented but not read');
});

test('everything that is missing is named at once', () => {
  assert.throws(() => loadConfig('api', {}), (error) => {
    assert.ok(error instanceof EnvironmentError);
    assert.deepEqual(error.problems.map((p) => p.name).sort(), [
      'ANTHROPIC_API_KEY', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'DATABASE_URL', 'REDIS_URL', 'S3_BUCKET', 'SHIPPO_API_TOKEN',
      'STRIPE_SECRET_KEY', 'STRIPE_WEBHOOK_SECRET', 'TAXJAR_API_KEY',
    ]);
    for (const { name } of error.problems) assert.match(error.message, new RegExp(`${name} +is missing`));
    return true;
  });
});

test('what is malformed is named with what is expected', () => {
  const env = { ...example, DATABASE_URL: 'mysql://x/y', REDIS_URL: 'localhost:6379', API_PORT: '70000', STRIPE_SECRET_KEY: 'pk_test_1', WEB_URL: 'shop', S3_FORCE_PATH_STYLE: 'maybe', SENTRY_DSN: 'https://sentry.io', LOG_LEVEL: 'loud' };
  assert.throws(() => loadConfig('api', env), (error) => {
    assert.equal(error.problems.length, 8);
    assert.match(error.message, /DATABASE_URL +must be a URL like postgres:/);
    assert.match(error.message, /API_PORT +must be a port number/);
    assert.match(error.message, /STRIPE_SECRET_KEY +must be a key that begins with sk_ or rk_/);
    return true;
  });
  assert.doesNotMatch((() => { try { loadConfig('api', env); } catch (e) { return e.message; } })(), /pk_test_1/, 'values are not printed');
});

test('one message for all apps together', () => {
  assert.throws(() => checkApps(['api', 'worker', 'web', 'admin'], {}), (error) => {
    const names = error.problems.map((p) => p.name);
    assert.equal(new Set(names).size, names.length);
    assert.ok(names.includes('SMTP_PASSWORD') && names.includes('STRIPE_SECRET_KEY'));
    return true;
  });
});

test('an app without its environment ends with code 1 and one message', () => {
  const main = fileURLToPath(new URL('../../../apps/worker/src/main.js', import.meta.url));
  const empty = Object.fromEntries(Object.keys(example).map((name) => [name, '']));
  const result = spawnSync(process.execPath, ['--no-warnings', main], { env: { PATH: process.env.PATH, ...empty }, encoding: 'utf8' });
  assert.equal(result.status, 1);
  assert.match(result.stderr, /^worker: 7 environment variables are missing or malformed:/);
  assert.match(result.stderr, /SMTP_USER +is missing/);
  assert.doesNotMatch(result.stderr, /\n +at /, 'no stack trace');
});

test('PORT wins over the port of the app, and vendors have their real hosts', () => {
  const config = loadConfig('api', { ...example, PORT: '4567', STRIPE_API_URL: '', POSTHOG_HOST: '', SHIPPO_API_URL: '', TAXJAR_API_URL: '', ANTHROPIC_BASE_URL: '' });
  assert.equal(config.PORT, 4567);
  assert.deepEqual(
    [config.STRIPE_API_URL, config.POSTHOG_HOST, config.SHIPPO_API_URL, config.TAXJAR_API_URL, config.ANTHROPIC_BASE_URL],
    ['https://api.stripe.com', 'https://us.i.posthog.com', 'https://api.goshippo.com', 'https://api.taxjar.com', 'https://api.anthropic.com'],
  );
  assert.equal(loadConfig('worker', { ...example, SMTP_HOST: '' }).SMTP_HOST, 'smtp.postmarkapp.com');
  assert.deepEqual(storageOrigins(loadConfig('web', example)), ['https://acme-goods.s3.us-east-1.amazonaws.com', 'https://s3.us-east-1.amazonaws.com']);
});

test('migrations go forward only', async () => {
  const files = await readMigrations();
  assert.deepEqual(files.map((f) => f.name), files.map((f) => f.name).toSorted());
  assert.equal(planMigrations(files, []).length, files.length);
  assert.deepEqual(planMigrations(files, files), []);
  assert.throws(() => planMigrations(files, [{ name: files[0].name, checksum: 'other' }]), /was changed after it was applied/);
  assert.throws(() => planMigrations(files, [{ name: '0000_gone.sql', checksum: 'x' }]), /its file is gone/);
});

test('a flag that does not answer in time has its default, and is not asked for again at once', async () => {
  let asked = 0;
  const client = { capture() { throw new Error('down'); }, isFeatureEnabled: () => { asked += 1; return Promise.reject(new Error('down')); }, shutdown: async () => {} };
  const analytics = createAnalytics({ app: 't' }, null, { client });
  assert.equal(await analytics.flag('x', 'visitor'), false);
  assert.equal(await analytics.flag('x', 'visitor', true), true);
  assert.equal(asked, 1);
  assert.doesNotThrow(() => analytics.capture('Event', 'visitor'));
});

test('a flag is cached for the visitor', async () => {
  let asked = 0;
  const clock = { now: 0 };
  const client = { isFeatureEnabled: async () => { asked += 1; return true; }, shutdown: async () => {} };
  const analytics = createAnalytics({ app: 't' }, null, { client, now: () => clock.now });
  assert.equal(await analytics.flag('x', 'v'), true);
  assert.equal(await analytics.flag('x', 'v'), true);
  assert.equal(asked, 1);
  clock.now = 31_000;
  await analytics.flag('x', 'v');
  assert.equal(asked, 2);
});
