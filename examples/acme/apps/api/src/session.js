import { SESSION_COOKIE } from '@acme/shared/http/api-client';
import { csrfAllows } from '@acme/shared/csrf';
import { AppError, forbidden, unauthorised } from '@acme/shared/errors';

/** Gives every request under /v1 its session and user, and refuses forged ones. */
export function addSessions(app, { config, sessions, users }) {
  const secure = config.WEB_URL.startsWith('https:');
  const setCookie = (reply, session) =>
    reply.setCookie(SESSION_COOKIE, session.id, { path: '/', httpOnly: true, sameSite: 'lax', secure, maxAge: config.SESSION_TTL_SECONDS });

  app.decorateRequest('session', null);
  app.decorateRequest('user', null);
  app.decorateReply('startSession', null);

  app.addHook('onRequest', async (request) => {
    request.session = await sessions.read(request.cookies[SESSION_COOKIE]);
    if (request.session?.userId) {
      const user = await users.byId(request.session.userId);
      request.user = user && !user.disabled_at ? user : null;
    }
    if (!csrfAllows(request.method, request.session, request.headers['x-csrf-token'])) {
      throw new AppError(403, 'csrf', 'This page was open for too long. Please go back, reload it and try again.');
    }
  });

  return {
    /** The session of this visitor, made on first use. */
    async ensure(request, reply) {
      if (!request.session) {
        request.session = await sessions.create();
        setCookie(reply, request.session);
      }
      return request.session;
    },
    async rotate(request, reply, changes) {
      request.session = await sessions.rotate(request.session, changes);
      setCookie(reply, request.session);
      return request.session;
    },
  };
}

/** A hook that lets only some roles in. */
export const requireRole = (...roles) => async (request) => {
  if (!request.user) throw unauthorised();
  if (roles.length && !roles.includes(request.user.role)) throw forbidden();
};
