/**
 * Counts tries per key in a fixed window.
 * @param {{redis: {incr: Function, expire: Function, ttl: Function, del: Function}, limit: number, windowSeconds: number, prefix: string}} options
 */
export function createRateLimit({ redis, limit, windowSeconds, prefix }) {
  const name = (key) => `acme:limit:${prefix}:${key}`;
  return {
    /** @returns {Promise<{allowed: boolean, retryAfter: number}>} */
    async hit(key) {
      const count = await redis.incr(name(key));
      if (count === 1) await redis.expire(name(key), windowSeconds);
      if (count <= limit) return { allowed: true, retryAfter: 0 };
      return { allowed: false, retryAfter: Math.max(1, await redis.ttl(name(key))) };
    },
    reset: (key) => redis.del(name(key)),
  };
}
