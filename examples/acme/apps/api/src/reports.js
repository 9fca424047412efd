/**
 * How much of each product was sold on each of the last days, beside what is
 * left of it.
 */
export async function sellThrough(db, days) {
  const { rows: products } = await db.query('SELECT id, slug, name, stock, price_cents FROM products ORDER BY name');
  const report = [];
  for (const product of products) {
    const perDay = [];
    for (let ago = days - 1; ago >= 0; ago -= 1) {
      const { rows } = await db.query(
        `SELECT COALESCE(-sum(quantity), 0)::int AS sold
           FROM stock_movements
          WHERE product_id = $1
            AND reason = 'sale'
            AND date_trunc('day', created_at) = date_trunc('day', now() - make_interval(days => $2))`,
        [product.id, ago],
      );
      perDay.push(rows[0].sold);
    }
    const sold = perDay.reduce((sum, n) => sum + n, 0);
    report.push({
      slug: product.slug,
      name: product.name,
      stock: product.stock,
      perDay,
      sold,
      revenueCents: sold * product.price_cents,
      daysOfStock: sold > 0 ? Math.round((product.stock / sold) * days) : null,
    });
  }
  return report.sort((a, b) => b.sold - a.sold);
}
