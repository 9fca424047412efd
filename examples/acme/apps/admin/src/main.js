import '@acme/shared/load-env';
import { loadConfigOrExit } from '@acme/shared/config';
import { createLogger } from '@acme/shared/log';
import { createErrorReporting } from '@acme/shared/integrations/sentry';
import { serve } from '@acme/shared/http/server';
import { buildAdmin } from './app.js';

const config = loadConfigOrExit('admin');
const log = createLogger(config);
const errors = createErrorReporting(config, log);
const app = await buildAdmin({ config, log, errors });
await serve(app, { config, log, close: () => errors.flush() });
