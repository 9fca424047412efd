import { cancelPending } from './orders.js';

const LOCK = 727_002;
const ABANDONED_AFTER = '24 hours';

/** @param {Date} now @returns {string} the day before, in UTC, as YYYY-MM-DD */
export const previousDay = (now) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() - 1)).toISOString().slice(0, 10);

export function validDay(text) {
  return /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString().startsWith(text);
}

/** @param {{kind: string, amount_cents: number, tax_cents: number}[]} entries */
export function summarise(entries) {
  const payments = entries.filter((entry) => entry.kind === 'payment');
  const refunds = entries.filter((entry) => entry.kind === 'refund');
  const sum = (list, field) => list.reduce((total, entry) => total + entry[field], 0);
  const grossCents = sum(payments, 'amount_cents');
  const refundedCents = -sum(refunds, 'amount_cents') || 0;
  const taxCents = sum(entries, 'tax_cents');
  return {
    payments: payments.length,
    grossCents,
    refunds: refunds.length,
    refundedCents,
    taxCents,
    netCents: grossCents - refundedCents - taxCents,
  };
}

/**
 * Closes a day: sums what was posted and gives back the stock of orders that
 * were never paid. Running it again for the same day writes the same result.
 */
export function settle(db, day) {
  return db.transaction(async (tx) => {
    await tx.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
    const { rows: entries } = await tx.query(
      `SELECT kind, amount_cents, tax_cents FROM ledger_entries
        WHERE posted_at >= $1::date AT TIME ZONE 'UTC' AND posted_at < ($1::date + 1) AT TIME ZONE 'UTC'`,
      [day],
    );
    const { rows: abandoned } = await tx.query(
      `SELECT id FROM orders WHERE status = 'payment_pending' AND placed_at < now() - interval '${ABANDONED_AFTER}' ORDER BY id FOR UPDATE SKIP LOCKED`,
    );
    for (const order of abandoned) await cancelPending(tx, order.id);
    const totals = summarise(entries);
    const { rows } = await tx.query(
      `INSERT INTO settlements (day, payments, gross_cents, refunds, refunded_cents, tax_cents, net_cents, released)
       VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
       ON CONFLICT (day) DO UPDATE SET payments = EXCLUDED.payments, gross_cents = EXCLUDED.gross_cents, refunds = EXCLUDED.refunds,
         refunded_cents = EXCLUDED.refunded_cents, tax_cents = EXCLUDED.tax_cents, net_cents = EXCLUDED.net_cents,
         released = settlements.released + EXCLUDED.released, created_at = now()
       RETURNING *`,
      [day, totals.payments, totals.grossCents, totals.refunds, totals.refundedCents, totals.taxCents, totals.netCents, abandoned.length],
    );
    return rows[0];
  });
}
