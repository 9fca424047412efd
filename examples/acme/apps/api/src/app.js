import { createServer } from '@acme/shared/http/server';
import { checkRedis } from '@acme/shared/redis';
import { createSessions } from '@acme/shared/sessions';
import { createRateLimit } from '@acme/shared/ratelimit';
import { buyerOf, cancelPending, markPaid, markRefunded, queuePaidOrder } from '@acme/shared/domain/orders';
import { accountRoutes } from './routes/account.js';
import { adminRoutes } from './routes/admin.js';
import { shopRoutes } from './routes/shop.js';
import { createCheckout } from './checkout.js';
import { createCoupons, createProducts, createUsers } from './store.js';
import { createPaymentStore, createWebhook } from './webhook.js';
import { addSessions } from './session.js';

/** Puts the API together from its connections and vendors. */
export async function buildApi(deps) {
  const { config, log, errors, db, redis, queue, analytics, stripe } = deps;
  const users = createUsers(db);
  const products = createProducts(db);
  const coupons = createCoupons(db);
  const sessions = createSessions({ redis, ttl: config.SESSION_TTL_SECONDS });
  const loginLimit = createRateLimit({ redis, limit: 10, windowSeconds: 300, prefix: 'login' });
  const addressLimit = createRateLimit({ redis, limit: 60, windowSeconds: 300, prefix: 'address' });
  const checkout = createCheckout({ ...deps, products, coupons });

  const app = await createServer({
    config, log, errors,
    checks: { database: () => db.check(), redis: () => checkRedis(redis) },
    csp: "default-src 'none'; frame-ancestors 'none'",
    renderError: (request, reply, { code, message, details, reference }) => reply.send({ error: { code, message, details, reference } }),
  });

  // Uploads arrive as bytes, whatever they say they are.
  app.addContentTypeParser(['application/octet-stream', 'image/png', 'image/jpeg', 'image/webp'], { parseAs: 'buffer' }, (request, body, done) => done(null, body));

  await app.register(async (v1) => {
    const session = addSessions(v1, { config, sessions, users });
    v1.addHook('onSend', async (request, reply) => {
      reply.header('cache-control', 'no-store');
    });
    const shared = { ...deps, users, products, coupons, sessions, session, loginLimit, addressLimit, checkout };
    accountRoutes(v1, shared);
    shopRoutes(v1, shared);
    await v1.register(async (admin) => adminRoutes(admin, shared), { prefix: '/admin' });
  }, { prefix: '/v1' });

  await app.register(async (hooks) => {
    hooks.removeAllContentTypeParsers();
    hooks.addContentTypeParser('*', { parseAs: 'buffer' }, (request, body, done) => done(null, body));
    const handle = createWebhook({
      stripe, log,
      secret: config.STRIPE_WEBHOOK_SECRET,
      store: createPaymentStore(db, { markPaid, markRefunded, cancelPending }),
      onPaid: async (order) => {
        await queuePaidOrder(db, queue, order);
        analytics.capture('Checkout Completed', buyerOf(order), { order: order.number, total: order.total_cents / 100, method: 'card' });
      },
      onRefunded: (order) => queue.add('ledger.post', { orderId: order.id, kind: 'refund' }),
    });
    hooks.post('/stripe', async (request) => handle(request.body, request.headers['stripe-signature']));
  }, { prefix: '/webhooks' });

  return app;
}
