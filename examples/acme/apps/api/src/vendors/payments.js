import Stripe from 'stripe';
import { VendorError } from '@acme/shared/errors';

/** @param {{STRIPE_SECRET_KEY: string, STRIPE_API_URL: string}} config */
export function createStripe(config) {
  const { protocol, hostname, port } = new URL(config.STRIPE_API_URL);
  return new Stripe(config.STRIPE_SECRET_KEY, {
    protocol: protocol.replace(':', ''),
    host: hostname,
    port: port || (protocol === 'http:' ? 80 : 443),
    timeout: 8_000,
    maxNetworkRetries: 1,
    telemetry: false,
    appInfo: { name: 'acme-goods' },
  });
}

/** What is shown and charged. With a discount the order is one line, because lines cannot be negative. */
export function lineItems(order) {
  const item = (name, cents, quantity = 1) => ({
    quantity,
    price_data: { currency: order.currency, unit_amount: cents, product_data: { name } },
  });
  if (order.discount_cents > 0) return [item(`Acme Goods order ${order.number}, discount included`, order.total_cents)];
  const lines = order.items.map((line) => item(line.name, line.unit_price_cents, line.quantity));
  if (order.shipping_cents > 0) lines.push(item(`Delivery: ${order.shipping_method}`, order.shipping_cents));
  if (order.tax_cents > 0) lines.push(item('Sales tax', order.tax_cents));
  return lines;
}

/** Payment pages and refunds at Stripe. */
export function createPayments({ stripe, webUrl }) {
  const failed = (error) => {
    throw new VendorError('stripe', error.message, { cause: error });
  };
  return {
    /** A payment page for the order. The attempt is part of the idempotency key: a repeated call does not charge twice. */
    async start(order) {
      const page = `${webUrl}/orders/${order.number}?key=${order.access_key}`;
      const metadata = { order_id: String(order.id), order_number: order.number };
      const session = await stripe.checkout.sessions
        .create(
          {
            mode: 'payment',
            customer_email: order.email,
            client_reference_id: order.number,
            line_items: lineItems(order),
            metadata,
            payment_intent_data: { metadata, description: `Acme Goods order ${order.number}` },
            success_url: `${page}&payment=done`,
            cancel_url: `${page}&payment=cancelled`,
          },
          { idempotencyKey: `order-${order.access_key}-${order.payment_attempts}` },
        )
        .catch(failed);
      if (!session.url) throw new VendorError('stripe', `session ${session.id} has no payment page`);
      return { id: session.id, url: session.url };
    },
    refund: (order) =>
      stripe.refunds
        .create(
          { payment_intent: order.payment_intent, metadata: { order_id: String(order.id), order_number: order.number } },
          { idempotencyKey: `refund-${order.access_key}` },
        )
        .catch(failed),
  };
}
