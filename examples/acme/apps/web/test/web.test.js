import test from 'node:test';
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import pino from 'pino';
import { buildWeb } from '../src/app.js';

const product = { id: 1, slug: 'mug', name: '<img src=x onerror=alert(1)>', tagline: 'a "b"', description: '&', category: 'table', categoryName: 'Table', priceCents: 900, weightGrams: 100, stock: 1, image: '/static/products/mug.webp', thumbnail: null, active: true };
const SESSION = { user: null, csrfToken: 'token', visitor: 'v', cartCount: 2, flags: { freeShipping: false } };

/** A stand-in for the API that answers with what the test wants. */
async function setup(t, answers = {}) {
  const calls = [];
  const api = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const path = request.url.split('?')[0];
    calls.push({ method: request.method, path, body, headers: request.headers });
    const [status, data, headers = {}] = answers[`${request.method} ${path}`] ?? (path === '/v1/session' ? [200, SESSION] : [404, { error: { code: 'not_found', message: 'We could not find that.' } }]);
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(data));
  }).listen(0, '127.0.0.1');
  await once(api, 'listening');
  t.after(() => { api.close(); api.closeAllConnections(); });
  const config = {
    app: 'web', RELEASE: 'test', TRUST_PROXY: 'loopback', API_URL: `http://127.0.0.1:${api.address().port}`, WEB_URL: 'https://shop.test', STRIPE_CHECKOUT_URL: 'https://checkout.stripe.com',
    S3_BUCKET: 'b', AWS_REGION: 'r', S3_ENDPOINT: null, POSTHOG_HOST: 'https://us.i.posthog.com', POSTHOG_KEY: 'phc_x', SENTRY_BROWSER_DSN: 'https://k@o1.ingest.sentry.io/1', production: false,
  };
  const app = await buildWeb({ config, log: pino({ level: 'silent' }), errors: { report() {} } });
  t.after(() => app.close());
  return { app, calls, api };
}

test('a product page escapes its data and allows only the hosts it needs', async (t) => {
  const { app } = await setup(t, { 'GET /v1/products/mug': [200, { product, related: [] }] });
  const page = await app.inject({ url: '/products/mug', cookies: { acme_sid: 'x' } });
  assert.equal(page.statusCode, 200);
  assert.match(page.body, /&lt;img src=x onerror=alert\(1\)&gt;/);
  assert.doesNotMatch(page.body, /<img src=x/);
  assert.match(page.body, /The last one/);
  assert.match(page.headers['content-security-policy'], /connect-src 'self' https:\/\/o1\.ingest\.sentry\.io https:\/\/us\.i\.posthog\.com https:\/\/us-assets\.i\.posthog\.com/);
  assert.match(page.headers['content-security-policy'], /form-action 'self' https:\/\/checkout\.stripe\.com/);
  assert.equal(page.headers['cache-control'], 'private, no-store');
});

test('the session of the API becomes a cookie of the shop', async (t) => {
  const { app } = await setup(t, { 'GET /v1/session': [200, SESSION, { 'set-cookie': 'acme_sid=abc; Path=/; HttpOnly' }], 'GET /v1/cart': [200, { lines: [], totals: {} }] });
  const page = await app.inject('/cart');
  assert.match(page.headers['set-cookie'], /^acme_sid=abc; Max-Age=604800; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
  assert.match(page.body, /Your cart is empty/);
});

test('the token of the form goes to the API, and so does the address of the visitor', async (t) => {
  const { app, calls } = await setup(t, { 'POST /v1/cart/items': [200, { count: 3 }] });
  const answer = await app.inject({ method: 'POST', url: '/cart', payload: { slug: 'mug', quantity: 1, _csrf: 'form-token' }, cookies: { acme_sid: 's' }, remoteAddress: '10.1.2.3' });
  assert.equal(answer.statusCode, 303);
  const call = calls.find((c) => c.method === 'POST');
  assert.equal(call.headers['x-csrf-token'], 'form-token');
  assert.equal(call.headers['x-forwarded-for'], '10.1.2.3');
  assert.equal(call.headers.cookie, 'acme_sid=s');
});

test('after ordering, the visitor goes to the payment page, or to the order when there is none', async (t) => {
  const order = { number: 'A-1', accessKey: 'k' };
  const place = async (payment) => {
    const { app } = await setup(t, { 'POST /v1/checkout': [201, { order, payment }] });
    return (await app.inject({ method: 'POST', url: '/checkout/review', payload: { _csrf: 'x' } })).headers.location;
  };
  assert.equal(await place({ url: 'https://checkout.stripe.com/c/pay/1' }), 'https://checkout.stripe.com/c/pay/1');
  assert.equal(await place({ error: 'no' }), '/orders/A-1?key=k&payment=failed');
});

test('a sold-out item sends the visitor back to the cart with the reason', async (t) => {
  const { app } = await setup(t, { 'POST /v1/checkout': [409, { error: { code: 'out_of_stock', message: 'Sorry, sold out.' } }] });
  const answer = await app.inject({ method: 'POST', url: '/checkout/review', payload: {} });
  assert.equal(answer.headers.location, '/cart');
  assert.match(Buffer.from(/acme_flash=([^;]+)/.exec(answer.headers['set-cookie'])[1], 'base64url').toString(), /Sorry, sold out/);
});

test('login never leads to another site', async (t) => {
  const { app } = await setup(t, { 'POST /v1/login': [200, { user: {} }] });
  const go = async (next) => (await app.inject({ method: 'POST', url: '/login', payload: { next } })).headers.location;
  assert.equal(await go('/checkout'), '/checkout');
  assert.equal(await go('https://evil.example'), '/account');
  assert.equal(await go('//evil.example'), '/account');
});

test('errors are pages: unknown, broken, and no API at all', async (t) => {
  const { app, api } = await setup(t, { 'POST /v1/cart/coupon': [500, { error: { code: 'internal', message: 'Something went wrong on our side.', reference: 'r' } }] });
  const missing = await app.inject('/products/nothing');
  assert.equal(missing.statusCode, 404);
  assert.match(missing.body, /Not here/);
  assert.equal((await app.inject({ method: 'POST', url: '/cart/coupon', payload: { code: 'X' } })).statusCode, 500);
  api.close();
  api.closeAllConnections();
  await once(api, 'close');
  const page = await app.inject('/');
  assert.equal(page.statusCode, 503);
  assert.match(page.body, /Back in a moment/);
  const health = await app.inject('/health');
  assert.equal(health.statusCode, 503);
  assert.match(health.json().checks.api.reason, /api is not reachable: ECONNREFUSED/);
});
