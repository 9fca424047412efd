import test from 'node:test';
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import pino from 'pino';
import { buildAdmin } from '../src/app.js';

const product = { id: 1, slug: 'mug', name: 'Mug "</textarea>', tagline: '', description: '</textarea><script>', category: 'table', priceCents: 900, stock: 1, image: null, thumbnail: null, active: true };

async function setup(t, role, answers = {}) {
  const calls = [];
  const api = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const path = request.url.split('?')[0];
    calls.push({ method: request.method, path, body: Buffer.concat(chunks), headers: request.headers });
    const session = { user: role ? { id: 9, name: 'Alex', role } : null, csrfToken: 'token', visitor: 'v', cartCount: 0, flags: {} };
    const [status, data] = path === '/v1/session' ? [200, session] : (answers[`${request.method} ${path}`] ?? [404, { error: { code: 'not_found', message: 'Not found.' } }]);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(data));
  }).listen(0, '127.0.0.1');
  await once(api, 'listening');
  t.after(() => { api.close(); api.closeAllConnections(); });
  const config = {
    app: 'admin', RELEASE: 'test', TRUST_PROXY: 'loopback', API_URL: `http://127.0.0.1:${api.address().port}`, WEB_URL: 'http://shop.test', ADMIN_URL: 'http://admin.test',
    S3_BUCKET: 'b', AWS_REGION: 'r', S3_ENDPOINT: null, POSTHOG_HOST: 'https://us.i.posthog.com', POSTHOG_KEY: null, SENTRY_BROWSER_DSN: null, UPLOAD_MAX_BYTES: 2000, production: false,
  };
  const app = await buildAdmin({ config, log: pino({ level: 'silent' }), errors: { report() {} } });
  t.after(() => app.close());
  return { app, calls };
}

function upload(bytes, token = 'token') {
  const line = 'form-boundary';
  const part = (name, body, extra = '') => Buffer.concat([Buffer.from(`--${line}\r\ncontent-disposition: form-data; name="${name}"${extra}\r\n\r\n`), Buffer.from(body), Buffer.from('\r\n')]);
  return {
    method: 'POST', url: '/products/1/image', headers: { 'content-type': `multipart/form-data; boundary=${line}` },
    payload: Buffer.concat([part('_csrf', token), part('image', bytes, '; filename="a.png"'), Buffer.from(`--${line}--\r\n`)]),
  };
}

test('without a login every page leads to the login, and back', async (t) => {
  const { app } = await setup(t, null);
  for (const url of ['/', '/orders', '/products/1', '/users', '/jobs']) {
    const answer = await app.inject(url);
    assert.equal(answer.statusCode, 303);
    assert.equal(answer.headers.location, `/login?next=${encodeURIComponent(url)}`);
  }
  assert.equal((await app.inject({ method: 'POST', url: '/users/1', payload: { role: 'admin' } })).statusCode, 303);
});

test('a customer is not staff', async (t) => {
  const { app, calls } = await setup(t, 'customer');
  const answer = await app.inject('/orders');
  assert.equal(answer.statusCode, 403);
  assert.deepEqual(calls.map((c) => c.path), ['/v1/session']);
});

test('support sees a product but cannot change it, and its text stays text', async (t) => {
  const answers = { 'GET /v1/admin/products/1': [200, { product, categories: [{ slug: 'table', name: 'Table' }] }] };
  const support = await (await setup(t, 'support', answers)).app.inject('/products/1');
  assert.match(support.body, /<fieldset disabled>/);
  assert.match(support.body, /&lt;\/textarea&gt;&lt;script&gt;/);
  assert.doesNotMatch(support.body, /<\/textarea><script>/);
  const admin = await (await setup(t, 'admin', answers)).app.inject('/products/1');
  assert.match(admin.body, /<fieldset>/);
});

test('an upload goes to the API as bytes with the token of the form', async (t) => {
  const { app, calls } = await setup(t, 'admin', { 'PUT /v1/admin/products/1/image': [200, { product }] });
  const bytes = Buffer.from('some bytes of an image');
  const answer = await app.inject(upload(bytes));
  assert.equal(answer.statusCode, 303);
  const call = calls.find((c) => c.method === 'PUT');
  assert.deepEqual(call.body, bytes);
  assert.equal(call.headers['x-csrf-token'], 'token');
});

test('an upload that is too large is 413 and never reaches the API', async (t) => {
  const { app, calls } = await setup(t, 'admin');
  const answer = await app.inject(upload(Buffer.alloc(2001)));
  assert.equal(answer.statusCode, 413);
  assert.match(answer.body, /too large/i);
  assert.equal(calls.some((c) => c.method === 'PUT'), false);
});

test('a wrong login says so and keeps the mail address, escaped', async (t) => {
  const { app } = await setup(t, null, { 'POST /v1/login': [401, { error: { code: 'credentials_wrong', message: 'The mail address or the password is wrong.' } }] });
  const answer = await app.inject({ method: 'POST', url: '/login', payload: { email: '"><b>', password: 'x' } });
  assert.equal(answer.statusCode, 401);
  assert.match(answer.body, /password is wrong/);
  assert.match(answer.body, /value="&quot;&gt;&lt;b&gt;"/);
});
