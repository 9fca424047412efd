import { badRequest } from '../errors.js';
import { formatMoney, percentOf } from './money.js';

/**
 * @typedef {object} Coupon
 * @property {string} code
 * @property {'percent' | 'fixed'} kind
 * @property {number} value percent, or cents
 * @property {{minimumCents?: number, capCents?: number} | null} terms
 * @property {boolean} active
 * @property {Date | null} expires_at
 */

export const normaliseCode = (code) => String(code ?? '').trim().toUpperCase();

/** Refuses a coupon that cannot be used for this subtotal. @param {Coupon | null} coupon */
export function checkCoupon(coupon, subtotalCents, now = new Date()) {
  if (!coupon || !coupon.active) throw badRequest('coupon_unknown', 'This code is not valid.');
  if (coupon.expires_at && coupon.expires_at <= now) throw badRequest('coupon_expired', 'This code has expired.');
  const minimum = coupon.terms?.minimumCents ?? 0;
  if (subtotalCents < minimum) {
    throw badRequest('coupon_minimum', `This code needs an order of at least ${formatMoney(minimum)}.`);
  }
}

/** @param {Coupon | null} coupon @returns {number} never more than the subtotal */
export function discountFor(coupon, subtotalCents) {
  if (!coupon) return 0;
  if (coupon.kind === 'fixed') return Math.min(coupon.value, subtotalCents);
  const discount = percentOf(subtotalCents, coupon.value);
  const { capCents = discount } = coupon.terms;
  return Math.min(discount, capCents, subtotalCents);
}
