import test from 'node:test';
import assert from 'node:assert/strict';
import { priceOrder, applyFreeShipping } from '@acme/shared/domain/pricing';
import { checkCoupon, discountFor, normaliseCode } from '@acme/shared/domain/coupons';
import { formatMoney, parseMoney } from '@acme/shared/domain/money';
import { addQuantity, joinCart, MAX_QUANTITY, parseQuantity, setQuantity } from '@acme/shared/domain/cart';
import { parseAddress, validEmail } from '@acme/shared/domain/address';
import { previousDay, summarise, validDay } from '@acme/shared/domain/settlement';
import { EntryOnHold, postEntry } from '@acme/shared/domain/ledger';

const lines = [
  { productId: 1, name: 'Teapot', unitPriceCents: 5400, quantity: 1 },
  { productId: 2, name: 'Mugs', unitPriceCents: 3200, quantity: 2 },
];
const percent = { code: 'TEN', kind: 'percent', value: 10, terms: { minimumCents: 2000, capCents: 1000 }, active: true, expires_at: null };
const fixed = { code: 'FIVE', kind: 'fixed', value: 500, terms: null, active: true, expires_at: null };

test('an order adds up in whole cents', () => {
  assert.deepEqual(priceOrder({ lines, coupon: fixed, shippingCents: 590, taxCents: 321 }), {
    subtotalCents: 11800, discountCents: 500, shippingCents: 590, taxCents: 321, totalCents: 12211,
  });
});

test('an amount that is not one is refused', () => {
  assert.throws(() => priceOrder({ lines, shippingCents: -1 }), /shippingCents/);
  assert.throws(() => priceOrder({ lines, taxCents: 0.5 }), /taxCents/);
  assert.throws(() => priceOrder({ lines: [{ ...lines[0], unitPriceCents: Number.NaN }] }), /subtotalCents/);
});

test('a percentage is rounded and capped', () => {
  assert.equal(discountFor(percent, 5005), 501);
  assert.equal(discountFor(percent, 50_000), 1000);
  assert.equal(discountFor({ ...percent, terms: {} }, 50_000), 5000);
});

test('a discount is never more than the goods', () => {
  assert.equal(discountFor(fixed, 300), 300);
  assert.equal(discountFor({ ...percent, value: 100, terms: {} }, 300), 300);
  assert.equal(discountFor(null, 300), 0);
});

test('a coupon that cannot be used says why', () => {
  const code = (coupon, subtotal = 5000) => {
    try {
      checkCoupon(coupon, subtotal, new Date('2026-01-01'));
      return 'fine';
    } catch (error) {
      return error.code;
    }
  };
  assert.equal(code(percent), 'fine');
  assert.equal(code(null), 'coupon_unknown');
  assert.equal(code({ ...percent, active: false }), 'coupon_unknown');
  assert.equal(code({ ...percent, expires_at: new Date('2025-12-31') }), 'coupon_expired');
  assert.equal(code(percent, 1999), 'coupon_minimum');
  assert.equal(normaliseCode(' welcome10 '), 'WELCOME10');
});

test('standard delivery is free only with the offer and above the threshold', () => {
  const rates = [{ method: 'standard', cents: 590 }, { method: 'express', cents: 1490 }];
  assert.deepEqual(applyFreeShipping(rates, 7500, true).map((r) => r.cents), [0, 1490]);
  assert.deepEqual(applyFreeShipping(rates, 7499, true).map((r) => r.cents), [590, 1490]);
  assert.deepEqual(applyFreeShipping(rates, 99_000, false).map((r) => r.cents), [590, 1490]);
});

test('money is read and written exactly', () => {
  assert.equal(formatMoney(123456), '$1,234.56');
  assert.equal(parseMoney('24.9'), 2490);
  assert.equal(parseMoney('$1900'), 190000);
  for (const text of ['', '-1', '1.234', '1e3', 'abc', '12345678']) assert.equal(parseMoney(text), null, text);
});

test('quantities of a cart are whole, not negative and not huge', () => {
  assert.equal(parseQuantity('3'), 3);
  assert.equal(parseQuantity(0), 0);
  for (const value of [-1, '-1', 1.5, '1.5', 'abc', Number.NaN, Infinity, null, undefined, {}, '9e9']) {
    assert.throws(() => parseQuantity(value), { code: 'quantity_invalid' }, String(value));
  }
  assert.throws(() => parseQuantity(MAX_QUANTITY + 1), { code: 'quantity_too_large' });
  assert.throws(() => addQuantity({ 1: 15 }, 1, 6), { code: 'quantity_too_large' });
  assert.throws(() => addQuantity({}, 1, 0), { code: 'quantity_invalid' });
  assert.deepEqual(setQuantity({ 1: 2, 2: 1 }, 1, 0), { 2: 1 });
});

test('prices come from the products, and what is gone is named', () => {
  const product = { id: 1, slug: 'a', name: 'A', price_cents: 900, weight_grams: 10, stock: 1, active: true, image: null, thumbnail: null };
  const { lines: joined, gone } = joinCart({ 1: 2, 2: 1, 3: 1 }, [product, { ...product, id: 3, active: false }]);
  assert.deepEqual(joined.map((l) => [l.unitPriceCents, l.quantity, l.available]), [[900, 2, false]]);
  assert.deepEqual(gone, [2, 3]);
});

test('an address names every field that is wrong', () => {
  assert.throws(() => parseAddress({ name: 'A', street: '', city: 'B', state: 'Oregon', zip: '!', country: 'FR' }), (error) => {
    assert.deepEqual(Object.keys(error.details.fields).sort(), ['country', 'state', 'street', 'zip']);
    return true;
  });
  assert.equal(parseAddress({ name: ' A ', street: 'S', city: 'C', state: 'or', zip: '97209' }).state, 'OR');
});

test('mail addresses are checked', () => {
  assert.ok(validEmail('a@b.example'));
  for (const text of ['a', 'a@b', '@b.example', 'a b@c.example', '<a@b.example>', null]) assert.equal(validEmail(text), false, String(text));
});

test('a settlement sums what was posted', () => {
  assert.deepEqual(
    summarise([
      { kind: 'payment', amount_cents: 10_000, tax_cents: 600 },
      { kind: 'payment', amount_cents: 5000, tax_cents: 0 },
      { kind: 'refund', amount_cents: -5000, tax_cents: 0 },
    ]),
    { payments: 2, grossCents: 15_000, refunds: 1, refundedCents: 5000, taxCents: 600, netCents: 9400 },
  );
  assert.deepEqual(summarise([]).refundedCents, 0);
  assert.equal(previousDay(new Date('2026-03-01T00:30:00Z')), '2026-02-28');
  assert.ok(validDay('2026-02-28'));
  assert.equal(validDay('2026-02-30'), false);
  assert.equal(validDay('yesterday'), false);
});

test('a ledger entry on hold is refused, then posted once', async () => {
  const entry = { id: 7, held_until: new Date(5000), posted_at: null };
  const updates = [];
  const db = { query: async (sql) => (sql.startsWith('SELECT') ? { rows: [entry] } : (updates.push(sql), { rowCount: 1 })) };
  await assert.rejects(postEntry(db, { orderId: 1, kind: 'payment' }, new Date(4999)), EntryOnHold);
  assert.deepEqual(await postEntry(db, { orderId: 1, kind: 'payment' }, new Date(5001)), { posted: true });
  entry.posted_at = new Date();
  assert.deepEqual(await postEntry(db, { orderId: 1, kind: 'payment' }, new Date(5001)), { posted: false });
  assert.equal(updates.length, 1);
});
