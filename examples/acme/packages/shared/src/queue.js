import { randomUUID } from 'node:crypto';

export const MAX_ATTEMPTS = 5;

/** Waiting time before the next attempt: 1 s, 2 s, 4 s, 8 s. @param {number} attempt the one that just failed */
export const backoff = (attempt) => Math.min(1_000 * 2 ** (attempt - 1), 60_000);

// Moves jobs whose time has come from the delayed set to the ready list, atomically.
const PROMOTE = `
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 100)
for _, id in ipairs(due) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('LPUSH', KEYS[2], id)
end
return #due`;

/**
 * @typedef {object} Job
 * @property {string} id
 * @property {string} type
 * @property {any} data
 * @property {number} attempts how often it was tried
 * @property {string} createdAt
 * @property {string} [lastError]
 * @property {string} [failedAt]
 */

/**
 * A queue in Redis with at-least-once delivery, retries and a list of dead
 * letters. Job bodies live in a hash; the lists hold ids only.
 */
export function createQueue({ redis, prefix = 'acme:queue', now = Date.now, maxAttempts = MAX_ATTEMPTS }) {
  const keys = {
    jobs: `${prefix}:jobs`,
    ready: `${prefix}:ready`,
    delayed: `${prefix}:delayed`,
    dead: `${prefix}:dead`,
    workers: `${prefix}:workers`,
    done: `${prefix}:done`,
    active: (worker) => `${prefix}:active:${worker}`,
    beat: (worker) => `${prefix}:beat:${worker}`,
  };
  const load = async (id) => JSON.parse((await redis.hget(keys.jobs, id)) ?? 'null');
  const store = (job) => redis.hset(keys.jobs, job.id, JSON.stringify(job));

  return {
    keys,
    /** @returns {Promise<Job>} */
    async add(type, data, { delayMs = 0 } = {}) {
      const job = { id: randomUUID(), type, data, attempts: 0, createdAt: new Date(now()).toISOString() };
      await store(job);
      if (delayMs > 0) await redis.zadd(keys.delayed, now() + delayMs, job.id);
      else await redis.lpush(keys.ready, job.id);
      return job;
    },

    promote: () => redis.eval(PROMOTE, 2, keys.delayed, keys.ready, now()),

    /** Waits for a job on its own connection and marks it as being worked on. */
    async take(worker, connection = redis, waitSeconds = 1) {
      const id = await connection.blmove(keys.ready, keys.active(worker), 'RIGHT', 'LEFT', waitSeconds);
      if (!id) return null;
      const job = await load(id);
      if (!job) await redis.lrem(keys.active(worker), 0, id);
      return job;
    },

    async succeed(worker, job) {
      await redis.multi().lrem(keys.active(worker), 0, job.id).hdel(keys.jobs, job.id).incr(keys.done).exec();
    },

    /** Schedules another attempt, or gives up and keeps the job as a dead letter. */
    async fail(worker, job, error) {
      const attempts = job.attempts + 1;
      const failed = { ...job, attempts, lastError: String(error?.message ?? error).slice(0, 500), failedAt: new Date(now()).toISOString() };
      const dead = attempts >= maxAttempts || error?.permanent === true;
      const change = redis.multi().hset(keys.jobs, job.id, JSON.stringify(failed)).lrem(keys.active(worker), 0, job.id);
      if (dead) change.lpush(keys.dead, job.id);
      else change.zadd(keys.delayed, now() + backoff(attempts), job.id);
      await change.exec();
      return { dead, attempts, retryInMs: dead ? null : backoff(attempts) };
    },

    /** Says that the worker lives; jobs of workers that stopped saying so are taken back. */
    async beat(worker, ttlSeconds = 10) {
      await redis.sadd(keys.workers, worker);
      await redis.set(keys.beat(worker), '1', 'EX', ttlSeconds);
      let reclaimed = 0;
      for (const other of await redis.smembers(keys.workers)) {
        if (other === worker || (await redis.exists(keys.beat(other)))) continue;
        while (await redis.lmove(keys.active(other), keys.ready, 'RIGHT', 'LEFT')) reclaimed += 1;
        await redis.srem(keys.workers, other);
      }
      return reclaimed;
    },

    async leave(worker) {
      while (await redis.lmove(keys.active(worker), keys.ready, 'RIGHT', 'LEFT'));
      await redis.srem(keys.workers, worker);
      await redis.del(keys.beat(worker));
    },

    async retryDead(id) {
      const job = await load(id);
      if (!job || !(await redis.lrem(keys.dead, 0, id))) return null;
      await store({ ...job, attempts: 0 });
      await redis.lpush(keys.ready, id);
      return job;
    },

    async overview() {
      const [ready, delayed, dead, done, workers] = await Promise.all([
        redis.llen(keys.ready),
        redis.zcard(keys.delayed),
        redis.lrange(keys.dead, 0, 49),
        redis.get(keys.done),
        redis.smembers(keys.workers),
      ]);
      const waiting = await redis.zrange(keys.delayed, 0, 49, 'WITHSCORES');
      const delayedJobs = [];
      for (let i = 0; i < waiting.length; i += 2) {
        const job = await load(waiting[i]);
        if (job) delayedJobs.push({ ...job, nextAttemptAt: new Date(+waiting[i + 1]).toISOString() });
      }
      const deadJobs = (await Promise.all(dead.map(load))).filter(Boolean);
      return { ready, delayed, dead: await redis.llen(keys.dead), done: Number(done ?? 0), workers: workers.length, delayedJobs, deadJobs };
    },
  };
}
