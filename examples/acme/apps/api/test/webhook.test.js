import test from 'node:test';
import assert from 'node:assert/strict';
import Stripe from 'stripe';
import { createWebhook } from '../src/webhook.js';

const secret = 'whsec_test';
const stripe = new Stripe('sk_test_x', { telemetry: false });

/** Orders and seen events in memory, with a transaction that rolls back. */
function fakeStore(orders) {
  const events = new Set();
  const state = { orders: structuredClone(orders), events };
  const change = (id, from, to) => {
    const order = state.orders[id];
    if (!from.includes(order.status)) return null;
    Object.assign(order, to);
    return { ...order };
  };
  return {
    state,
    async once(event, work) {
      if (events.has(event.id)) return { action: 'duplicate' };
      const before = structuredClone(state.orders);
      events.add(event.id);
      try {
        return await work({
          findOrder: async (object) => state.orders[object.metadata?.order_id] ?? null,
          markPaid: async (id, payment) => change(id, ['payment_pending'], { status: 'paid', ...payment }),
          markRefunded: async (id) => change(id, ['paid', 'shipped'], { status: 'refunded' }),
          cancelPending: async (id) => change(id, ['payment_pending'], { status: 'cancelled' }),
          notePaymentError: async (id, text) => { state.orders[id].payment_error = text; },
        });
      } catch (error) {
        state.orders = before;
        events.delete(event.id);
        throw error;
      }
    },
  };
}

function setup() {
  const store = fakeStore({ 1: { id: 1, number: 'A-1', status: 'payment_pending' } });
  const paid = [];
  const refunded = [];
  const handle = createWebhook({ stripe, secret, store, onPaid: async (o) => paid.push(o.number), onRefunded: async (o) => refunded.push(o.number) });
  const send = (type, object, { id = `evt_${type}`, key = secret, timestamp } = {}) => {
    const payload = JSON.stringify({ id, object: 'event', type, data: { object: { metadata: { order_id: '1' }, ...object } } });
    return handle(Buffer.from(payload), stripe.webhooks.generateTestHeaderString({ payload, secret: key, timestamp }));
  };
  return { store, paid, refunded, handle, send };
}

test('a completed payment marks the order as paid', async () => {
  const { store, paid, send } = setup();
  const answer = await send('checkout.session.completed', { payment_status: 'paid', payment_intent: 'pi_1' });
  assert.deepEqual(answer, { received: true, action: 'paid' });
  assert.equal(store.state.orders[1].status, 'paid');
  assert.equal(store.state.orders[1].intent, 'pi_1');
  assert.deepEqual(paid, ['A-1']);
});

test('a wrong, missing or old signature is refused and changes nothing', async () => {
  const { store, paid, send, handle } = setup();
  const refused = { status: 400, code: 'signature_invalid' };
  await assert.rejects(send('payment_intent.succeeded', { id: 'pi_1' }, { key: 'whsec_other' }), refused);
  await assert.rejects(send('payment_intent.succeeded', { id: 'pi_1' }, { timestamp: Math.floor(Date.now() / 1000) - 3600 }), refused);
  await assert.rejects(handle(Buffer.from('{}'), undefined), refused);
  await assert.rejects(handle(Buffer.from('{}'), 'nonsense'), refused);
  assert.equal(store.state.orders[1].status, 'payment_pending');
  assert.equal(store.state.events.size, 0);
  assert.deepEqual(paid, []);
});

test('a body that was changed on the way is refused', async () => {
  const { handle, store } = setup();
  const payload = JSON.stringify({ id: 'evt_1', type: 'payment_intent.succeeded', data: { object: { id: 'pi', metadata: { order_id: '1' } } } });
  const header = stripe.webhooks.generateTestHeaderString({ payload, secret });
  await assert.rejects(handle(Buffer.from(payload.replace('"1"', '"2"')), header), { code: 'signature_invalid' });
  assert.equal(store.state.events.size, 0);
});

test('a replayed event does nothing', async () => {
  const { paid, send } = setup();
  await send('payment_intent.succeeded', { id: 'pi_1' });
  assert.deepEqual(await send('payment_intent.succeeded', { id: 'pi_1' }), { received: true, action: 'duplicate' });
  assert.deepEqual(paid, ['A-1']);
});

test('two different events for one payment pay once', async () => {
  const { paid, send } = setup();
  await send('payment_intent.succeeded', { id: 'pi_1' });
  assert.equal((await send('checkout.session.completed', { payment_status: 'paid' })).action, 'ignored');
  assert.deepEqual(paid, ['A-1']);
});

test('an event that failed half-way can come again', async () => {
  const { store, send } = setup();
  const { once } = store;
  store.once = (event, work) => once(event, async (tx) => { await work(tx); throw new Error('database went away'); });
  await assert.rejects(send('payment_intent.succeeded', { id: 'pi_1' }), /went away/);
  assert.equal(store.state.orders[1].status, 'payment_pending');
  store.once = once;
  assert.equal((await send('payment_intent.succeeded', { id: 'pi_1' })).action, 'paid');
});

test('unpaid sessions, unknown orders and other types are ignored', async () => {
  const { store, send } = setup();
  assert.equal((await send('checkout.session.completed', { payment_status: 'unpaid' })).action, 'ignored');
  assert.equal((await send('payment_intent.succeeded', { id: 'pi', metadata: { order_id: '99' } })).action, 'ignored');
  assert.equal((await send('customer.created', {})).action, 'ignored');
  assert.equal(store.state.orders[1].status, 'payment_pending');
});

test('a declined card, an expired session and a refund are recorded', async () => {
  const first = setup();
  await first.send('payment_intent.payment_failed', { last_payment_error: { message: 'Your card was declined.' } });
  assert.equal(first.store.state.orders[1].payment_error, 'Your card was declined.');
  assert.equal((await first.send('checkout.session.expired', {})).action, 'cancelled');
  const second = setup();
  await second.send('payment_intent.succeeded', { id: 'pi_1' });
  assert.equal((await second.send('charge.refunded', { refunded: true })).action, 'refunded');
  assert.deepEqual(second.refunded, ['A-1']);
});
