import { badRequest } from '@acme/shared/errors';

/**
 * Stripe's events. The signature is checked on the bytes as they came; the
 * event id is written in the transaction that acts on it, so that an event
 * that comes again changes nothing.
 *
 * @param {object} deps
 * @param {{webhooks: {constructEvent: Function}}} deps.stripe
 * @param {string} deps.secret
 * @param {ReturnType<typeof createPaymentStore>} deps.store
 * @param {(order: object) => Promise<void>} deps.onPaid after the commit, once per order
 * @param {(order: object) => Promise<void>} deps.onRefunded
 */
export function createWebhook({ stripe, secret, store, onPaid, onRefunded, log }) {
  return async function handle(rawBody, signature) {
    let event;
    try {
      event = stripe.webhooks.constructEvent(rawBody, signature ?? '', secret);
    } catch (error) {
      log?.warn({ reason: error.message.split('\n')[0] }, 'webhook refused');
      throw badRequest('signature_invalid', 'The signature does not match.');
    }
    const object = event.data.object;
    const outcome = await store.once(event, async (tx) => {
      const order = await tx.findOrder(object);
      if (!order) return { action: 'ignored' };
      switch (event.type) {
        case 'checkout.session.completed':
        case 'checkout.session.async_payment_succeeded':
          if (object.payment_status === 'unpaid') return { action: 'ignored', order };
          return paid(await tx.markPaid(order.id, { method: 'card', intent: idOf(object.payment_intent) }), order);
        case 'payment_intent.succeeded':
          return paid(await tx.markPaid(order.id, { method: 'card', intent: object.id }), order);
        case 'payment_intent.payment_failed':
          await tx.notePaymentError(order.id, object.last_payment_error?.message ?? 'The card was declined.');
          return { action: 'payment_failed', order };
        case 'checkout.session.expired':
          return (await tx.cancelPending(order.id)) ? { action: 'cancelled', order } : { action: 'ignored', order };
        case 'charge.refunded': {
          const refunded = object.refunded ? await tx.markRefunded(order.id) : null;
          return refunded ? { action: 'refunded', order: refunded } : { action: 'ignored', order };
        }
        default:
          return { action: 'ignored', order };
      }
    });
    log?.info({ event: event.id, type: event.type, action: outcome.action, order: outcome.order?.number }, 'webhook');
    if (outcome.action === 'paid') await onPaid(outcome.order);
    if (outcome.action === 'refunded') await onRefunded(outcome.order);
    return { received: true, action: outcome.action };
  };
}

const idOf = (value) => (typeof value === 'string' ? value : (value?.id ?? null));
const paid = (changed, order) => (changed ? { action: 'paid', order: changed } : { action: 'ignored', order });

/** The database side of the webhook. */
export function createPaymentStore(db, { markPaid, markRefunded, cancelPending }) {
  return {
    /** Runs `work` in a transaction, unless the event was seen before. */
    once: (event, work) =>
      db.transaction(async (tx) => {
        const { rowCount } = await tx.query('INSERT INTO payment_events (id, type) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING', [event.id, event.type]);
        if (rowCount === 0) return { action: 'duplicate' };
        const result = await work({
          async findOrder(object) {
            const id = Number(object.metadata?.order_id);
            const { rows } = Number.isSafeInteger(id) && id > 0
              ? await tx.query('SELECT * FROM orders WHERE id = $1', [id])
              : await tx.query('SELECT * FROM orders WHERE payment_session = $1 OR payment_intent = $2 LIMIT 1', [
                  object.id ?? '', idOf(object.payment_intent) ?? object.id ?? '',
                ]);
            return rows[0] ?? null;
          },
          markPaid: (id, payment) => markPaid(tx, id, payment),
          markRefunded: (id) => markRefunded(tx, id),
          cancelPending: (id) => cancelPending(tx, id),
          notePaymentError: (id, text) =>
            tx.query("UPDATE orders SET payment_error = $2 WHERE id = $1 AND status = 'payment_pending'", [id, String(text).slice(0, 300)]),
        });
        if (result.order) await tx.query('UPDATE payment_events SET order_id = $2 WHERE id = $1', [event.id, result.order.id]);
        return result;
      }),
  };
}
