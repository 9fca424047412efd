import test from 'node:test';
import assert from 'node:assert/strict';
import { chooseRates, createShipping, fallbackRates } from '../src/vendors/shipping.js';
import { createTax, fallbackTax } from '../src/vendors/tax.js';
import { createPayments, lineItems } from '../src/vendors/payments.js';
import { createCheckout } from '../src/checkout.js';

const config = { SHIPPO_API_URL: 'https://shippo.test', SHIPPO_API_TOKEN: 't', TAXJAR_API_URL: 'https://tax.test', TAXJAR_API_KEY: 'k' };
const address = { name: 'A', street: 'S', city: 'Seattle', state: 'WA', zip: '98101', country: 'US' };
const answer = (body, status = 200) => async () => new Response(typeof body === 'string' ? body : JSON.stringify(body), { status });
const offline = async () => { throw Object.assign(new TypeError('fetch failed'), { cause: { code: 'ENOTFOUND' } }); };

test('carrier rates: the cheapest and a faster one, in dollars only', () => {
  const rate = (amount, days, more = {}) => ({ amount, estimated_days: days, object_id: `r${amount}`, provider: 'USPS', currency: 'USD', ...more });
  const rates = chooseRates([rate('12.50', 2), rate('7.25', 5), rate('30.00', 1), rate('1.00', 9, { currency: 'EUR' }), rate('nonsense', 1)]);
  assert.deepEqual(rates.map((r) => [r.method, r.cents, r.days, r.source]), [['standard', 725, 5, 'shippo'], ['express', 3000, 1, 'shippo']]);
  assert.equal(chooseRates([]), null);
});

test('shipping falls back to the price list for every kind of failure, and reports it', async () => {
  for (const fetch of [offline, answer({}, 500), answer('<html>'), answer({ rates: [] })]) {
    const reported = [];
    const shipping = createShipping({ config, fetch, onError: (error) => reported.push(error.vendor) });
    const rates = await shipping.rates({ address, weightGrams: 2500 });
    assert.deepEqual(rates, fallbackRates({ weightGrams: 2500, country: 'US' }));
    assert.deepEqual(reported, ['shippo']);
  }
});

test('a carrier that never answers is given up on', async () => {
  const never = (url, { signal }) => new Promise((_, reject) => { signal.addEventListener('abort', () => reject(signal.reason)); });
  const reported = [];
  const shipping = createShipping({ config, fetch: never, onError: (error) => reported.push(error.message) });
  // The deadline's timer does not keep the process alive by itself.
  const alive = setInterval(() => {}, 1000);
  const rates = await shipping.rates({ address, weightGrams: 100 });
  clearInterval(alive);
  assert.equal(rates[0].source, 'fallback');
  assert.match(reported[0], /no answer within 2500 ms/);
});

test('the request to the carrier is the real one', async () => {
  let seen;
  const fetch = async (url, options) => { seen = { url, ...options }; return Response.json({ rates: [{ amount: '5', currency: 'USD', object_id: 'r', estimated_days: 3 }] }); };
  await createShipping({ config, fetch, onError: assert.fail }).rates({ address, weightGrams: 900 });
  assert.equal(seen.url, 'https://shippo.test/shipments/');
  assert.equal(seen.headers.authorization, 'ShippoToken t');
  assert.equal(JSON.parse(seen.body).address_to.street1, 'S');
});

test('heavier and farther costs more', () => {
  const [light] = fallbackRates({ weightGrams: 400, country: 'US' });
  const [heavy] = fallbackRates({ weightGrams: 4400, country: 'US' });
  const [abroad] = fallbackRates({ weightGrams: 400, country: 'CA' });
  assert.equal(light.cents, 590);
  assert.equal(heavy.cents, 990);
  assert.equal(abroad.cents, 1490);
});

test('tax comes from the service when it makes sense', async () => {
  const input = { address, goodsCents: 10_000, shippingCents: 500, lines: [], discountCents: 0 };
  const ask = (fetch, reported = []) => createTax({ config, fetch, onError: (e) => reported.push(e) }).forOrder(input);
  assert.deepEqual(await ask(answer({ tax: { amount_to_collect: 10.25 } })), { cents: 1025, source: 'taxjar' });
  for (const fetch of [offline, answer({}, 401), answer({ tax: {} }), answer({ tax: { amount_to_collect: -1 } }), answer({ tax: { amount_to_collect: 5000 } })]) {
    const reported = [];
    assert.deepEqual(await ask(fetch, reported), { cents: 650, source: 'fallback' });
    assert.equal(reported.length, 1);
  }
});

test('the own tax table knows states and leaves other countries alone', () => {
  assert.equal(fallbackTax({ address: { country: 'US', state: 'OR' }, goodsCents: 10_000 }).cents, 0);
  assert.equal(fallbackTax({ address: { country: 'CA', state: 'WA' }, goodsCents: 10_000 }).cents, 0);
});

const order = {
  id: 7, number: 'A-7', access_key: 'key', email: 'a@b.example', currency: 'usd', status: 'payment_pending', payment_attempts: 2, shipping_method: 'Standard',
  discount_cents: 0, shipping_cents: 590, tax_cents: 100, total_cents: 1690, items: [{ name: 'Mug', unit_price_cents: 500, quantity: 2 }],
};

test('the payment page charges exactly the total', () => {
  const sum = (items) => items.reduce((total, i) => total + i.price_data.unit_amount * i.quantity, 0);
  assert.equal(sum(lineItems(order)), 1690);
  assert.equal(sum(lineItems({ ...order, discount_cents: 300, total_cents: 1390 })), 1390);
});

test('a payment page is asked for with the order in its metadata and an idempotency key per attempt', async () => {
  let call;
  const stripe = { checkout: { sessions: { create: async (...args) => { call = args; return { id: 'cs_1', url: 'https://pay.test/1' }; } } } };
  const page = await createPayments({ stripe, webUrl: 'https://shop.test' }).start(order);
  assert.deepEqual(page, { id: 'cs_1', url: 'https://pay.test/1' });
  assert.equal(call[0].metadata.order_id, '7');
  assert.equal(call[0].payment_intent_data.metadata.order_id, '7');
  assert.equal(call[0].success_url, 'https://shop.test/orders/A-7?key=key&payment=done');
  assert.equal(call[1].idempotencyKey, 'order-key-2');
});

test('without the payment provider the order stays pending and the error is reported', async () => {
  const statements = [];
  const reported = [];
  const stripe = { checkout: { sessions: { create: async () => { throw new Error('connect ENOTFOUND'); } } } };
  const checkout = createCheckout({
    db: { query: async (sql, values) => { statements.push([sql, values]); return { rows: [] }; } },
    payments: createPayments({ stripe, webUrl: 'https://shop.test' }),
    errors: { report: (error) => reported.push(error.message) },
  });
  assert.deepEqual(await checkout.startPayment(order), { error: 'We could not reach our payment provider.' });
  assert.match(reported[0], /stripe: connect ENOTFOUND/);
  assert.match(statements[0][0], /payment_error = \$2/);
  await assert.rejects(checkout.startPayment({ ...order, status: 'paid' }), { status: 409, code: 'not_payable' });
});
