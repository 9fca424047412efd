import '@acme/shared/load-env';
import { loadConfigOrExit } from '@acme/shared/config';
import { createLogger } from '@acme/shared/log';
import { createDatabase } from '@acme/shared/db';
import { createRedis } from '@acme/shared/redis';
import { createQueue } from '@acme/shared/queue';
import { createErrorReporting } from '@acme/shared/integrations/sentry';
import { createAnalytics } from '@acme/shared/integrations/analytics';
import { createStorage } from '@acme/shared/integrations/storage';
import { serve } from '@acme/shared/http/server';
import { buildApi } from './app.js';
import { createCopywriter } from './vendors/copywriter.js';
import { createPayments, createStripe } from './vendors/payments.js';
import { createShipping } from './vendors/shipping.js';
import { createTax } from './vendors/tax.js';

const config = loadConfigOrExit('api');
const log = createLogger(config);
const errors = createErrorReporting(config, log);
const db = createDatabase(config.DATABASE_URL, { log });
const redis = createRedis(config.REDIS_URL, { log });
const queue = createQueue({ redis });
const analytics = createAnalytics(config, log);
const storage = createStorage(config);
const stripe = createStripe(config);
const onError = (error) => errors.report(error, { tags: { vendor: error.vendor } });

const app = await buildApi({
  config, log, errors, db, redis, queue, analytics, storage, stripe,
  payments: createPayments({ stripe, webUrl: config.WEB_URL }),
  shipping: createShipping({ config, onError }),
  tax: createTax({ config, onError }),
  copywriter: createCopywriter(config),
});

await serve(app, {
  config, log,
  close: () => Promise.allSettled([analytics.close(), errors.flush(), db.close(), redis.quit(), storage.close()]),
});
