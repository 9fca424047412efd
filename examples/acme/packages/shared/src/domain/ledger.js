/** An entry cannot be posted while it is on hold. */
export class EntryOnHold extends Error {
  constructor(entry) {
    super(`ledger entry ${entry.id} is on hold until ${entry.held_until.toISOString()}`);
    this.name = 'EntryOnHold';
  }
}

/** Posts an entry whose hold is over. Posting twice changes nothing. */
export async function postEntry(db, { orderId, kind }, now = new Date()) {
  const { rows } = await db.query('SELECT * FROM ledger_entries WHERE order_id = $1 AND kind = $2', [orderId, kind]);
  const entry = rows[0];
  if (!entry) throw Object.assign(new Error(`order ${orderId} has no ${kind} entry`), { permanent: true });
  if (entry.posted_at) return { posted: false };
  if (entry.held_until > now) throw new EntryOnHold(entry);
  await db.query('UPDATE ledger_entries SET posted_at = now() WHERE id = $1 AND posted_at IS NULL', [entry.id]);
  return { posted: true };
}
