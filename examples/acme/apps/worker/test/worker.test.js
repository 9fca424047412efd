import test from 'node:test';
import assert from 'node:assert/strict';
import { createQueue } from '@acme/shared/queue';
import { createLoop } from '../src/loop.js';
import { createJobs, makeThumbnail } from '../src/jobs.js';
import { settlementDue } from '../src/schedule.js';
import { invoiceHtml, receiptMail } from '../src/templates.js';
import { FakeRedis, quiet } from '../../../packages/shared/test/support.js';

const order = {
  id: 1, number: 'A-1', access_key: 'key12345678', email: 'a@b.example', subtotal_cents: 1000, discount_cents: 100, coupon_code: 'TEN', shipping_cents: 590, tax_cents: 0,
  total_cents: 1490, shipping_method: 'Standard', payment_method: 'card', placed_at: new Date('2026-01-02'), paid_at: new Date('2026-01-02'), receipt_sent_at: null,
  address: { name: '<b>Robin</b>', street: 'S & T', city: 'C', state: 'OR', zip: '97209', country: 'US' }, items: [{ name: 'Mug "big"', unit_price_cents: 500, quantity: 2 }],
};

function fakeDb(row = order) {
  const updates = [];
  return {
    updates,
    async query(sql, values) {
      if (/FROM orders WHERE number/.test(sql)) return { rows: values[0] === row.number ? [row] : [] };
      if (/FROM order_items/.test(sql)) return { rows: row.items };
      updates.push([sql, values]);
      return { rows: [], rowCount: 1 };
    },
  };
}
const analytics = { capture() {} };

test('a receipt says what was bought, and data cannot become markup', () => {
  const mail = receiptMail(order, 'https://shop.test');
  assert.equal(mail.to, 'a@b.example');
  assert.match(mail.subject, /receipt.*A-1/i);
  assert.match(mail.text, /Total: \$14\.90/);
  assert.match(mail.text, /https:\/\/shop\.test\/orders\/A-1\?key=key12345678/);
  const text = String(mail.html);
  assert.match(text, /&lt;b&gt;Robin&lt;\/b&gt;/);
  assert.doesNotMatch(text, /<b>Robin/);
  assert.match(invoiceHtml(order), /Mug &quot;big&quot;[\s\S]*\$14\.90/);
});

test('a receipt is sent once, unless staff asks for it again', async () => {
  const sent = [];
  const mailer = { send: async (mail) => sent.push(mail.subject) };
  const jobs = (row) => createJobs({ config: { WEB_URL: 'https://shop.test' }, db: fakeDb(row), mailer, analytics });
  await jobs(order)['receipt.send']({ orderNumber: 'A-1' });
  await jobs({ ...order, receipt_sent_at: new Date() })['receipt.send']({ orderNumber: 'A-1' });
  assert.equal(sent.length, 1);
  await jobs({ ...order, receipt_sent_at: new Date() })['receipt.send']({ orderNumber: 'A-1', again: true });
  assert.equal(sent.length, 2);
});

test('a receipt that could not be sent is not marked as sent', async () => {
  const db = fakeDb();
  const jobs = createJobs({ config: { WEB_URL: 'https://shop.test' }, db, analytics, mailer: { send: async () => { throw new Error('connect ENOTFOUND'); } } });
  await assert.rejects(jobs['receipt.send']({ orderNumber: 'A-1' }), /ENOTFOUND/);
  assert.deepEqual(db.updates, []);
});

test('an invoice goes into the storage and its key into the order', async () => {
  const db = fakeDb();
  const stored = [];
  const jobs = createJobs({ config: {}, db, analytics, storage: { put: async (...args) => stored.push(args) } });
  const key = await jobs['invoice.render']({ orderNumber: 'A-1' });
  assert.match(key, /^invoices\/2026\/A-1-/);
  assert.equal(stored[0][0], key);
  assert.deepEqual(db.updates[0][1], [1, key]);
});

test('a thumbnail is a small WebP of the image', async () => {
  const { default: sharp } = await import('sharp');
  const big = await sharp({ create: { width: 900, height: 600, channels: 3, background: '#a53' } }).png().toBuffer();
  const { width, height, format } = await sharp(await makeThumbnail(big)).metadata();
  assert.deepEqual([width, height, format], [480, 480, 'webp']);
  await assert.rejects(makeThumbnail(Buffer.from('not an image')));
});

test('the ledger job fails twice while the entry is on hold and then works', async () => {
  const clock = { now: 10_000 };
  const queue = createQueue({ redis: new FakeRedis(), now: () => clock.now });
  const entry = { id: 1, held_until: new Date(13_000), posted_at: null };
  const db = { query: async (sql) => (sql.startsWith('SELECT') ? { rows: [entry] } : ((entry.posted_at = new Date()), { rowCount: 1 })) };
  const { postEntry } = await import('@acme/shared/domain/ledger');
  const log = [];
  const loop = createLoop({
    queue, errors: { report: assert.fail },
    jobs: { 'ledger.post': (data) => postEntry(db, data, new Date(clock.now)) },
    log: { ...quiet, info: (c) => log.push(['done', c.attempt]), warn: (c) => log.push(['failed', c.attempt, c.retryInMs]) },
  });
  await queue.add('ledger.post', { orderId: 1, kind: 'payment' });
  for (const wait of [0, 1000, 2000]) {
    clock.now += wait;
    await queue.promote();
    await loop.runOne(await queue.take(loop.worker));
  }
  assert.deepEqual(log, [['failed', 1, 1000], ['failed', 2, 2000], ['done', 3]]);
  assert.ok(entry.posted_at);
  assert.equal((await queue.overview()).dead, 0);
});

test('an unknown job is a dead letter at once, and reported', async () => {
  const queue = createQueue({ redis: new FakeRedis() });
  const reported = [];
  const loop = createLoop({ queue, jobs: {}, log: quiet, errors: { report: (error) => reported.push(error.message) } });
  await queue.add('nonsense', {});
  await loop.runOne(await queue.take(loop.worker));
  assert.match(reported[0], /no job type nonsense/);
  assert.equal((await queue.overview()).dead, 1);
});

test('the settlement is due after its hour, once per day', () => {
  const at = (text) => new Date(text);
  assert.equal(settlementDue(at('2026-05-02T01:59:00Z'), 2, '2026-04-30'), false);
  assert.equal(settlementDue(at('2026-05-02T02:00:00Z'), 2, '2026-04-30'), true);
  assert.equal(settlementDue(at('2026-05-02T09:00:00Z'), 2, '2026-05-01'), false);
  assert.equal(settlementDue(at('2026-05-02T09:00:00Z'), 2, null), true);
});
