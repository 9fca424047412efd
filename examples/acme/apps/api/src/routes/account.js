import { AppError, badRequest, conflict, forbidden } from '@acme/shared/errors';
import { hashPassword, passwordProblem, verifyPassword } from '@acme/shared/password';
import { parseAddress, validEmail } from '@acme/shared/domain/address';
import { countItems } from '@acme/shared/domain/cart';
import { FREE_SHIPPING_FLAG } from '../checkout.js';
import { presentOrder, presentUser } from '../present.js';
import { requireRole } from '../session.js';

export function accountRoutes(app, { db, users, queue, session, loginLimit, addressLimit, analytics }) {
  const within = async (limit, key) => {
    const { allowed, retryAfter } = await limit.hit(key);
    if (!allowed) throw new AppError(429, 'rate_limited', 'Too many tries. Please wait a few minutes.', { retryAfter });
  };

  app.get('/session', async (request, reply) => {
    const current = await session.ensure(request, reply);
    return {
      user: presentUser(request.user),
      csrfToken: current.csrf,
      visitor: current.visitor,
      cartCount: countItems(current.cart),
      flags: { freeShipping: await analytics.flag(FREE_SHIPPING_FLAG, current.visitor) },
    };
  });

  app.post('/register', async (request, reply) => {
    const email = String(request.body?.email ?? '').trim().toLowerCase();
    const name = String(request.body?.name ?? '').trim();
    if (!validEmail(email)) throw badRequest('email_invalid', 'Please give a valid mail address.');
    if (!name || name.length > 80) throw badRequest('name_invalid', 'Please tell us your name.');
    const problem = passwordProblem(request.body?.password);
    if (problem) throw badRequest('password_weak', problem);
    await within(addressLimit, request.ip);
    const user = await users.create({ email, name, passwordHash: await hashPassword(request.body.password) });
    if (!user) throw conflict('email_taken', 'There is already an account with this mail address.');
    await session.rotate(request, reply, { userId: user.id });
    await queue.add('welcome.send', { userId: user.id });
    analytics.capture('Account Created', request.session.visitor, { user: user.id });
    return reply.status(201).send({ user: presentUser(user) });
  });

  app.post('/login', async (request, reply) => {
    const email = String(request.body?.email ?? '').trim().toLowerCase();
    const password = String(request.body?.password ?? '').slice(0, 200);
    await within(addressLimit, request.ip);
    await within(loginLimit, email);
    const user = await users.byEmail(email);
    const correct = await verifyPassword(password, user?.password_hash);
    if (!correct || user.disabled_at) throw new AppError(401, 'credentials_wrong', 'The mail address or the password is wrong.');
    if (request.body?.audience === 'staff' && !['admin', 'support'].includes(user.role)) throw forbidden('This account has no access to the back office.');
    await Promise.all([loginLimit.reset(email), users.sawLogin(user.id)]);
    await session.rotate(request, reply, { userId: user.id });
    analytics.capture('Logged In', request.session.visitor, { role: user.role });
    return { user: presentUser(user) };
  });

  app.post('/logout', async (request, reply) => {
    await session.rotate(request, reply, { userId: null, cart: {}, coupon: null, checkout: null, orders: [] });
    return reply.status(204).send();
  });

  app.get('/account', { onRequest: requireRole() }, async (request) => {
    const { rows } = await db.query('SELECT * FROM orders WHERE user_id = $1 ORDER BY placed_at DESC LIMIT 50', [request.user.id]);
    return { user: presentUser(request.user), orders: rows.map(presentOrder) };
  });

  app.put('/account', { onRequest: requireRole() }, async (request) => {
    const name = String(request.body?.name ?? '').trim();
    if (!name || name.length > 80) throw badRequest('name_invalid', 'Please tell us your name.');
    const user = await users.update(request.user.id, { name, address: parseAddress({ ...request.body?.address, name }) });
    return { user: presentUser(user) };
  });
}
