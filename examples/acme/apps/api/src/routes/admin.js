import { randomUUID } from 'node:crypto';
import { AppError, VendorError, badRequest, conflict, notFound } from '@acme/shared/errors';
import { buyerOf, cancelPending, markPaid, markRefunded, queuePaidOrder, readOrder, STATUS } from '@acme/shared/domain/orders';
import { parseMoney } from '@acme/shared/domain/money';
import { previousDay, settle, validDay } from '@acme/shared/domain/settlement';
import { sniffImage } from '@acme/shared/images';
import { sellThrough } from '../reports.js';
import { presentOrderForStaff, presentProduct } from '../present.js';
import { requireRole } from '../session.js';

const DAY = 'YYYY-MM-DD';

/** The back office. Support may look and help; money, prices and people need an admin. */
export function adminRoutes(app, { config, db, users, products, queue, payments, shipping, storage, copywriter, analytics, errors }) {
  app.addHook('onRequest', requireRole('admin', 'support'));
  const adminOnly = { onRequest: requireRole('admin') };

  const note = (order, request, text, tx = db) =>
    tx.query('INSERT INTO order_notes (order_id, author, text) VALUES ($1, $2, $3)', [order.id, request.user.name, text]);
  const vendorFailed = (error, message) => {
    if (!(error instanceof VendorError)) throw error;
    errors.report(error, { tags: { vendor: error.vendor } });
    throw new AppError(422, 'vendor_failed', message);
  };

  app.get('/summary', async () => {
    const totals = await db.one(
      `SELECT count(*) FILTER (WHERE placed_at > now() - interval '1 day')::int AS orders_today,
              COALESCE(sum(total_cents) FILTER (WHERE paid_at > now() - interval '7 days' AND status IN ('paid', 'shipped')), 0)::bigint AS week_cents,
              COALESCE(sum(total_cents) FILTER (WHERE paid_at > now() - interval '14 days' AND paid_at <= now() - interval '7 days' AND status IN ('paid', 'shipped')), 0)::bigint AS week_before_cents,
              count(*) FILTER (WHERE status = 'paid')::int AS to_ship,
              count(*) FILTER (WHERE status = 'payment_pending')::int AS pending
         FROM orders`,
    );
    const [days, low, jobs] = await Promise.all([
      db.query(
        `SELECT d::date::text AS day, COALESCE(sum(o.total_cents), 0)::bigint AS cents, count(o.id)::int AS orders
           FROM generate_series(current_date - 13, current_date, interval '1 day') d
           LEFT JOIN orders o ON o.paid_at >= d AND o.paid_at < d + interval '1 day' AND o.status IN ('paid', 'shipped')
          GROUP BY d ORDER BY d`,
      ),
      db.query('SELECT id, slug, name, stock FROM products WHERE active AND stock <= 3 ORDER BY stock, name LIMIT 6'),
      queue.overview(),
    ]);
    return { ...totals, days: days.rows, lowStock: low.rows, jobs: { ready: jobs.ready, delayed: jobs.delayed, dead: jobs.dead, workers: jobs.workers } };
  });

  app.get('/orders', async (request) => {
    const status = request.query.status in STATUS ? request.query.status : null;
    const text = String(request.query.q ?? '').trim().slice(0, 80);
    const { rows } = await db.query(
      `SELECT o.*, (SELECT sum(quantity)::int FROM order_items i WHERE i.order_id = o.id) AS item_count
         FROM orders o
        WHERE ($1::text IS NULL OR o.status = $1) AND ($2 = '' OR o.number ILIKE '%' || $2 || '%' OR o.email ILIKE '%' || $2 || '%' OR o.address->>'name' ILIKE '%' || $2 || '%')
        ORDER BY o.placed_at DESC, o.id DESC LIMIT 100`,
      [status, text.replace(/[\\%_]/g, '\\$&')],
    );
    const { rows: counts } = await db.query('SELECT status, count(*)::int AS n FROM orders GROUP BY status');
    return { orders: rows.map(presentOrderForStaff), counts: Object.fromEntries(counts.map((c) => [c.status, c.n])) };
  });

  const orderOf = async (request) => {
    const order = await readOrder(db, request.params.number);
    if (!order) throw notFound('order');
    return order;
  };

  app.get('/orders/:number', async (request) => {
    const order = await orderOf(request);
    const [notes, entries, events] = await Promise.all([
      db.query('SELECT author, text, created_at FROM order_notes WHERE order_id = $1 ORDER BY id DESC', [order.id]),
      db.query('SELECT kind, amount_cents, posted_at, created_at FROM ledger_entries WHERE order_id = $1 ORDER BY id', [order.id]),
      db.query('SELECT id, type, received_at FROM payment_events WHERE order_id = $1 ORDER BY received_at', [order.id]),
    ]);
    return { order: presentOrderForStaff(order), notes: notes.rows, ledger: entries.rows, events: events.rows };
  });

  app.post('/orders/:number/notes', async (request) => {
    const text = String(request.body?.text ?? '').trim();
    if (!text || text.length > 1000) throw badRequest('note_invalid', 'Please write a note of at most 1000 characters.');
    await note(await orderOf(request), request, text);
    return { ok: true };
  });

  app.post('/orders/:number/mark-paid', adminOnly, async (request) => {
    const order = await orderOf(request);
    const paid = await db.transaction(async (tx) => {
      const changed = await markPaid(tx, order.id, { method: 'bank transfer' });
      if (changed) await note(order, request, 'Recorded a payment by bank transfer.', tx);
      return changed;
    });
    if (!paid) throw conflict('not_pending', 'This order is not waiting for a payment.');
    await queuePaidOrder(db, queue, paid);
    analytics.capture('Checkout Completed', buyerOf(paid), { order: paid.number, total: paid.total_cents / 100, method: 'bank transfer' });
    return { ok: true };
  });

  app.post('/orders/:number/cancel', adminOnly, async (request) => {
    const order = await orderOf(request);
    const done = await db.transaction((tx) => cancelPending(tx, order.id));
    if (!done) throw conflict('not_pending', 'Only an unpaid order can be cancelled.');
    await note(order, request, 'Cancelled the order and released its stock.');
    return { ok: true };
  });

  app.post('/orders/:number/refund', adminOnly, async (request) => {
    const order = await orderOf(request);
    if (!['paid', 'shipped'].includes(order.status)) throw conflict('not_refundable', 'Only a paid order can be refunded.');
    if (order.payment_intent) await payments.refund(order).catch((error) => vendorFailed(error, 'The payment provider did not accept the refund. Nothing was changed.'));
    const refunded = await db.transaction((tx) => markRefunded(tx, order.id));
    if (refunded) {
      await note(order, request, 'Refunded the order in full.');
      await queue.add('ledger.post', { orderId: order.id, kind: 'refund' });
    }
    return { ok: true };
  });

  app.post('/orders/:number/ship', async (request) => {
    const order = await orderOf(request);
    if (order.status !== 'paid') throw conflict('not_paid', 'Only a paid order can be shipped.');
    let tracking = { trackingNumber: String(request.body?.trackingNumber ?? '').trim().slice(0, 60) || null, trackingUrl: null };
    if (request.body?.buyLabel) {
      tracking = await shipping.buyLabel(order).catch((error) => vendorFailed(error, 'The carrier did not give us a label. Please try again, or enter a tracking number.'));
    }
    const { rowCount } = await db.query(
      "UPDATE orders SET status = 'shipped', shipped_at = now(), tracking_number = $2, tracking_url = $3 WHERE id = $1 AND status = 'paid'",
      [order.id, tracking.trackingNumber, tracking.trackingUrl],
    );
    if (!rowCount) throw conflict('not_paid', 'Only a paid order can be shipped.');
    await note(order, request, tracking.trackingNumber ? `Shipped with ${tracking.trackingNumber}.` : 'Marked as shipped.');
    await queue.add('shipped.send', { orderNumber: order.number });
    return { ok: true };
  });

  app.post('/orders/:number/resend-receipt', async (request) => {
    const order = await orderOf(request);
    if (order.status === 'payment_pending') throw conflict('not_paid', 'There is no receipt before the payment.');
    await queue.add('receipt.send', { orderNumber: order.number, again: true });
    await note(order, request, 'Sent the receipt again.');
    return { ok: true };
  });

  app.get('/orders/:number/invoice', async (request) => {
    const order = await orderOf(request);
    if (!order.invoice_key) throw notFound('invoice yet');
    return { url: await storage.link(order.invoice_key) };
  });

  app.get('/products', async (request) => {
    const [found, categories] = await Promise.all([
      products.search({ text: String(request.query.q ?? '').trim(), category: request.query.category, sort: 'name', all: true }),
      products.categories(),
    ]);
    return { products: found.map(presentProduct), categories };
  });

  const productOf = async (request) => {
    const id = Number(request.params.id);
    const product = Number.isSafeInteger(id) ? await products.byId(id) : null;
    if (!product) throw notFound('product');
    return product;
  };

  app.get('/products/:id', async (request) => ({ product: presentProduct(await productOf(request)), categories: await products.categories() }));

  app.put('/products/:id', adminOnly, async (request) => {
    const product = await productOf(request);
    const body = request.body ?? {};
    const fields = {};
    const name = String(body.name ?? '').trim();
    const priceCents = parseMoney(body.price);
    const stock = /^\d{1,5}$/.test(String(body.stock ?? '').trim()) ? Number(body.stock) : null;
    const categories = await products.categories();
    if (!name || name.length > 120) fields.name = 'Please give a name of at most 120 characters.';
    if (!priceCents) fields.price = 'Please give a price such as 24.90.';
    if (stock === null) fields.stock = 'Please give a whole number.';
    if (!categories.some((c) => c.slug === body.category)) fields.category = 'Please choose a category.';
    if (Object.keys(fields).length) throw badRequest('product_invalid', 'Please check the marked fields.', { fields });
    const changed = await products.update(product.id, {
      name, priceCents, stock, category: body.category, active: Boolean(body.active),
      tagline: String(body.tagline ?? '').trim().slice(0, 200), description: String(body.description ?? '').trim().slice(0, 4000),
    });
    if (stock !== product.stock) {
      await db.query("INSERT INTO stock_movements (product_id, quantity, reason) VALUES ($1, $2, 'correction')", [product.id, stock - product.stock]);
    }
    return { product: presentProduct(changed) };
  });

  app.put('/products/:id/image', { ...adminOnly, bodyLimit: config.UPLOAD_MAX_BYTES }, async (request) => {
    const product = await productOf(request);
    const kind = sniffImage(request.body);
    if (!kind) throw new AppError(415, 'not_an_image', 'Please choose a PNG, JPEG or WebP image.');
    const key = `products/${product.slug}/${randomUUID()}.${kind.extension}`;
    try {
      await storage.put(key, request.body, kind.type, { cache: 'public, max-age=31536000, immutable' });
    } catch (error) {
      errors.report(error, { tags: { vendor: 's3' } });
      throw new AppError(422, 'storage_failed', 'The image could not be stored. The product keeps its present image.');
    }
    const changed = await products.setImage(product.id, key);
    await queue.add('image.thumbnail', { productId: product.id, key });
    return { product: presentProduct(changed) };
  });

  app.post('/products/:id/describe', adminOnly, async (request) => {
    const product = await productOf(request);
    const text = await copywriter
      .describe(product, String(request.body?.hint ?? '').slice(0, 300))
      .catch((error) => vendorFailed(error, 'The writing assistant is not available at the moment.'));
    analytics.capture('Product Text Written', request.session.visitor, { product: product.slug });
    return { text };
  });

  app.get('/users', async () => ({ users: await users.list() }));

  app.put('/users/:id', adminOnly, async (request) => {
    const id = Number(request.params.id);
    if (id === request.user.id) throw conflict('own_account', 'You cannot change your own account here.');
    if (!(Number.isSafeInteger(id) && (await users.byId(id)))) throw notFound('user');
    if (request.body?.role !== undefined) {
      if (!['customer', 'support', 'admin'].includes(request.body.role)) throw badRequest('role_invalid', 'There is no such role.');
      await users.setRole(id, request.body.role);
    }
    if (request.body?.disabled !== undefined) await users.setDisabled(id, Boolean(request.body.disabled));
    return { ok: true };
  });

  app.get('/reports/sell-through', async (request) => {
    const started = Date.now();
    const days = request.query.days === '7' ? 7 : 30;
    const rows = await sellThrough(db, days);
    return { days, rows, tookMs: Date.now() - started };
  });

  app.get('/settlements', async () => ({ settlements: (await db.query('SELECT * FROM settlements ORDER BY day DESC LIMIT 31')).rows }));
  app.post('/settlements', adminOnly, async (request) => {
    const day = String(request.body?.day || previousDay(new Date()));
    if (!validDay(day)) throw badRequest('day_invalid', `Please give a day as ${DAY}.`);
    return { settlement: await settle(db, day) };
  });

  app.get('/jobs', async () => queue.overview());
  app.post('/jobs/:id/retry', adminOnly, async (request) => {
    if (!(await queue.retryDead(request.params.id))) throw notFound('job');
    return { ok: true };
  });
}
