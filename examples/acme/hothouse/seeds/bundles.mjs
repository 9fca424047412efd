/**
 * Small pieces of data. Each is given what the ones before it told, and tells
 * what it made: ids, paths, roles, selectors, effects, caveats.
 */
import { hashPassword } from '@acme/shared/password';
import { categories, coupons as codes, customers, products, staff } from '../../seed/data.mjs';
import { seedCatalogue, seedCoupons, seedHistory } from '../../seed/load.mjs';

const one = async (tx, sql, values) => (await tx.query(sql, values)).rows[0];

/** z: what the shop needs to show anything. */
export async function catalogue(tx) {
  const { n } = await one(tx, 'SELECT count(*)::int AS n FROM products');
  if (n === 0) await seedCatalogue(tx, { categories, products });
  const { rows } = await tx.query('SELECT id, slug FROM products ORDER BY id');
  return {
    ids: Object.fromEntries(rows.slice(0, 3).map(({ id, slug }) => [`product.${slug}`, Number(id)])),
    paths: { home: '/', shop: '/shop', product: '/products/aurora-table-lamp', last_one: '/products/perch-stool' },
    selectors: { add_to_cart: 'button[type=submit]' },
  };
}

async function people(tx, users) {
  const ids = {};
  for (const user of users) {
    const known = await one(tx, 'SELECT id FROM users WHERE email = $1', [user.email]);
    const made = known ?? (await one(
      tx,
      "INSERT INTO users (email, name, password_hash, role, address, created_at) VALUES ($1, $2, $3, $4, $5, now() - interval '90 days') RETURNING id",
      [user.email, user.name, await hashPassword(user.password), user.role, user.address ? JSON.stringify(user.address) : null],
    ));
    ids[`user.${user.email.split('@')[0]}`] = Number(made.id);
  }
  return ids;
}

/** s: somebody who buys. */
export async function customer(tx) {
  const [first] = customers;
  return {
    ids: await people(tx, customers),
    roles: { customer: { app: 'web', email: first.email, password: first.password, login: '/login' } },
    paths: { account: '/account' },
  };
}

/** s: somebody who works here. */
export async function admin(tx) {
  const roles = Object.fromEntries(staff.map(({ role, email, password }) => [role, { app: 'admin', email, password, login: '/login' }]));
  return { ids: await people(tx, staff), roles, paths: { back_office: '/', reports: '/reports/sell-through' } };
}

/** m: codes for the cart. */
export async function coupons(tx) {
  const { n } = await one(tx, 'SELECT count(*)::int AS n FROM coupons');
  if (n === 0) await seedCoupons(tx, codes);
  return { coupons: { valid: 'WELCOME10', fixed: 'TENOFF', expired: 'SUMMER24' }, selectors: { coupon: 'input[name=code]' } };
}

/** m: a few weeks of sales. */
export async function history(tx) {
  await seedHistory(tx);
  const latest = await one(tx, "SELECT id, number FROM orders WHERE status = 'shipped' AND email NOT LIKE 'crowd%' ORDER BY id DESC LIMIT 1");
  return {
    ids: { 'order.shipped': Number(latest.id) },
    orders: { shipped: latest.number },
    paths: { orders: '/orders', shipped_order: `/orders/${latest.number}` },
  };
}

/** l: an order that only waits for its payment. */
export async function pendingOrder(tx) {
  const key = 'seedpending'.padEnd(64, '0');
  const [{ email, address }] = customers;
  const user = await one(tx, 'SELECT id FROM users WHERE email = $1', [email]);
  const product = await one(tx, "SELECT id, name, price_cents FROM products WHERE slug = 'harbour-teapot'");
  let order = await one(tx, 'SELECT id, number FROM orders WHERE access_key = $1', [key]);
  if (!order) {
    order = await one(
      tx,
      `INSERT INTO orders (access_key, user_id, email, subtotal_cents, shipping_cents, tax_cents, total_cents, address, shipping_method)
       VALUES ($1, $2, $3, $4, 690, 0, $4 + 690, $5, 'Standard') RETURNING id, number`,
      [key, user.id, email, product.price_cents, JSON.stringify(address)],
    );
    await tx.query(
      'INSERT INTO order_items (order_id, product_id, name, unit_price_cents, quantity) VALUES ($1, $2, $3, $4, 1)',
      [order.id, product.id, product.name, product.price_cents],
    );
  }
  return {
    ids: { 'order.pending': Number(order.id) },
    orders: { pending: order.number },
    paths: { pending_order: `/orders/${order.number}?key=${key}` },
    effects: ['paying the pending order sends one receipt and captures "Checkout Completed" once'],
  };
}

/** l: two products that nobody can have any more. */
export async function soldOut(tx) {
  const { rows } = await tx.query("UPDATE products SET stock = 0 WHERE slug IN ('heather-throw', 'arc-vase') RETURNING slug");
  return { paths: { sold_out: `/products/${rows[0].slug}` }, caveats: ['heather-throw and arc-vase are sold out'] };
}

/** xl: thousands of people and orders, made by the database itself. */
export async function crowd(tx) {
  await tx.query(`
    INSERT INTO users (email, name, password_hash, role, address, created_at)
    SELECT 'crowd' || n || '@acme.example', 'Customer ' || n, 'no-password', 'customer', NULL, now() - make_interval(hours => n)
      FROM generate_series(1, 2000) AS n ON CONFLICT (email) DO NOTHING`);
  await tx.query(`
    INSERT INTO orders (access_key, user_id, email, status, subtotal_cents, shipping_cents, tax_cents, total_cents, address, shipping_method, payment_method, placed_at, paid_at, shipped_at)
    SELECT encode(sha256(('crowd' || u.id)::bytea), 'hex'), u.id, u.email, 'shipped', 2400, 690, 96, 3186,
           '{"name": "Customer", "street": "1 Crowd Street", "city": "Seattle", "state": "WA", "zip": "98101", "country": "US"}', 'Standard', 'card',
           u.created_at, u.created_at + interval '2 minutes', u.created_at + interval '1 day'
      FROM users u WHERE u.email LIKE 'crowd%@acme.example'
       AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.user_id = u.id)`);
  const { n } = await one(tx, "SELECT count(*)::int AS n FROM users WHERE email LIKE 'crowd%@acme.example'");
  return { counts: { crowd: n }, caveats: ['nobody of the crowd can sign in'] };
}
