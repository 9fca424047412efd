import assert from 'node:assert/strict';
import Stripe from 'stripe';

const api = { protocol: 'http', host: '127.0.0.1', port: Number(process.env.API_STRIPE_COM), telemetry: false, maxNetworkRetries: 0 };
const stripe = new Stripe('sk_test_acme', api);
const pages = `http://127.0.0.1:${process.env.CHECKOUT_STRIPE_COM}`;

const customer = await stripe.customers.create({ email: 'buyer@example.com', metadata: { a: '1' } });
assert.equal((await stripe.customers.retrieve(customer.id)).email, 'buyer@example.com');
await stripe.customers.update(customer.id, { name: 'Ann', metadata: { a: '' } });
assert.deepEqual((await stripe.customers.retrieve(customer.id)).metadata, {});
for (let n = 0; n < 4; n++) await stripe.customers.create({ email: `u${n}@example.com` });
let seen = 0;
for await (const one of stripe.customers.list({ limit: 2 })) { assert.ok(one.id); seen += 1; }
assert.equal(seen, 5);
assert.equal((await stripe.customers.search({ query: "email:'u2@example.com'" })).data.length, 1);

const product = await stripe.products.create({ name: 'Mug' });
const price = await stripe.prices.create({ product: product.id, currency: 'usd', unit_amount: 500 });
assert.equal((await stripe.prices.retrieve(price.id, { expand: ['product'] })).product.name, 'Mug');

const intent = await stripe.paymentIntents.create({ amount: 1690, currency: 'usd', payment_method: 'pm_card_visa', confirm: true, automatic_payment_methods: { enabled: true, allow_redirects: 'never' }, expand: ['latest_charge'] });
assert.equal(intent.status, 'succeeded');
assert.equal(intent.latest_charge.payment_method_details.card.last4, '4242');
await assert.rejects(
  stripe.paymentIntents.create({ amount: 1690, currency: 'usd', payment_method: 'pm_card_chargeDeclinedInsufficientFunds', confirm: true }),
  (error) => error instanceof Stripe.errors.StripeCardError && error.decline_code === 'insufficient_funds' && error.payment_intent.status === 'requires_payment_method',
);
const asks = await stripe.paymentIntents.create({ amount: 900, currency: 'usd', payment_method: 'pm_card_threeDSecure2Required', confirm: true, return_url: 'https://shop.example/back' });
assert.equal(asks.status, 'requires_action');
assert.equal(asks.next_action.type, 'redirect_to_url');
const reserved = await stripe.paymentIntents.create({ amount: 900, currency: 'usd', payment_method: 'pm_card_visa', confirm: true, capture_method: 'manual' });
assert.equal((await stripe.paymentIntents.capture(reserved.id, { amount_to_capture: 500 })).amount_received, 500);
const open = await stripe.paymentIntents.create({ amount: 900, currency: 'usd' });
assert.equal((await stripe.paymentIntents.cancel(open.id)).status, 'canceled');

await assert.rejects(stripe.customers.retrieve('cus_nobody'), (error) => error.code === 'resource_missing' && error.statusCode === 404 && error.requestId.startsWith('req_'));
await assert.rejects(stripe.paymentIntents.create({ currency: 'usd' }), { code: 'parameter_missing', param: 'amount' });
await assert.rejects(new Stripe('sk_live_no', api).balance.retrieve(), (error) => error instanceof Stripe.errors.StripeAuthenticationError);
const once = { idempotencyKey: 'k1' };
const first = await stripe.customers.create({ email: 'k@example.com' }, once);
const again = await stripe.customers.create({ email: 'k@example.com' }, once);
assert.equal(again.id, first.id);
assert.equal(again.lastResponse.headers['idempotent-replayed'], 'true');
await assert.rejects(stripe.customers.create({ email: 'z@example.com' }, once), (error) => error instanceof Stripe.errors.StripeIdempotencyError);

// The calls of a shop, then a customer who clicks through the page by its form.
const session = await stripe.checkout.sessions.create({
  mode: 'payment', customer_email: 'buyer@example.com', client_reference_id: 'A-7',
  line_items: [{ quantity: 2, price_data: { currency: 'usd', unit_amount: 500, product_data: { name: 'Mug' } } }],
  metadata: { order_id: '7' }, payment_intent_data: { metadata: { order_id: '7' }, description: 'order A-7' },
  success_url: 'https://shop.example/orders/A-7?key=k&s={CHECKOUT_SESSION_ID}', cancel_url: 'https://shop.example/orders/A-7?payment=cancelled',
}, { idempotencyKey: 'order-1' });
const page = session.url.replace('https://checkout.stripe.com', pages);
const html = await (await fetch(page)).text();
const form = html.match(/<form method="post" id="payment">([\s\S]*?)<\/form>/)[1];
const fields = Object.fromEntries([...form.matchAll(/<input[^>]*name="(\w+)"[^>]*value="([^"]*)"/g)].map(([, name, value]) => [name, value]));
const button = form.match(/<button name="(\w+)" value="(\w+)"/);
const submit = (more) => fetch(page, { method: 'POST', redirect: 'manual', body: new URLSearchParams({ ...fields, [button[1]]: button[2], ...more }) });
assert.match(await (await submit({ card: '4000000000000002' })).text(), /Your card was declined/);
const left = await submit({});
assert.equal(left.status, 303);
assert.equal(left.headers.get('location'), `https://shop.example/orders/A-7?key=k&s=${session.id}`);
const paid = await stripe.checkout.sessions.retrieve(session.id, { expand: ['line_items', 'payment_intent'] });
assert.deepEqual([paid.status, paid.payment_status, paid.line_items.data.length], ['complete', 'paid', 1]);
const refund = await stripe.refunds.create({ payment_intent: paid.payment_intent.id }, { idempotencyKey: 'refund-1' });
assert.equal(refund.status, 'succeeded');
assert.equal((await stripe.events.list({ type: 'checkout.session.completed' })).data[0].data.object.id, session.id);

const plan = await stripe.prices.create({ currency: 'usd', unit_amount: 900, recurring: { interval: 'month' }, product_data: { name: 'Plan' } });
const card = await stripe.paymentMethods.attach('pm_card_visa', { customer: customer.id });
const subscription = await stripe.subscriptions.create({ customer: customer.id, items: [{ price: plan.id }], default_payment_method: card.id, expand: ['latest_invoice'] });
assert.deepEqual([subscription.status, subscription.latest_invoice.status], ['active', 'paid']);
assert.equal((await stripe.subscriptions.cancel(subscription.id)).status, 'canceled');
assert.equal((await stripe.setupIntents.create({ customer: customer.id, payment_method: 'pm_card_visa', confirm: true })).status, 'succeeded');
const coupon = await stripe.coupons.create({ percent_off: 20, duration: 'once' });
assert.equal((await stripe.promotionCodes.create({ promotion: { type: 'coupon', coupon: coupon.id }, coupon: coupon.id })).active, true);
assert.equal((await stripe.balance.retrieve()).object, 'balance');
assert.match((await stripe.webhookEndpoints.create({ url: 'https://shop.example/hook', enabled_events: ['*'] })).secret, /^whsec_/);
console.log('done');
