import { conflict, notFound } from '../errors.js';
import { newToken } from '../csrf.js';
import { priceOrder } from './pricing.js';

export const STATUS = {
  payment_pending: 'Payment pending',
  paid: 'Paid',
  shipped: 'Shipped',
  refunded: 'Refunded',
  cancelled: 'Cancelled',
};

/**
 * Reserves the stock and writes the order, or changes nothing. The condition
 * in the UPDATE decides who gets the last item; products are taken in the
 * order of their ids, so that two checkouts cannot wait for each other.
 *
 * @param {ReturnType<import('../db.js').createDatabase>} db
 */
export function placeOrder(db, { userId, email, visitor, address, lines, coupon, shipping, tax }) {
  const totals = priceOrder({ lines, coupon, shippingCents: shipping.cents, taxCents: tax.cents });
  return db.transaction(async (tx) => {
    for (const line of [...lines].sort((a, b) => a.productId - b.productId)) {
      const { rows } = await tx.query(
        'UPDATE products SET stock = stock - $2, updated_at = now() WHERE id = $1 AND active AND stock >= $2 RETURNING price_cents',
        [line.productId, line.quantity],
      );
      if (!rows[0]) throw conflict('out_of_stock', `Sorry, “${line.name}” has just sold out in this quantity.`, { productId: line.productId });
      if (rows[0].price_cents !== line.unitPriceCents) {
        throw conflict('price_changed', `The price of “${line.name}” has just changed. Please look at your cart again.`);
      }
      await tx.query("INSERT INTO stock_movements (product_id, quantity, reason) VALUES ($1, $2, 'sale')", [line.productId, -line.quantity]);
    }
    const { rows } = await tx.query(
      `INSERT INTO orders (access_key, user_id, email, subtotal_cents, discount_cents, shipping_cents, tax_cents, total_cents,
         coupon_code, address, shipping_method, shipping_rate_id, shipping_source, tax_source, visitor)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) RETURNING *`,
      [
        newToken(18), userId, email, totals.subtotalCents, totals.discountCents, totals.shippingCents, totals.taxCents, totals.totalCents,
        coupon?.code ?? null, JSON.stringify(address), shipping.label, shipping.rateId ?? null, shipping.source, tax.source, visitor,
      ],
    );
    for (const line of lines) {
      await tx.query('INSERT INTO order_items (order_id, product_id, name, unit_price_cents, quantity) VALUES ($1, $2, $3, $4, $5)', [
        rows[0].id, line.productId, line.name, line.unitPriceCents, line.quantity,
      ]);
    }
    return rows[0];
  });
}

export async function readOrder(db, number) {
  const { rows } = await db.query('SELECT * FROM orders WHERE number = $1', [String(number)]);
  return rows[0] ? withItems(db, rows[0]) : null;
}

export async function withItems(db, order) {
  const { rows } = await db.query(
    `SELECT i.product_id, i.name, i.unit_price_cents, i.quantity, p.slug, COALESCE(p.thumbnail, p.image) AS image, p.weight_grams
       FROM order_items i JOIN products p ON p.id = i.product_id WHERE i.order_id = $1 ORDER BY i.name`,
    [order.id],
  );
  return { ...order, items: rows };
}

async function lock(tx, id) {
  const { rows } = await tx.query('SELECT * FROM orders WHERE id = $1 FOR UPDATE', [id]);
  if (!rows[0]) throw notFound('order');
  return rows[0];
}

/**
 * Marks an order as paid, once. Returns null when there was nothing to do.
 * @param {import('../db.js').Queryable} tx
 */
export async function markPaid(tx, id, { method, intent = null }) {
  const order = await lock(tx, id);
  if (order.status !== 'payment_pending') return null;
  const { rows } = await tx.query(
    `UPDATE orders SET status = 'paid', paid_at = now(), payment_method = $2, payment_intent = COALESCE($3, payment_intent), payment_error = NULL
      WHERE id = $1 RETURNING *`,
    [id, method, intent],
  );
  await tx.query("INSERT INTO ledger_entries (order_id, kind, amount_cents, tax_cents) VALUES ($1, 'payment', $2, $3)", [
    id, order.total_cents, order.tax_cents,
  ]);
  return rows[0];
}

export async function markRefunded(tx, id) {
  const order = await lock(tx, id);
  if (!['paid', 'shipped'].includes(order.status)) return null;
  const { rows } = await tx.query("UPDATE orders SET status = 'refunded', refunded_at = now() WHERE id = $1 RETURNING *", [id]);
  await tx.query("INSERT INTO ledger_entries (order_id, kind, amount_cents, tax_cents) VALUES ($1, 'refund', $2, $3)", [
    id, -order.total_cents, -order.tax_cents,
  ]);
  return rows[0];
}

/** Gives the stock of an unpaid order back. Returns null when it is no longer pending. */
export async function cancelPending(tx, id) {
  const order = await lock(tx, id);
  if (order.status !== 'payment_pending') return null;
  const { rows: items } = await tx.query('SELECT product_id, quantity FROM order_items WHERE order_id = $1 ORDER BY product_id', [id]);
  for (const item of items) {
    await tx.query('UPDATE products SET stock = stock + $2, updated_at = now() WHERE id = $1', [item.product_id, item.quantity]);
    await tx.query("INSERT INTO stock_movements (product_id, quantity, reason) VALUES ($1, $2, 'release')", [item.product_id, item.quantity]);
  }
  const { rows } = await tx.query("UPDATE orders SET status = 'cancelled' WHERE id = $1 RETURNING *", [id]);
  return rows[0];
}

/**
 * The work that follows a payment, all of it done by the worker. The column is
 * set last: when Redis was away, the worker finds the order and queues it again.
 */
export async function queuePaidOrder(db, queue, order) {
  await queue.add('ledger.post', { orderId: order.id, kind: 'payment' });
  await queue.add('receipt.send', { orderNumber: order.number });
  await queue.add('invoice.render', { orderNumber: order.number });
  await db.query('UPDATE orders SET jobs_queued_at = now() WHERE id = $1', [order.id]);
}

/** Who bought, for analytics: the visitor, and never the mail address. */
export const buyerOf = (order) => order.visitor ?? `order-${order.number}`;

/** Paid orders whose work was never queued. */
export async function forgottenOrders(db) {
  const { rows } = await db.query("SELECT id, number FROM orders WHERE paid_at < now() - interval '1 minute' AND jobs_queued_at IS NULL ORDER BY id LIMIT 50");
  return rows;
}
