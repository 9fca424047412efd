import Fastify, { LogController } from 'fastify';
import cookie from '@fastify/cookie';
import formbody from '@fastify/formbody';
import { randomUUID } from 'node:crypto';
import { AppError } from '../errors.js';
import { isDatabaseDown, isRedisDown } from '../outages.js';
import { health } from './health.js';

/** @returns {string} a Content-Security-Policy */
export function contentSecurityPolicy({ connect = [], images = [], formAction = [], scripts = [] } = {}) {
  return [
    "default-src 'self'",
    `script-src ${["'self'", ...scripts].join(' ')}`,
    "style-src 'self'",
    `img-src ${["'self'", 'data:', ...images].join(' ')}`,
    "font-src 'self'",
    `connect-src ${["'self'", ...connect].join(' ')}`,
    "worker-src 'self' blob:",
    "object-src 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    `form-action ${["'self'", ...formAction].join(' ')}`,
  ].join('; ');
}

/** What every error becomes for the outside: a status, a code and a message that gives nothing away. */
export function publicError(error) {
  if (error instanceof AppError) return { status: error.status, code: error.code, message: error.message, details: error.details, expected: true };
  if (isDatabaseDown(error)) return { status: 503, code: 'database_unavailable', message: 'The shop is taking a short break. Please try again in a moment.' };
  if (isRedisDown(error)) return { status: 503, code: 'sessions_unavailable', message: 'The shop is taking a short break. Please try again in a moment.' };
  if (error.statusCode === 413 || error.code === 'FST_REQ_FILE_TOO_LARGE') return { status: 413, code: 'too_large', message: 'This file is too large.', expected: true };
  if (error.statusCode >= 400 && error.statusCode < 500) return { status: error.statusCode, code: 'bad_request', message: error.message, expected: true };
  return { status: 500, code: 'internal', message: 'Something went wrong on our side.' };
}

/**
 * A Fastify server with the parts all apps share: request ids, cookies,
 * forms, security headers, a health check and one error handler.
 *
 * @param {object} options
 * @param {Record<string, () => Promise<unknown>>} options.checks what /health looks at
 * @param {(request, reply, problem) => unknown} options.renderError
 */
export async function createServer({ config, log, errors, checks, csp, renderError, bodyLimit = 1_048_576 }) {
  const app = Fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: config.TRUST_PROXY,
    bodyLimit,
    requestIdHeader: 'x-request-id',
    genReqId: () => randomUUID(),
    routerOptions: { ignoreTrailingSlash: true },
    forceCloseConnections: true,
  });
  await app.register(cookie);
  await app.register(formbody);

  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
    reply.header('x-content-type-options', 'nosniff');
    reply.header('referrer-policy', 'strict-origin-when-cross-origin');
    reply.header('x-frame-options', 'DENY');
    reply.header('permissions-policy', 'camera=(), microphone=(), geolocation=()');
    reply.header('cross-origin-opener-policy', 'same-origin');
    if (csp) reply.header('content-security-policy', csp);
    if (request.protocol === 'https') reply.header('strict-transport-security', 'max-age=31536000');
  });
  app.addHook('onResponse', async (request, reply) => {
    const level = reply.statusCode >= 500 ? 'error' : request.url === '/health' ? 'debug' : 'info';
    request.log[level](
      { method: request.method, path: request.url.split('?')[0], status: reply.statusCode, ms: Math.round(reply.elapsedTime) },
      'request',
    );
  });

  app.setErrorHandler((error, request, reply) => {
    const problem = publicError(error);
    problem.reference = request.id;
    if (!problem.expected) {
      errors.report(error, { tags: { code: problem.code, route: request.routeOptions?.url }, extra: { requestId: request.id, path: request.url.split('?')[0] } });
    }
    if (problem.details?.retryAfter) reply.header('retry-after', problem.details.retryAfter);
    reply.status(problem.status);
    return renderError(request, reply, problem);
  });
  app.setNotFoundHandler((request, reply) => {
    reply.status(404);
    return renderError(request, reply, { status: 404, code: 'not_found', message: 'There is nothing at this address.', reference: request.id });
  });

  app.get('/health', async (request, reply) => {
    const { ok, report } = await health(config, checks);
    reply.status(ok ? 200 : 503).header('cache-control', 'no-store');
    return report;
  });

  return app;
}

export { serve } from './serve.js';
