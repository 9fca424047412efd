import { checkCoupon } from '@acme/shared/domain/coupons';
import { applyFreeShipping, priceOrder } from '@acme/shared/domain/pricing';
import { countItems, joinCart } from '@acme/shared/domain/cart';
import { placeOrder, readOrder, withItems } from '@acme/shared/domain/orders';
import { AppError, badRequest, conflict } from '@acme/shared/errors';

export const FREE_SHIPPING_FLAG = 'free-standard-shipping';

/** From a cart to an order with a payment page. */
export function createCheckout({ db, products, coupons, shipping, tax, payments, analytics, errors, redis }) {
  /** The cart as it would be sold now; a coupon that no longer fits is dropped and named. */
  async function viewCart(session) {
    const { lines, gone } = joinCart(session.cart, await products.byIds(Object.keys(session.cart).map(Number)));
    let coupon = await coupons.byCode(session.coupon);
    let couponProblem = null;
    if (coupon) {
      try {
        checkCoupon(coupon, priceOrder({ lines }).subtotalCents);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        couponProblem = error.message;
        coupon = null;
      }
    }
    return { lines, gone, coupon, couponProblem, count: countItems(session.cart), totals: priceOrder({ lines, coupon }) };
  }

  async function quote(session, method) {
    const cart = await viewCart(session);
    if (!cart.lines.length) throw badRequest('cart_empty', 'Your cart is empty.');
    if (!session.checkout) throw badRequest('address_missing', 'Please give a delivery address first.');
    const { address } = session.checkout;
    const goodsCents = cart.totals.subtotalCents - cart.totals.discountCents;
    const weightGrams = cart.lines.reduce((sum, line) => sum + line.weightGrams * line.quantity, 0);
    const [quoted, offer] = await Promise.all([
      shipping.rates({ address, weightGrams }),
      analytics.flag(FREE_SHIPPING_FLAG, session.visitor),
    ]);
    const rates = applyFreeShipping(quoted, goodsCents, offer);
    const chosen = rates.find((rate) => rate.method === method) ?? rates[0];
    const taxes = await tax.forOrder({
      address, goodsCents, shippingCents: chosen.cents, lines: cart.lines, discountCents: cart.totals.discountCents,
    });
    const totals = priceOrder({ lines: cart.lines, coupon: cart.coupon, shippingCents: chosen.cents, taxCents: taxes.cents });
    return { ...cart, rates, chosen, tax: taxes, totals, address, email: session.checkout.email };
  }

  /** Asks for a payment page. When the provider does not answer the order simply stays pending. */
  async function startPayment(order) {
    if (order.status !== 'payment_pending') throw conflict('not_payable', 'This order is not waiting for a payment.');
    try {
      const page = await payments.start(order);
      await db.query('UPDATE orders SET payment_session = $2, payment_attempts = payment_attempts + 1, payment_error = NULL WHERE id = $1', [order.id, page.id]);
      return { url: page.url };
    } catch (error) {
      errors.report(error, { tags: { vendor: 'stripe', order: order.number } });
      const message = 'We could not reach our payment provider.';
      await db.query('UPDATE orders SET payment_attempts = payment_attempts + 1, payment_error = $2 WHERE id = $1', [order.id, message]);
      return { error: message };
    }
  }

  async function submit({ session, user, method, expectedTotal }) {
    // One checkout per session at a time: a double click must not buy twice.
    const lock = `acme:checkout:${session.visitor}`;
    if (!(await redis.set(lock, '1', 'EX', 30, 'NX'))) throw conflict('checkout_running', 'Your order is already being placed.');
    try {
      const offer = await quote(session, method);
      if (offer.gone.length) throw conflict('product_gone', 'A product in your cart is no longer sold. Please look at your cart again.');
      if (expectedTotal !== undefined && Number(expectedTotal) !== offer.totals.totalCents) {
        throw conflict('total_changed', 'The total has changed in the meantime. Please check it again.');
      }
      const placed = await placeOrder(db, {
        userId: user?.id ?? null, email: offer.email, visitor: session.visitor, address: offer.address, lines: offer.lines, coupon: offer.coupon, shipping: offer.chosen, tax: offer.tax,
      });
      const order = await withItems(db, placed);
      analytics.capture('Order Placed', session.visitor, { order: order.number, total: order.total_cents / 100, items: countItems(session.cart) });
      return { order, payment: await startPayment(order) };
    } finally {
      await redis.del(lock).catch(() => {});
    }
  }

  return { viewCart, quote, submit, startPayment, read: (number) => readOrder(db, number) };
}
