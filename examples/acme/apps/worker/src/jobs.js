import { buyerOf, readOrder } from '@acme/shared/domain/orders';
import { postEntry } from '@acme/shared/domain/ledger';
import { invoiceHtml, receiptMail, shippedMail, welcomeMail } from './templates.js';

const gone = (what) => Object.assign(new Error(`${what} does not exist`), { permanent: true });

/** A square picture for lists. Never enlarges, always WebP. */
export async function makeThumbnail(bytes) {
  const { default: sharp } = await import('sharp');
  return sharp(bytes, { limitInputPixels: 40_000_000 }).rotate().resize(480, 480, { fit: 'cover', withoutEnlargement: true }).webp({ quality: 78 }).toBuffer();
}

/** What the worker can do. Every job may run more than once. */
export function createJobs({ config, db, storage, mailer, analytics }) {
  const order = async (number) => {
    const found = await readOrder(db, number);
    if (!found) throw gone(`order ${number}`);
    return found;
  };
  return {
    async 'receipt.send'({ orderNumber, again = false }) {
      const found = await order(orderNumber);
      if (found.receipt_sent_at && !again) return 'was sent before';
      await mailer.send(receiptMail(found, config.WEB_URL));
      await db.query('UPDATE orders SET receipt_sent_at = now() WHERE id = $1', [found.id]);
      analytics.capture('Receipt Sent', buyerOf(found), { order: found.number });
      return `sent to ${found.email}`;
    },
    async 'shipped.send'({ orderNumber }) {
      const found = await order(orderNumber);
      await mailer.send(shippedMail(found, config.WEB_URL));
      return `sent to ${found.email}`;
    },
    async 'welcome.send'({ userId }) {
      const user = await db.one('SELECT * FROM users WHERE id = $1', [userId]);
      if (!user) throw gone(`user ${userId}`);
      await mailer.send(welcomeMail(user, config.WEB_URL));
      return `sent to ${user.email}`;
    },
    async 'invoice.render'({ orderNumber }) {
      const found = await order(orderNumber);
      const key = `invoices/${found.placed_at.getUTCFullYear()}/${found.number}-${found.access_key.slice(0, 8)}.html`;
      await storage.put(key, Buffer.from(invoiceHtml(found)), 'text/html; charset=utf-8');
      await db.query('UPDATE orders SET invoice_key = $2 WHERE id = $1', [found.id, key]);
      return key;
    },
    async 'image.thumbnail'({ productId, key }) {
      const thumbnail = key.replace(/\.\w+$/, '-thumb.webp');
      await storage.put(thumbnail, await makeThumbnail(await storage.get(key)), 'image/webp', { cache: 'public, max-age=31536000, immutable' });
      // Only while the product still shows this image: a newer upload has its own job.
      const { rowCount } = await db.query('UPDATE products SET thumbnail = $3 WHERE id = $1 AND image = $2', [productId, key, thumbnail]);
      return rowCount ? thumbnail : 'image was replaced meanwhile';
    },
    async 'ledger.post'(data) {
      const { posted } = await postEntry(db, data);
      return posted ? 'posted' : 'was posted before';
    },
  };
}
