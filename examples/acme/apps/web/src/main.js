import '@acme/shared/load-env';
import { loadConfigOrExit } from '@acme/shared/config';
import { createLogger } from '@acme/shared/log';
import { createErrorReporting } from '@acme/shared/integrations/sentry';
import { serve } from '@acme/shared/http/server';
import { buildWeb } from './app.js';

const config = loadConfigOrExit('web');
const log = createLogger(config);
const errors = createErrorReporting(config, log);
const app = await buildWeb({ config, log, errors });
await serve(app, { config, log, close: () => errors.flush() });
