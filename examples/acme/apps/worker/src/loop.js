import { randomUUID } from 'node:crypto';

/**
 * Takes jobs until told to stop, one at a time for each connection it is
 * given. Trouble with Redis is waited out; trouble with a job is given back to
 * the queue.
 */
export function createLoop({ queue, connections = [], jobs, log, errors, pauseMs = 1_000 }) {
  const worker = `${process.pid}-${randomUUID().slice(0, 8)}`;
  let running = false;
  let finished = Promise.resolve();
  let timers = [];

  async function runOne(job) {
    const started = Date.now();
    const context = { job: job.id, type: job.type, attempt: job.attempts + 1 };
    try {
      const work = jobs[job.type];
      if (!work) throw Object.assign(new Error(`there is no job type ${job.type}`), { permanent: true });
      const result = await work(job.data);
      await queue.succeed(worker, job);
      log.info({ ...context, ms: Date.now() - started, result }, 'job done');
    } catch (error) {
      const { dead, retryInMs } = await queue.fail(worker, job, error);
      if (dead) errors.report(error, { tags: { job: job.type }, extra: { ...context, data: job.data } });
      else log.warn({ ...context, ms: Date.now() - started, reason: error.message, retryInMs }, 'job failed, will try again');
    }
  }

  async function run(connection) {
    while (running) {
      try {
        const job = await queue.take(worker, connection);
        if (job) await runOne(job);
      } catch (error) {
        if (!running) return;
        log.warn({ err: error }, 'queue is not available');
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }
  }

  const quietly = (work) => () => work().catch((error) => log.debug({ err: error }, 'queue upkeep failed'));

  return {
    worker,
    runOne,
    start() {
      running = true;
      const beat = quietly(async () => {
        const reclaimed = await queue.beat(worker);
        if (reclaimed) log.warn({ reclaimed }, 'took back jobs of a worker that went away');
      });
      beat();
      timers = [setInterval(beat, 3_000), setInterval(quietly(() => queue.promote()), 250)];
      finished = Promise.all(connections.map(run));
    },
    async stop() {
      running = false;
      timers.forEach(clearInterval);
      await finished;
      await queue.leave(worker).catch(() => {});
    },
  };
}
