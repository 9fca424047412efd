import { hashPassword } from '@acme/shared/password';

/** @param {import('@acme/shared/db').Queryable} tx */
export async function seedCatalogue(tx, { categories, products }) {
  for (const [position, category] of categories.entries()) {
    await tx.query('INSERT INTO categories (slug, name, position) VALUES ($1, $2, $3) ON CONFLICT (slug) DO UPDATE SET name = EXCLUDED.name, position = EXCLUDED.position', [category.slug, category.name, position]);
  }
  for (const p of products) {
    await tx.query(
      `INSERT INTO products (slug, name, tagline, description, category_slug, price_cents, weight_grams, stock, image)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
       ON CONFLICT (slug) DO UPDATE SET name = EXCLUDED.name, tagline = EXCLUDED.tagline, description = EXCLUDED.description, category_slug = EXCLUDED.category_slug,
         price_cents = EXCLUDED.price_cents, weight_grams = EXCLUDED.weight_grams, stock = EXCLUDED.stock, image = EXCLUDED.image, thumbnail = NULL, active = true`,
      [p.slug, p.name, p.tagline, p.description, p.category, p.price, p.weight, p.stock, p.image],
    );
  }
  return products.length;
}

export async function seedUsers(tx, users) {
  for (const user of users) {
    const hash = await hashPassword(user.password);
    await tx.query(
      `INSERT INTO users (email, name, password_hash, role, address, created_at) VALUES ($1, $2, $3, $4, $5, now() - interval '90 days')
       ON CONFLICT (email) DO UPDATE SET name = EXCLUDED.name, password_hash = EXCLUDED.password_hash, role = EXCLUDED.role, address = EXCLUDED.address, disabled_at = NULL`,
      [user.email, user.name, hash, user.role, user.address ? JSON.stringify(user.address) : null],
    );
  }
  return users.length;
}

export async function seedCoupons(tx, coupons) {
  for (const c of coupons) {
    await tx.query(
      `INSERT INTO coupons (code, kind, value, terms, expires_at) VALUES ($1, $2, $3, $4, $5)
       ON CONFLICT (code) DO UPDATE SET kind = EXCLUDED.kind, value = EXCLUDED.value, terms = EXCLUDED.terms, expires_at = EXCLUDED.expires_at, active = true`,
      [c.code, c.kind, c.value, c.terms ? JSON.stringify(c.terms) : null, c.expires ?? null],
    );
  }
}

/**
 * A month of sales: a few dozen orders of the known customers, and the stock
 * movements of the shop's whole past. Done once per database.
 */
export async function seedHistory(tx) {
  const { rows } = await tx.query('SELECT count(*)::int AS n FROM orders');
  if (rows[0].n > 0) return rows[0].n;
  await tx.query(`
    INSERT INTO stock_movements (product_id, quantity, reason, created_at)
    SELECT p.id, -1, 'sale', now() - make_interval(secs => abs(hashtext(p.slug || g.n)::bigint) % 94608000)
      FROM products p CROSS JOIN LATERAL generate_series(1, (2000 + abs(hashtext(p.slug)::bigint) % 5000)::int) AS g (n)`);
  const { rows: products } = await tx.query('SELECT id, name, price_cents FROM products ORDER BY id');
  const { rows: users } = await tx.query("SELECT id, email, address FROM users WHERE role = 'customer' AND address IS NOT NULL ORDER BY id");
  const statuses = ['shipped', 'shipped', 'paid', 'shipped', 'shipped', 'paid', 'shipped', 'payment_pending', 'shipped', 'refunded'];
  const total = 42;
  for (let i = 0; i < total; i += 1) {
    const user = users[(i * 5 + (i % 3)) % users.length];
    const hoursAgo = Math.round((total - i - 0.5) * 8.3 + ((i * 13) % 6));
    let status = statuses[(i * 3) % statuses.length];
    if (status === 'payment_pending' && hoursAgo > 20) status = 'cancelled';
    if (hoursAgo < 40 && status === 'shipped') status = 'paid';
    if (hoursAgo > 90 && status === 'paid') status = 'shipped';
    const items = [products[(i * 4) % products.length], ...(i % 2 ? [products[(i * 4 + 5) % products.length]] : [])].map((p, k) => ({ ...p, quantity: 1 + ((i + k) % 2) }));
    const subtotal = items.reduce((sum, p) => sum + p.price_cents * p.quantity, 0);
    const tax = user.address.state === 'WA' ? Math.round(subtotal * 0.065) : Math.round(subtotal * 0.04);
    const paid = !['payment_pending', 'cancelled'].includes(status);
    const { rows: order } = await tx.query(
      `INSERT INTO orders (access_key, user_id, email, status, subtotal_cents, shipping_cents, tax_cents, total_cents, address, shipping_method, payment_method,
         tracking_number, placed_at, paid_at, shipped_at, refunded_at, receipt_sent_at, jobs_queued_at)
       SELECT encode(sha256(('seed' || $1)::bytea), 'hex'), $2, $3, $4, $5, 690, $6, $5::int + 690 + $6::int, $7, 'Standard', CASE WHEN $8 THEN 'card' END,
         CASE WHEN $4 = 'shipped' THEN '9400 1000 0000 ' || (1000 + $1::int) END, t, CASE WHEN $8 THEN t + interval '2 minutes' END,
         CASE WHEN $4 = 'shipped' THEN t + interval '20 hours' END, CASE WHEN $4 = 'refunded' THEN t + interval '30 hours' END,
         CASE WHEN $8 THEN t + interval '3 minutes' END, CASE WHEN $8 THEN t + interval '2 minutes' END
         FROM (SELECT now() - make_interval(hours => $9) AS t) x RETURNING id, total_cents, tax_cents, paid_at, refunded_at`,
      [String(i), user.id, user.email, status, subtotal, tax, JSON.stringify(user.address), paid, hoursAgo],
    );
    for (const p of items) {
      await tx.query('INSERT INTO order_items (order_id, product_id, name, unit_price_cents, quantity) VALUES ($1, $2, $3, $4, $5)', [order[0].id, p.id, p.name, p.price_cents, p.quantity]);
    }
    for (const [kind, sign, at] of [['payment', 1, order[0].paid_at], ['refund', -1, order[0].refunded_at]]) {
      if (!at) continue;
      await tx.query(
        'INSERT INTO ledger_entries (order_id, kind, amount_cents, tax_cents, held_until, posted_at, created_at) VALUES ($1, $2, $3, $4, $5, $5, $5)',
        [order[0].id, kind, sign * order[0].total_cents, sign * order[0].tax_cents, at],
      );
    }
  }
  return total;
}
