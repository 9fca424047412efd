import test from 'node:test';
import assert from 'node:assert/strict';
import Stripe from 'stripe';
import pino from 'pino';
import { createSessions } from '@acme/shared/sessions';
import { createQueue } from '@acme/shared/queue';
import { hashPassword } from '@acme/shared/password';
import { buildApi } from '../src/app.js';
import { FakeRedis } from '../../../packages/shared/test/support.js';

const config = {
  app: 'api', RELEASE: 'test', TRUST_PROXY: 'loopback', WEB_URL: 'https://shop.test', SESSION_TTL_SECONDS: 600, STRIPE_WEBHOOK_SECRET: 'whsec_test', UPLOAD_MAX_BYTES: 1000,
};
const password = await hashPassword('right-password', { N: 1024, r: 8, p: 1 });
const users = ['customer', 'support', 'admin'].map((role, i) => ({ id: i + 1, email: `${role}@shop.test`, name: role, role, password_hash: password, disabled_at: null }));
const product = { id: 5, slug: 'mug', name: 'Mug', price_cents: 900, stock: 3, weight_grams: 100, active: true, image: null, thumbnail: null, category_slug: 'table' };

async function setup({ down = false } = {}) {
  const redis = Object.assign(new FakeRedis(), { status: 'ready', ping: async () => 'PONG' });
  const writes = [];
  const db = {
    one: async (sql, values) => {
      if (/FROM users WHERE id/.test(sql)) return users.find((u) => u.id === values[0]) ?? null;
      if (/FROM users WHERE email/.test(sql)) return users.find((u) => u.email === values[0]) ?? null;
      if (/FROM products p .*p\.(slug|id) = /s.test(sql)) return values[0] === 'mug' || values[0] === 5 ? product : null;
      return null;
    },
    query: async (sql, values) => {
      if (/^(INSERT|UPDATE|DELETE)/.test(sql.trim())) writes.push(sql);
      return { rows: /FROM products WHERE id = ANY/.test(sql) ? [product].filter((p) => values[0].includes(p.id)) : [], rowCount: 0 };
    },
    transaction: async () => { throw new Error('no transaction expected'); },
    check: async () => { if (down) throw new Error('connect ECONNREFUSED 127.0.0.1:5432'); },
  };
  const sessions = createSessions({ redis, ttl: 600 });
  const app = await buildApi({
    config, db, redis, queue: createQueue({ redis }), log: pino({ level: 'silent' }), stripe: new Stripe('sk_test_x', { telemetry: false }),
    errors: { report() {} }, analytics: { capture() {}, flag: async () => false },
    storage: { put: async () => assert.fail('nothing must be stored') },
  });
  const as = async (userId) => {
    const session = await sessions.create({ userId });
    return (method, url, { csrf = session.csrf, ...options } = {}) =>
      app.inject({ method, url, ...options, headers: { cookie: `acme_sid=${session.id}`, ...(csrf ? { 'x-csrf-token': csrf } : {}), ...options.headers } });
  };
  return { app, as, writes, redis, sessions };
}

test('a new visitor gets a session in a cookie that scripts cannot read', async () => {
  const { app } = await setup();
  const answer = await app.inject('/v1/session');
  assert.equal(answer.statusCode, 200);
  assert.match(answer.headers['set-cookie'], /^acme_sid=[\w-]{43}; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
  assert.equal(answer.headers['x-content-type-options'], 'nosniff');
  assert.match(answer.headers['content-security-policy'], /default-src 'none'/);
});

test('nothing can be changed without the token of the session', async () => {
  const { app, as } = await setup();
  const call = await as(null);
  for (const csrf of [null, 'wrong']) {
    const answer = await call('POST', '/v1/cart/items', { csrf, payload: { slug: 'mug' } });
    assert.equal(answer.statusCode, 403);
    assert.equal(answer.json().error.code, 'csrf');
  }
  assert.equal((await app.inject({ method: 'POST', url: '/v1/logout' })).statusCode, 403);
});

test('a cart takes its price from the database and refuses odd quantities', async () => {
  const { as } = await setup();
  const call = await as(null);
  const added = await call('POST', '/v1/cart/items', { payload: { slug: 'mug', quantity: 2, price_cents: 1, unitPriceCents: 1 } });
  assert.equal(added.json().totals.totalCents, 1800);
  for (const quantity of [-1, 0, 1.5, 1e9, 'many', null, [1]]) {
    const answer = await call('POST', '/v1/cart/items', { payload: { slug: 'mug', quantity } });
    assert.ok([400, 409].includes(answer.statusCode) || (quantity === null && answer.statusCode === 200), `${quantity}: ${answer.statusCode}`);
  }
  assert.equal((await call('PUT', '/v1/cart/items/5', { payload: { quantity: -3 } })).statusCode, 400);
  assert.equal((await call('PUT', '/v1/cart/items/77', { payload: { quantity: 1 } })).statusCode, 404);
});

test('the back office is closed to visitors and customers, and partly to support', async () => {
  const { app, as, writes } = await setup();
  assert.equal((await app.inject('/v1/admin/orders')).statusCode, 401);
  assert.equal((await (await as(1))('GET', '/v1/admin/orders')).statusCode, 403);
  const support = await as(2);
  assert.equal((await support('GET', '/v1/admin/products/5')).statusCode, 200);
  for (const [method, url] of [['PUT', '/v1/admin/products/5'], ['PUT', '/v1/admin/users/1'], ['POST', '/v1/admin/orders/A-1/refund'], ['POST', '/v1/admin/settlements'], ['PUT', '/v1/admin/products/5/image']]) {
    assert.equal((await support(method, url, { payload: {} })).statusCode, 403, url);
  }
  assert.deepEqual(writes, []);
});

test('uploads: too large is 413, not an image is 415', async () => {
  const { as } = await setup();
  const admin = await as(3);
  const upload = (payload) => admin('PUT', '/v1/admin/products/5/image', { payload, headers: { 'content-type': 'image/png' } });
  assert.equal((await upload(Buffer.alloc(1001))).statusCode, 413);
  assert.equal((await upload(Buffer.from('<svg onload="alert(1)">'))).statusCode, 415);
});

test('login rotates the session, wrong ones are counted', async () => {
  const { app, sessions } = await setup();
  const before = await sessions.create({ cart: { 5: 1 } });
  const login = (body, session = before) => app.inject({ method: 'POST', url: '/v1/login', payload: body, headers: { cookie: `acme_sid=${session.id}`, 'x-csrf-token': session.csrf } });
  assert.equal((await login({ email: 'customer@shop.test', password: 'wrong' })).statusCode, 401);
  assert.equal((await login({ email: 'customer@shop.test', password: 'right-password', audience: 'staff' })).statusCode, 403);
  const good = await login({ email: ' Customer@shop.test', password: 'right-password' });
  assert.equal(good.statusCode, 200);
  assert.equal(good.json().user.password_hash, undefined);
  const id = /acme_sid=([^;]+)/.exec(good.headers['set-cookie'])[1];
  assert.notEqual(id, before.id);
  assert.equal(await sessions.read(before.id), null);
  assert.deepEqual((await sessions.read(id)).cart, { 5: 1 });
  const other = await sessions.create();
  let last;
  for (let i = 0; i < 11; i += 1) last = await login({ email: 'nobody@shop.test', password: 'x' }, other);
  assert.equal(last.statusCode, 429);
  assert.equal(last.headers['retry-after'], '42');
});

test('a webhook needs its signature, not a session', async () => {
  const { app, writes } = await setup();
  const answer = await app.inject({ method: 'POST', url: '/webhooks/stripe', payload: '{"id":"evt_1"}', headers: { 'content-type': 'application/json', 'stripe-signature': 't=1,v1=00' } });
  assert.equal(answer.statusCode, 400);
  assert.equal(answer.json().error.code, 'signature_invalid');
  assert.deepEqual(writes, []);
});

test('health says what is wrong', async () => {
  const up = await setup();
  assert.equal((await up.app.inject('/health')).statusCode, 200);
  const { app } = await setup({ down: true });
  const answer = await app.inject('/health');
  assert.equal(answer.statusCode, 503);
  assert.deepEqual(answer.json().checks, { database: { ok: false, reason: 'connect ECONNREFUSED 127.0.0.1:5432' }, redis: { ok: true } });
});
