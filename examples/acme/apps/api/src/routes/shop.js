import { addQuantity, countItems, parseQuantity, setQuantity } from '@acme/shared/domain/cart';
import { checkCoupon, discountFor, normaliseCode } from '@acme/shared/domain/coupons';
import { parseAddress, validEmail } from '@acme/shared/domain/address';
import { sameToken } from '@acme/shared/csrf';
import { badRequest, notFound, conflict } from '@acme/shared/errors';
import { presentOrder, presentProduct } from '../present.js';

export function shopRoutes(app, { products, coupons, sessions, session, checkout, storage, analytics }) {
  app.get('/catalogue', async (request) => {
    const { category, q, sort } = request.query;
    const text = typeof q === 'string' ? q.trim().slice(0, 80) : '';
    const [categories, found] = await Promise.all([
      products.categories(),
      products.search({ category: typeof category === 'string' ? category : '', text, sort }),
    ]);
    return { categories, products: found.map(presentProduct) };
  });

  app.get('/products/:slug', async (request) => {
    const product = await products.bySlug(request.params.slug);
    if (!product?.active) throw notFound('product');
    const related = await products.related(product);
    return { product: presentProduct(product), related: related.map(presentProduct) };
  });

  app.get('/media', async (request) => {
    const key = String(request.query.key ?? '');
    if (!/^products\/[\w/-]+\.(png|jpg|webp)$/.test(key)) throw notFound('image');
    return { url: await storage.link(key, { expiresIn: 3600 }) };
  });

  const presentCart = (cart) => ({
    lines: cart.lines,
    count: cart.count,
    coupon: cart.coupon && { code: cart.coupon.code, kind: cart.coupon.kind, value: cart.coupon.value },
    couponProblem: cart.couponProblem,
    removed: cart.gone.length,
    totals: cart.totals,
  });

  app.get('/cart', async (request, reply) => presentCart(await checkout.viewCart(await session.ensure(request, reply))));

  async function changeCart(request, change) {
    request.session.cart = change(request.session.cart);
    await sessions.save(request.session);
    return presentCart(await checkout.viewCart(request.session));
  }

  app.post('/cart/items', async (request) => {
    const product = await products.bySlug(String(request.body?.slug ?? ''));
    if (!product?.active) throw notFound('product');
    const quantity = parseQuantity(request.body?.quantity ?? 1);
    if (product.stock < (request.session.cart[product.id] ?? 0) + quantity) {
      throw conflict('out_of_stock', product.stock === 0 ? `Sorry, “${product.name}” is sold out.` : `Sorry, only ${product.stock} of “${product.name}” left.`);
    }
    const cart = await changeCart(request, (items) => addQuantity(items, product.id, quantity));
    analytics.capture('Product Added', request.session.visitor, { product: product.slug, quantity });
    return cart;
  });

  app.put('/cart/items/:productId', async (request) => {
    const id = Number(request.params.productId);
    if (!(id in request.session.cart)) throw notFound('product in your cart');
    return changeCart(request, (items) => setQuantity(items, id, parseQuantity(request.body?.quantity)));
  });

  app.post('/cart/coupon', async (request) => {
    const coupon = await coupons.byCode(normaliseCode(request.body?.code));
    const cart = await checkout.viewCart({ ...request.session, coupon: null });
    checkCoupon(coupon, cart.totals.subtotalCents);
    discountFor(coupon, cart.totals.subtotalCents);
    request.session.coupon = coupon.code;
    await sessions.save(request.session);
    return presentCart(await checkout.viewCart(request.session));
  });

  app.delete('/cart/coupon', async (request) => {
    request.session.coupon = null;
    await sessions.save(request.session);
    return presentCart(await checkout.viewCart(request.session));
  });

  app.put('/checkout/address', async (request) => {
    const email = String(request.body?.email ?? '').trim().toLowerCase();
    const address = parseAddress(request.body?.address);
    if (!validEmail(email)) throw badRequest('email_invalid', 'Please check the mail address.', { fields: { email: 'Please give a valid mail address.' } });
    if (!countItems(request.session.cart)) throw badRequest('cart_empty', 'Your cart is empty.');
    request.session.checkout = { email, address };
    await sessions.save(request.session);
    analytics.capture('Checkout Started', request.session.visitor, { items: countItems(request.session.cart) });
    return { email, address };
  });

  app.get('/checkout', async (request, reply) => {
    const current = await session.ensure(request, reply);
    const offer = await checkout.quote(current, request.query.method);
    return {
      ...presentCart(offer), rates: offer.rates, chosen: offer.chosen.method, address: offer.address, email: offer.email,
      estimated: { shipping: offer.chosen.source === 'fallback', tax: offer.tax.source === 'fallback' },
    };
  });

  app.post('/checkout', async (request, reply) => {
    const { order, payment } = await checkout.submit({
      session: request.session, user: request.user, method: request.body?.method, expectedTotal: request.body?.expectedTotal,
    });
    Object.assign(request.session, { cart: {}, coupon: null, orders: [order.number, ...request.session.orders].slice(0, 50) });
    await sessions.save(request.session);
    return reply.status(201).send({ order: presentOrder(order), payment });
  });

  /** An order is visible to its owner, to the session that placed it, and with its key. */
  async function ownOrder(request) {
    const order = await checkout.read(request.params.number);
    const visible =
      order &&
      ((request.user && order.user_id === request.user.id) ||
        request.session?.orders.includes(order.number) ||
        sameToken(order.access_key, request.query.key));
    if (!visible) throw notFound('order');
    return order;
  }

  app.get('/orders/:number', async (request) => ({ order: presentOrder(await ownOrder(request)) }));
  app.post('/orders/:number/pay', async (request) => ({ payment: await checkout.startPayment(await ownOrder(request)) }));
  app.get('/orders/:number/invoice', async (request) => {
    const order = await ownOrder(request);
    if (!order.invoice_key) throw notFound('invoice yet');
    return { url: await storage.link(order.invoice_key, { download: `invoice-${order.number}.html` }) };
  });
}
