import { Redis } from 'ioredis';

/**
 * Commands fail fast while the server is away, the connection itself keeps
 * trying, so that an outage never ends the process.
 */
export function createRedis(url, { log, blocking = false } = {}) {
  const redis = new Redis(url, {
    connectTimeout: 2_000,
    maxRetriesPerRequest: blocking ? null : 1,
    enableOfflineQueue: blocking,
    retryStrategy: (attempt) => Math.min(100 * 2 ** Math.min(attempt, 5), 2_000),
  });
  let reported = false;
  redis.on('error', (error) => {
    redis.lastReason = error.message || error.errors?.[0]?.message || error.code;
    if (!reported) log?.warn({ err: error }, 'redis is not reachable');
    reported = true;
  });
  redis.on('ready', () => {
    if (reported) log?.info('redis is reachable again');
    reported = false;
  });
  return redis;
}

/** For health checks: answers at once, with the reason when there is no connection. */
export async function checkRedis(redis) {
  if (redis.status !== 'ready') throw new Error(redis.lastReason ?? 'not connected');
  await redis.ping();
}
