import { EnvironmentError, readEnvironment, types as t } from './env.js';

const need = (parse) => ({ parse });
const maybe = (parse) => ({ parse, optional: true });
const or = (fallback, parse = t.string) => ({ parse, fallback });

const common = {
  NODE_ENV: or('development', t.oneOf('development', 'test', 'production')),
  LOG_LEVEL: or('info', t.oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent')),
  HOST: or('127.0.0.1'),
  TRUST_PROXY: or('loopback'),
  SENTRY_DSN: maybe(t.sentryDsn),
  SENTRY_ENVIRONMENT: or('development'),
  RELEASE: or('dev'),
};
const data = { DATABASE_URL: need(t.postgresUrl), REDIS_URL: need(t.redisUrl) };
const posthog = { POSTHOG_KEY: maybe(t.prefixed('phc_')), POSTHOG_HOST: or('https://us.i.posthog.com', t.httpUrl) };
const storageHost = { S3_BUCKET: need(t.string), AWS_REGION: or('us-east-1'), S3_ENDPOINT: maybe(t.httpUrl) };
const storage = {
  ...storageHost,
  S3_FORCE_PATH_STYLE: or('false', t.boolean),
  AWS_ACCESS_KEY_ID: need(t.string),
  AWS_SECRET_ACCESS_KEY: need(t.string),
};
const browser = { ...posthog, ...storageHost, SENTRY_BROWSER_DSN: maybe(t.sentryDsn) };

/** Every variable each app reads. `PORT` wins over the app's own port variable. */
export const rules = {
  api: {
    ...common,
    ...data,
    ...posthog,
    ...storage,
    API_PORT: or('3002', t.port),
    WEB_URL: or('http://localhost:3000', t.httpUrl),
    STRIPE_SECRET_KEY: need(t.prefixed('sk_', 'rk_')),
    STRIPE_WEBHOOK_SECRET: need(t.prefixed('whsec_')),
    STRIPE_API_URL: or('https://api.stripe.com', t.httpUrl),
    SHIPPO_API_TOKEN: need(t.string),
    SHIPPO_API_URL: or('https://api.goshippo.com', t.httpUrl),
    TAXJAR_API_KEY: need(t.string),
    TAXJAR_API_URL: or('https://api.taxjar.com', t.httpUrl),
    ANTHROPIC_API_KEY: need(t.string),
    ANTHROPIC_BASE_URL: or('https://api.anthropic.com', t.httpUrl),
    ANTHROPIC_MODEL: or('claude-haiku-4-5'),
    SESSION_TTL_SECONDS: or('604800', t.integer),
    UPLOAD_MAX_BYTES: or('5242880', t.integer),
  },
  worker: {
    ...common,
    ...data,
    ...posthog,
    ...storage,
    WORKER_PORT: or('3003', t.port),
    WEB_URL: or('http://localhost:3000', t.httpUrl),
    SMTP_HOST: or('smtp.postmarkapp.com'),
    SMTP_PORT: or('587', t.port),
    SMTP_USER: need(t.string),
    SMTP_PASSWORD: need(t.string),
    MAIL_FROM: or('Acme Goods <orders@acme.example>', t.email),
    WORKER_CONCURRENCY: or('4', t.integer),
    SETTLEMENT_HOUR_UTC: or('2', t.integer),
  },
  web: {
    ...common,
    ...browser,
    WEB_PORT: or('3000', t.port),
    WEB_URL: or('http://localhost:3000', t.httpUrl),
    API_URL: or('http://127.0.0.1:3002', t.httpUrl),
    STRIPE_CHECKOUT_URL: or('https://checkout.stripe.com', t.httpUrl),
  },
  admin: {
    ...common,
    ...browser,
    ADMIN_PORT: or('3001', t.port),
    ADMIN_URL: or('http://localhost:3001', t.httpUrl),
    WEB_URL: or('http://localhost:3000', t.httpUrl),
    API_URL: or('http://127.0.0.1:3002', t.httpUrl),
    UPLOAD_MAX_BYTES: or('5242880', t.integer),
  },
  migrate: { DATABASE_URL: data.DATABASE_URL, LOG_LEVEL: common.LOG_LEVEL },
  seed: { ...data, LOG_LEVEL: common.LOG_LEVEL },
};

/**
 * @param {keyof typeof rules} app
 * @param {Record<string, string | undefined>} [env]
 */
export function loadConfig(app, env = process.env) {
  const portName = `${app.toUpperCase()}_PORT`;
  const source = env.PORT && portName in rules[app] ? { ...env, [portName]: env.PORT } : env;
  const values = readEnvironment(app, rules[app], source);
  const config = { app, ...values, production: values.NODE_ENV === 'production' };
  if (portName in values) config.PORT = values[portName];
  return Object.freeze(config);
}

/** Loads the configuration, or explains what is wrong and ends with code 1. */
export function loadConfigOrExit(app, env = process.env) {
  try {
    return loadConfig(app, env);
  } catch (error) {
    if (!(error instanceof EnvironmentError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return process.exit(1);
  }
}

/** Checks several apps at once: one message for everything that is wrong. */
export function checkApps(apps, env = process.env) {
  const merged = Object.assign({}, ...apps.map((app) => rules[app]));
  readEnvironment(apps.join(', '), merged, env);
}
