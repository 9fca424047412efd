import { fileURLToPath } from 'node:url';
import { contentSecurityPolicy, createServer } from '@acme/shared/http/server';
import { addPages, apiCheck, flash, localPath, orFlash, sendPage, vendorOrigins } from '@acme/shared/http/pages';
import { storageOrigins } from '@acme/shared/storage-origins';
import { AppError } from '@acme/shared/errors';
import { accountPage, loginPage, registerPage } from './views/account.js';
import { addressPage, cartPage, orderPage, reviewPage } from './views/buying.js';
import { errorPage } from './views/layout.js';
import { cataloguePage, homePage, productPage } from './views/catalogue.js';

const root = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');

/** The storefront. It renders pages; everything it knows comes from the API. */
export async function buildWeb({ config, log, errors }) {
  const app = await createServer({
    config, log, errors,
    checks: { api: apiCheck(config) },
    csp: contentSecurityPolicy({
      connect: vendorOrigins(config), images: storageOrigins(config), formAction: [new URL(config.STRIPE_CHECKOUT_URL).origin],
    }),
    renderError: (request, reply, problem) =>
      request.headers.accept?.includes('application/json')
        ? reply.send({ error: { code: problem.code, message: problem.message, reference: problem.reference } })
        : sendPage(reply, errorPage(problem)),
  });
  await addPages(app, { config, root, cookieName: 'acme_sid', publicUrl: config.WEB_URL });

  const browser = { sentryDsn: config.SENTRY_BROWSER_DSN, environment: config.SENTRY_ENVIRONMENT, release: config.RELEASE, posthogKey: config.POSTHOG_KEY, posthogHost: config.POSTHOG_HOST };

  /** Session and page data together, in one round of requests where possible. */
  async function load(request, reply, ...paths) {
    // Without a session the first call makes one; the others must carry it.
    const session = request.cookies.acme_sid ? null : await request.api.get('/v1/session');
    const [known, ...data] = await Promise.all([session ?? request.api.get('/v1/session'), ...paths.map((path) => request.api.get(path))]);
    return [{ ...known, flash: flash.take(request, reply), path: request.url, browser }, ...data];
  }
  const csrf = (request) => ({ csrf: String(request.body?._csrf ?? request.headers['x-csrf-token'] ?? '') });
  const wantsJson = (request) => request.headers.accept?.includes('application/json');

  app.get('/', async (request, reply) => {
    const [view, data] = await load(request, reply, '/v1/catalogue');
    return sendPage(reply, homePage(view, data));
  });

  app.get('/shop', async (request, reply) => {
    const query = new URLSearchParams();
    for (const name of ['category', 'q', 'sort']) if (typeof request.query[name] === 'string' && request.query[name]) query.set(name, request.query[name]);
    const [view, data] = await load(request, reply, `/v1/catalogue?${query}`);
    return sendPage(reply, cataloguePage(view, { ...data, query: Object.fromEntries(query) }));
  });

  app.get('/products/:slug', async (request, reply) => {
    const [view, data] = await load(request, reply, `/v1/products/${encodeURIComponent(request.params.slug)}`);
    return sendPage(reply, productPage(view, data));
  });

  app.get('/media/*', async (request, reply) => {
    const { url } = await request.api.get(`/v1/media?key=${encodeURIComponent(request.params['*'])}`);
    return reply.header('cache-control', 'private, max-age=1800').redirect(url, 302);
  });

  app.get('/cart', async (request, reply) => {
    const [view, cart] = await load(request, reply, '/v1/cart');
    return sendPage(reply, cartPage(view, cart));
  });

  app.post('/cart', async (request, reply) => {
    const body = { slug: request.body?.slug, quantity: request.body?.quantity ?? 1 };
    if (wantsJson(request)) {
      const cart = await request.api.post('/v1/cart/items', body, csrf(request));
      return { count: cart.count };
    }
    const added = await orFlash(reply, () => request.api.post('/v1/cart/items', body, csrf(request)), 'Added to your cart.');
    return reply.redirect(added ? '/cart' : localPath(`/products/${encodeURIComponent(String(body.slug))}`), 303);
  });

  app.post('/cart/items/:productId', async (request, reply) => {
    const quantity = request.body?.remove ? 0 : request.body?.quantity;
    await orFlash(reply, () => request.api.put(`/v1/cart/items/${encodeURIComponent(request.params.productId)}`, { quantity }, csrf(request)));
    return reply.redirect('/cart', 303);
  });

  app.post('/cart/coupon', async (request, reply) => {
    if (request.body?.remove) await orFlash(reply, () => request.api.delete('/v1/cart/coupon', csrf(request)), 'The code was removed.');
    else await orFlash(reply, () => request.api.post('/v1/cart/coupon', { code: request.body?.code }, csrf(request)), 'The code was applied.');
    return reply.redirect('/cart', 303);
  });

  const addressOf = (body) => ({ name: body?.name, street: body?.street, city: body?.city, state: body?.state, zip: body?.zip, country: body?.country });

  app.get('/checkout', async (request, reply) => {
    const [view, cart] = await load(request, reply, '/v1/cart');
    if (!cart.lines.length) return reply.redirect('/cart', 303);
    const values = { email: view.user?.email ?? '', name: view.user?.name ?? '', country: 'US', ...view.user?.address };
    return sendPage(reply, addressPage(view, { cart, values }));
  });

  app.post('/checkout', async (request, reply) => {
    try {
      await request.api.put('/v1/checkout/address', { email: request.body?.email, address: addressOf(request.body) }, csrf(request));
    } catch (error) {
      if (!(error instanceof AppError) || error.status !== 400) throw error;
      if (error.code === 'cart_empty') return reply.redirect('/cart', 303);
      const [view, cart] = await load(request, reply, '/v1/cart');
      return sendPage(reply.status(422), addressPage(view, { cart, values: request.body ?? {}, problems: error.details?.fields ?? {} }));
    }
    return reply.redirect('/checkout/review', 303);
  });

  app.get('/checkout/review', async (request, reply) => {
    const method = typeof request.query.method === 'string' ? request.query.method : '';
    try {
      const [view, offer] = await load(request, reply, `/v1/checkout?method=${encodeURIComponent(method)}`);
      return sendPage(reply, reviewPage(view, offer));
    } catch (error) {
      if (!(error instanceof AppError) || error.status !== 400) throw error;
      return reply.redirect(error.code === 'address_missing' ? '/checkout' : '/cart', 303);
    }
  });

  app.post('/checkout/review', async (request, reply) => {
    let result;
    try {
      result = await request.api.post('/v1/checkout', { method: request.body?.method, expectedTotal: request.body?.total }, { ...csrf(request), timeoutMs: 30_000 });
    } catch (error) {
      if (!(error instanceof AppError) || ![400, 409].includes(error.status)) throw error;
      flash.set(reply, 'error', error.message);
      return reply.redirect(error.code === 'total_changed' ? '/checkout/review' : '/cart', 303);
    }
    const { order, payment } = result;
    return reply.redirect(payment.url ?? `/orders/${order.number}?key=${order.accessKey}&payment=failed`, 303);
  });

  const orderQuery = (request) => (typeof request.query.key === 'string' ? `?key=${encodeURIComponent(request.query.key)}` : '');
  const orderPath = (request) => `/v1/orders/${encodeURIComponent(request.params.number)}`;

  app.get('/orders/:number', async (request, reply) => {
    const [view, data] = await load(request, reply, orderPath(request) + orderQuery(request));
    return sendPage(reply, orderPage(view, { ...data, payment: request.query.payment }));
  });
  app.get('/orders/:number/status', async (request, reply) => {
    const { order } = await request.api.get(orderPath(request) + orderQuery(request));
    return reply.header('cache-control', 'no-store').send({ status: order.status });
  });
  app.get('/orders/:number/invoice', async (request, reply) => {
    const { url } = await request.api.get(`${orderPath(request)}/invoice${orderQuery(request)}`);
    return reply.redirect(url, 302);
  });
  app.post('/orders/:number/pay', async (request, reply) => {
    const { payment } = await request.api.post(`${orderPath(request)}/pay${orderQuery(request)}`, {}, { ...csrf(request), timeoutMs: 30_000 });
    if (payment.url) return reply.redirect(payment.url, 303);
    const query = orderQuery(request);
    return reply.redirect(`/orders/${encodeURIComponent(request.params.number)}${query}${query ? '&' : '?'}payment=failed`, 303);
  });

  const form = (path, page, submit) => {
    app.get(path, async (request, reply) => {
      const [view] = await load(request, reply);
      if (view.user) return reply.redirect('/account', 303);
      return sendPage(reply, page(view, { next: localPath(request.query.next, '/account') }));
    });
    app.post(path, async (request, reply) => {
      const next = localPath(request.body?.next, '/account');
      try {
        await submit(request);
      } catch (error) {
        if (!(error instanceof AppError) || error.status >= 500 || error.code === 'csrf') throw error;
        const [view] = await load(request, reply);
        if (error.details?.retryAfter) reply.header('retry-after', error.details.retryAfter);
        return sendPage(reply.status(error.status), page(view, { next, problem: error.message, values: request.body ?? {} }));
      }
      return reply.redirect(next, 303);
    });
  };
  form('/login', loginPage, (request) => request.api.post('/v1/login', { email: request.body?.email, password: request.body?.password }, csrf(request)));
  form('/register', registerPage, (request) => request.api.post('/v1/register', { email: request.body?.email, name: request.body?.name, password: request.body?.password }, csrf(request)));

  app.post('/logout', async (request, reply) => {
    await request.api.post('/v1/logout', {}, csrf(request));
    return reply.redirect('/', 303);
  });

  app.get('/account', async (request, reply) => {
    const [view] = await load(request, reply);
    if (!view.user) return reply.redirect('/login?next=/account', 303);
    return sendPage(reply, accountPage(view, { ...(await request.api.get('/v1/account')) }));
  });
  app.post('/account', async (request, reply) => {
    try {
      await request.api.put('/v1/account', { name: request.body?.name, address: addressOf(request.body) }, csrf(request));
      flash.set(reply, 'ok', 'Your details were saved.');
    } catch (error) {
      if (!(error instanceof AppError) || error.status !== 400) throw error;
      const [view, data] = await load(request, reply, '/v1/account');
      return sendPage(reply.status(422), accountPage(view, { ...data, values: request.body ?? {}, problems: error.details?.fields ?? { name: error.message } }));
    }
    return reply.redirect('/account', 303);
  });

  return app;
}
