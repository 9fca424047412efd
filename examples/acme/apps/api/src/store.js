/** Reads and writes of the API that are not part of a longer transaction. */
export function createUsers(db) {
  return {
    byId: (id) => db.one('SELECT * FROM users WHERE id = $1', [id]),
    byEmail: (email) => db.one('SELECT * FROM users WHERE email = $1', [email]),
    /** Returns null when the address is taken. */
    create: (user) =>
      db.one(
        'INSERT INTO users (email, name, password_hash) VALUES ($1, $2, $3) ON CONFLICT (email) DO NOTHING RETURNING *',
        [user.email, user.name, user.passwordHash],
      ),
    sawLogin: (id) => db.query('UPDATE users SET last_login_at = now() WHERE id = $1', [id]),
    update: (id, { name, address }) => db.one('UPDATE users SET name = $2, address = $3 WHERE id = $1 RETURNING *', [id, name, JSON.stringify(address)]),
    list: async () =>
      (
        await db.query(
          `SELECT u.id, u.email, u.name, u.role, u.disabled_at, u.last_login_at, u.created_at,
                  count(o.id)::int AS orders, COALESCE(sum(o.total_cents) FILTER (WHERE o.status IN ('paid', 'shipped')), 0)::bigint AS spent_cents
             FROM users u LEFT JOIN orders o ON o.user_id = u.id GROUP BY u.id ORDER BY u.created_at, u.id LIMIT 200`,
        )
      ).rows,
    setRole: (id, role) => db.one('UPDATE users SET role = $2 WHERE id = $1 RETURNING id, role', [id, role]),
    setDisabled: (id, disabled) =>
      db.one('UPDATE users SET disabled_at = CASE WHEN $2 THEN now() END WHERE id = $1 RETURNING id', [id, disabled]),
  };
}

const SORTS = { new: 'p.created_at DESC, p.id', price: 'p.price_cents, p.id', 'price-desc': 'p.price_cents DESC, p.id', name: 'p.name' };

export function createProducts(db) {
  const columns = 'p.*, c.name AS category_name';
  const from = 'FROM products p JOIN categories c ON c.slug = p.category_slug';
  return {
    categories: async () =>
      (
        await db.query(
          `SELECT c.slug, c.name, count(p.id) FILTER (WHERE p.active)::int AS products
             FROM categories c LEFT JOIN products p ON p.category_slug = c.slug GROUP BY c.slug ORDER BY c.position`,
        )
      ).rows,
    async search({ category, text, sort, all = false }) {
      const values = [];
      const where = all ? ['true'] : ['p.active'];
      if (category) where.push(`p.category_slug = $${values.push(category)}`);
      if (text) where.push(`(p.name || ' ' || p.tagline || ' ' || p.description) ILIKE $${values.push(`%${text.replace(/[\\%_]/g, '\\$&')}%`)}`);
      const { rows } = await db.query(`SELECT ${columns} ${from} WHERE ${where.join(' AND ')} ORDER BY ${SORTS[sort] ?? 'p.id'} LIMIT 100`, values);
      return rows;
    },
    bySlug: (slug) => db.one(`SELECT ${columns} ${from} WHERE p.slug = $1`, [slug]),
    byId: (id) => db.one(`SELECT ${columns} ${from} WHERE p.id = $1`, [id]),
    byIds: async (ids) => (ids.length ? (await db.query('SELECT * FROM products WHERE id = ANY($1::bigint[])', [ids])).rows : []),
    related: async (product) =>
      (
        await db.query(`SELECT ${columns} ${from} WHERE p.active AND p.id <> $1 ORDER BY (p.category_slug = $2) DESC, p.id LIMIT 4`, [
          product.id, product.category_slug,
        ])
      ).rows,
    update: (id, p) =>
      db.one(
        `UPDATE products SET name = $2, tagline = $3, description = $4, price_cents = $5, stock = $6, category_slug = $7, active = $8, updated_at = now()
          WHERE id = $1 RETURNING *`,
        [id, p.name, p.tagline, p.description, p.priceCents, p.stock, p.category, p.active],
      ),
    setImage: (id, image) => db.one('UPDATE products SET image = $2, thumbnail = NULL, updated_at = now() WHERE id = $1 RETURNING *', [id, image]),
    setDescription: (id, text) => db.one('UPDATE products SET description = $2, updated_at = now() WHERE id = $1 RETURNING *', [id, text]),
  };
}

export const createCoupons = (db) => ({
  byCode: (code) => (code ? db.one('SELECT * FROM coupons WHERE code = $1', [code]) : null),
});
