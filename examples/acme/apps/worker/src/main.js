import '@acme/shared/load-env';
import { loadConfigOrExit } from '@acme/shared/config';
import { createLogger } from '@acme/shared/log';
import { createDatabase } from '@acme/shared/db';
import { checkRedis, createRedis } from '@acme/shared/redis';
import { createQueue } from '@acme/shared/queue';
import { createErrorReporting } from '@acme/shared/integrations/sentry';
import { createAnalytics } from '@acme/shared/integrations/analytics';
import { createStorage } from '@acme/shared/integrations/storage';
import { serve } from '@acme/shared/http/serve';
import { createHealthServer } from './health.js';
import { createJobs } from './jobs.js';
import { createLoop } from './loop.js';
import { createMailer } from './mailer.js';
import { startSchedule } from './schedule.js';

const config = loadConfigOrExit('worker');
const log = createLogger(config);
const errors = createErrorReporting(config, log);
const db = createDatabase(config.DATABASE_URL, { log, max: 4 });
const redis = createRedis(config.REDIS_URL, { log });
// One connection per job that may run at the same time, because each waits on its own.
const connections = Array.from({ length: config.WORKER_CONCURRENCY }, () => createRedis(config.REDIS_URL, { log, blocking: true }));
const queue = createQueue({ redis });
const analytics = createAnalytics(config, log);
const storage = createStorage(config);
const mailer = createMailer(config);

const loop = createLoop({ queue, connections, log, errors, jobs: createJobs({ config, db, storage, mailer, analytics }) });
const app = createHealthServer(config, { database: () => db.check(), redis: () => checkRedis(redis) });

loop.start();
const schedule = startSchedule({ db, queue, log, errors, hourUtc: config.SETTLEMENT_HOUR_UTC });

await serve(app, {
  config, log,
  async close() {
    for (const connection of connections) connection.disconnect();
    await Promise.allSettled([loop.stop(), schedule.stop()]);
    await Promise.allSettled([analytics.close(), errors.flush(), db.close(), redis.quit(), storage.close(), mailer.close()]);
  },
});
