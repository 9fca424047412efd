import { discountFor } from './coupons.js';

export const FREE_SHIPPING_FROM_CENTS = 7_500;

/**
 * @typedef {object} Line
 * @property {number} productId
 * @property {string} name
 * @property {number} unitPriceCents always from the database
 * @property {number} quantity
 */

/** @param {Line[]} lines */
export const subtotal = (lines) => lines.reduce((sum, line) => sum + line.unitPriceCents * line.quantity, 0);

/**
 * The one place that adds up an order.
 * @param {{lines: Line[], coupon?: import('./coupons.js').Coupon | null, shippingCents?: number, taxCents?: number}} input
 */
export function priceOrder({ lines, coupon = null, shippingCents = 0, taxCents = 0 }) {
  const subtotalCents = subtotal(lines);
  const discountCents = discountFor(coupon, subtotalCents);
  const amounts = { subtotalCents, discountCents, shippingCents, taxCents };
  for (const [name, value] of Object.entries(amounts)) {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} is not an amount: ${value}`);
  }
  return { ...amounts, totalCents: subtotalCents - discountCents + shippingCents + taxCents };
}

/** Standard delivery becomes free above a threshold, when the offer is on. */
export function applyFreeShipping(rates, goodsCents, offerOn) {
  if (!offerOn || goodsCents < FREE_SHIPPING_FROM_CENTS) return rates;
  return rates.map((rate) => (rate.method === 'standard' ? { ...rate, cents: 0, free: true } : rate));
}
