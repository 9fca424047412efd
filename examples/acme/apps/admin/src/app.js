import { fileURLToPath } from 'node:url';
import multipart from '@fastify/multipart';
import { contentSecurityPolicy, createServer } from '@acme/shared/http/server';
import { addPages, apiCheck, flash, localPath, orFlash, sendPage, vendorOrigins } from '@acme/shared/http/pages';
import { storageOrigins } from '@acme/shared/storage-origins';
import { AppError, forbidden } from '@acme/shared/errors';
import { errorPage, loginPage } from './views/layout.js';
import { dashboardPage } from './views/dashboard.js';
import { orderPage, ordersPage } from './views/orders.js';
import { productPage, productsPage } from './views/products.js';
import { jobsPage, reportPage, settlementsPage, usersPage } from './views/more.js';

const root = fileURLToPath(new URL('..', import.meta.url)).replace(/\/$/, '');
const COOKIE = 'acme_admin_sid';

/** The back office. Staff only; the API enforces every role again. */
export async function buildAdmin({ config, log, errors }) {
  const app = await createServer({
    config, log, errors,
    checks: { api: apiCheck(config) },
    csp: contentSecurityPolicy({ connect: vendorOrigins(config), images: [...storageOrigins(config), new URL(config.WEB_URL).origin] }),
    renderError: (request, reply, problem) => {
      if (request.headers.accept?.includes('application/json')) return reply.send({ error: { code: problem.code, message: problem.message, reference: problem.reference } });
      if (problem.status === 401) return reply.redirect(`/login?next=${encodeURIComponent(request.method === 'GET' ? request.url : '/')}`, 303);
      return sendPage(reply, errorPage(problem));
    },
  });
  await app.register(multipart, { limits: { fileSize: config.UPLOAD_MAX_BYTES, files: 1, fields: 5 } });
  await addPages(app, { config, root, cookieName: COOKIE, publicUrl: config.ADMIN_URL });

  const browser = { sentryDsn: config.SENTRY_BROWSER_DSN, environment: config.SENTRY_ENVIRONMENT, release: config.RELEASE, posthogKey: config.POSTHOG_KEY, posthogHost: config.POSTHOG_HOST };
  const csrf = (request) => ({ csrf: String(request.body?._csrf ?? request.headers['x-csrf-token'] ?? '') });
  const viewOf = async (request, reply) => ({
    ...(await request.api.get('/v1/session')), flash: flash.take(request, reply), path: request.url.split('?')[0], browser, webUrl: config.WEB_URL,
  });

  app.get('/login', async (request, reply) => {
    const view = await viewOf(request, reply);
    if (['admin', 'support'].includes(view.user?.role)) return reply.redirect('/', 303);
    return sendPage(reply, loginPage(view, { next: localPath(request.query.next) }));
  });
  app.post('/login', async (request, reply) => {
    const next = localPath(request.body?.next);
    try {
      await request.api.post('/v1/login', { email: request.body?.email, password: request.body?.password, audience: 'staff' }, csrf(request));
    } catch (error) {
      if (!(error instanceof AppError) || error.status >= 500) throw error;
      const view = await viewOf(request, reply);
      if (error.details?.retryAfter) reply.header('retry-after', error.details.retryAfter);
      return sendPage(reply.status(error.status), loginPage(view, { next, problem: error.message, email: request.body?.email }));
    }
    return reply.redirect(next, 303);
  });

  await app.register(async (staff) => {
    staff.decorateRequest('staff', null);
    staff.addHook('preHandler', async (request, reply) => {
      const view = await viewOf(request, reply);
      if (!view.user) throw new AppError(401, 'login_required', 'Please log in first.');
      if (!['admin', 'support'].includes(view.user.role)) throw forbidden();
      request.staff = { ...view, isAdmin: view.user.role === 'admin' };
    });

    const page = (path, source, render, options = {}) =>
      staff.get(path, async (request, reply) => sendPage(reply, render(request.staff, await request.api.get(source(request), options), request)));
    const part = encodeURIComponent;
    const search = (request, ...names) => {
      const query = new URLSearchParams();
      for (const name of names) if (typeof request.query[name] === 'string' && request.query[name]) query.set(name, request.query[name]);
      return query.size ? `?${query}` : '';
    };

    page('/', () => '/v1/admin/summary', dashboardPage);
    page('/orders', (request) => `/v1/admin/orders${search(request, 'status', 'q')}`, ordersPage);
    page('/orders/:number', (request) => `/v1/admin/orders/${part(request.params.number)}`, orderPage);
    page('/products', (request) => `/v1/admin/products${search(request, 'q', 'category')}`, productsPage);
    page('/products/:id', (request) => `/v1/admin/products/${part(request.params.id)}`, productPage);
    page('/users', () => '/v1/admin/users', usersPage);
    page('/reports/sell-through', (request) => `/v1/admin/reports/sell-through${search(request, 'days')}`, reportPage, { timeoutMs: 60_000 });
    page('/settlements', () => '/v1/admin/settlements', settlementsPage);
    page('/jobs', () => '/v1/admin/jobs', jobsPage);

    staff.post('/logout', async (request, reply) => {
      await request.api.post('/v1/logout', {}, csrf(request));
      return reply.redirect('/login', 303);
    });

    const actions = {
      'mark-paid': 'The payment was recorded.', cancel: 'The order was cancelled.', refund: 'The order was refunded.',
      ship: 'The order was marked as shipped.', 'resend-receipt': 'The receipt is being sent again.', notes: 'The note was added.',
    };
    staff.post('/orders/:number/:action', async (request, reply) => {
      const { number, action } = request.params;
      if (!(action in actions)) throw new AppError(404, 'not_found', 'There is nothing at this address.');
      const { text, trackingNumber, buyLabel } = request.body ?? {};
      await orFlash(reply, () => request.api.post(`/v1/admin/orders/${part(number)}/${action}`, { text, trackingNumber, buyLabel }, { ...csrf(request), timeoutMs: 30_000 }), actions[action]);
      return reply.redirect(`/orders/${part(number)}`, 303);
    });
    staff.get('/orders/:number/invoice', async (request, reply) => {
      const { url } = await request.api.get(`/v1/admin/orders/${part(request.params.number)}/invoice`);
      return reply.redirect(url, 302);
    });

    staff.post('/products/:id', async (request, reply) => {
      const path = `/v1/admin/products/${part(request.params.id)}`;
      try {
        const { name, tagline, description, price, stock, category, active } = request.body ?? {};
        await request.api.put(path, { name, tagline, description, price, stock, category, active: Boolean(active) }, csrf(request));
      } catch (error) {
        if (!(error instanceof AppError) || error.status !== 400) throw error;
        const data = await request.api.get(path);
        return sendPage(reply.status(422), productPage(request.staff, { ...data, values: request.body, problems: error.details?.fields ?? {} }));
      }
      flash.set(reply, 'ok', 'The product was saved.');
      return reply.redirect(`/products/${part(request.params.id)}`, 303);
    });

    staff.post('/products/:id/image', { bodyLimit: config.UPLOAD_MAX_BYTES + 65_536 }, async (request, reply) => {
      let bytes = null;
      let token = '';
      for await (const item of request.parts()) {
        if (item.type === 'file') bytes = await item.toBuffer();
        else if (item.fieldname === '_csrf') token = String(item.value);
      }
      if (!bytes?.length) flash.set(reply, 'error', 'Please choose an image first.');
      else {
        await orFlash(reply, () => request.api.upload(`/v1/admin/products/${part(request.params.id)}/image`, bytes, { csrf: token, timeoutMs: 30_000 }), 'The image was stored. Its small version follows in a moment.');
      }
      return reply.redirect(`/products/${part(request.params.id)}`, 303);
    });

    staff.post('/products/:id/describe', async (request) =>
      request.api.post(`/v1/admin/products/${part(request.params.id)}/describe`, { hint: request.body?.hint }, { ...csrf(request), timeoutMs: 45_000 }));

    staff.get('/media/*', async (request, reply) => {
      const { url } = await request.api.get(`/v1/media?key=${part(request.params['*'])}`);
      return reply.redirect(url, 302);
    });

    staff.post('/users/:id', async (request, reply) => {
      const change = {};
      if (request.body?.role) change.role = request.body.role;
      if (request.body?.disabled) change.disabled = request.body.disabled === 'yes';
      await orFlash(reply, () => request.api.put(`/v1/admin/users/${part(request.params.id)}`, change, csrf(request)), 'The account was changed.');
      return reply.redirect('/users', 303);
    });
    staff.post('/settlements', async (request, reply) => {
      await orFlash(reply, () => request.api.post('/v1/admin/settlements', { day: request.body?.day }, csrf(request)), (result) => `${result.settlement.day} was settled.`);
      return reply.redirect('/settlements', 303);
    });
    staff.post('/jobs/:id/retry', async (request, reply) => {
      await orFlash(reply, () => request.api.post(`/v1/admin/jobs/${part(request.params.id)}/retry`, {}, csrf(request)), 'The job is in the queue again.');
      return reply.redirect('/jobs', 303);
    });
  });

  return app;
}
