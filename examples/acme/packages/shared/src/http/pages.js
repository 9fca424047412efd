import staticFiles from '@fastify/static';
import { createApiClient } from './api-client.js';
import { AppError } from '../errors.js';
import { browserBundle } from './bundle.js';

/** Origins the browser may talk to, for the content security policy. */
export function vendorOrigins(config) {
  const origins = [];
  if (config.SENTRY_BROWSER_DSN) origins.push(new URL(config.SENTRY_BROWSER_DSN).origin);
  if (config.POSTHOG_KEY) {
    const { protocol, host } = new URL(config.POSTHOG_HOST);
    origins.push(`${protocol}//${host}`, `${protocol}//${host.replace(/^(us|eu)\.i\./, '$1-assets.i.')}`);
  }
  return [...new Set(origins)];
}

/**
 * What both server-rendered apps need: static files, the browser bundle, and
 * `request.shop`, the connection to the API with the visitor's session.
 */
export async function addPages(app, { config, root, cookieName, publicUrl }) {
  const secure = publicUrl.startsWith('https:');
  await app.register(staticFiles, { root: `${root}/public`, prefix: '/static/', maxAge: config.production ? '1d' : 0, index: false });

  // In development the script is bundled when it is first asked for, and kept.
  let bundle;
  const script = () => (bundle ??= browserBundle({ root, production: config.production }));
  if (config.production) await script();
  app.get('/static/app.js', async (request, reply) => {
    const { code, etag } = await script();
    reply.header('etag', etag).header('cache-control', config.production ? 'public, max-age=86400' : 'no-cache');
    if (request.headers['if-none-match'] === etag) return reply.status(304).send();
    return reply.type('text/javascript; charset=utf-8').send(code);
  });

  app.decorateRequest('api', null);
  app.decorateRequest('view', null);
  app.addHook('preHandler', async (request, reply) => {
    if (/^\/(static\/|health)/.test(request.url)) return;
    request.api = createApiClient({
      baseUrl: config.API_URL,
      session: request.cookies[cookieName],
      ip: request.ip,
      requestId: request.id,
      userAgent: request.headers['user-agent'],
      onSession: (id) => {
        const options = { path: '/', httpOnly: true, sameSite: 'lax', secure };
        if (id) reply.setCookie(cookieName, id, { ...options, maxAge: 604_800 });
        else reply.clearCookie(cookieName, options);
      },
    });
  });
}

/** Sends a page. Pages of a session are never stored by a cache. */
export function sendPage(reply, page) {
  return reply.header('cache-control', 'private, no-store').type('text/html; charset=utf-8').send(`<!doctype html>\n${page}`);
}

/** One-time messages travel in a short-lived cookie. */
export const flash = {
  set(reply, kind, text) {
    reply.setCookie('acme_flash', Buffer.from(JSON.stringify({ kind, text })).toString('base64url'), {
      path: '/', httpOnly: true, sameSite: 'lax', maxAge: 30,
    });
  },
  take(request, reply) {
    const value = request.cookies.acme_flash;
    if (!value) return null;
    reply.clearCookie('acme_flash', { path: '/' });
    try {
      const { kind, text } = JSON.parse(Buffer.from(value, 'base64url').toString());
      return { kind: kind === 'error' ? 'error' : 'ok', text: String(text).slice(0, 300) };
    } catch {
      return null;
    }
  },
};

/** Turns an expected refusal of the API into a message; anything else goes on to the error page. */
export async function orFlash(reply, work, success) {
  try {
    const result = await work();
    if (success) flash.set(reply, 'ok', typeof success === 'function' ? success(result) : success);
    return result;
  } catch (error) {
    if (!(error instanceof AppError) || error.status >= 500 || error.status === 401 || error.status === 404) throw error;
    flash.set(reply, 'error', error.message);
    return null;
  }
}

/** Only local paths may be redirected to. */
export const localPath = (value, fallback = '/') => (typeof value === 'string' && /^\/(?![/\\])[^\s]*$/.test(value) ? value : fallback);

/** The API's own health as a check of this app. */
export const apiCheck = (config) => async () => {
  const response = await fetch(`${config.API_URL}/health`, { signal: AbortSignal.timeout(2_000) }).catch((error) => {
    throw new Error(`api is not reachable: ${error.cause?.code ?? error.message}`);
  });
  if (response.ok) return;
  const { checks } = await response.json();
  const reasons = Object.entries(checks ?? {}).filter(([, c]) => !c.ok).map(([name, c]) => `${name}: ${c.reason}`);
  throw new Error(`api is unavailable (${reasons.join('; ')})`);
};
