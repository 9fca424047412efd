import { createHash } from 'node:crypto';
import { newToken } from './csrf.js';

/**
 * @typedef {object} Session
 * @property {string} id random, known only to the browser; Redis sees its hash
 * @property {string} csrf
 * @property {string} visitor stable id for analytics
 * @property {number | null} userId
 * @property {Record<string, number>} cart product id to quantity
 * @property {string | null} coupon
 * @property {object | null} checkout address given during checkout
 * @property {string[]} orders numbers of orders placed in this session
 */

/** Sessions in Redis. @param {{redis: import('ioredis').Redis, ttl: number}} options */
export function createSessions({ redis, ttl }) {
  const key = (id) => `acme:session:${createHash('sha256').update(id).digest('hex')}`;
  const fresh = () => ({ csrf: newToken(), visitor: newToken(12), userId: null, cart: {}, coupon: null, checkout: null, orders: [] });

  async function save(session) {
    const { id, ...data } = session;
    await redis.set(key(id), JSON.stringify(data), 'EX', data.userId ? ttl : Math.min(ttl, 86_400));
    return session;
  }

  return {
    save,
    /** @returns {Promise<Session>} */
    create: (data = {}) => save({ id: newToken(), ...fresh(), ...data }),
    /** @returns {Promise<Session | null>} */
    async read(id) {
      if (typeof id !== 'string' || !/^[\w-]{43}$/.test(id)) return null;
      const text = await redis.get(key(id));
      return text ? { id, ...JSON.parse(text) } : null;
    },
    /** A new id and a new CSRF token for the same visitor: done at every login and logout. */
    async rotate(session, changes) {
      const next = await save({ ...session, ...changes, id: newToken(), csrf: newToken() });
      await redis.del(key(session.id));
      return next;
    },
    destroy: (session) => redis.del(key(session.id)),
  };
}
