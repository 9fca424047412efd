// Errors by the SDKs of vendors; every failure ends the program.
import assert from 'node:assert';
import Bugsnag from '@bugsnag/js';
import Rollbar from 'rollbar';
import * as Sentry from '@sentry/node';

const port = (name) => process.env[name];
const url = (name) => `http://127.0.0.1:${port(name)}`;

function charge() {
  throw new TypeError('coupon 12 broke');
}

function caught() {
  try {
    charge();
  } catch (error) {
    return error;
  }
}

Sentry.init({ dsn: `http://key@127.0.0.1:${port('O1_INGEST_SENTRY_IO')}/42`, release: '1.0', environment: 'test' });
Sentry.setTag('plan', 'pro');
assert.match(Sentry.captureException(caught()), /^[0-9a-f]{32}$/);
assert.ok(await Sentry.flush(5000));

const notify = `${url('NOTIFY_BUGSNAG_COM')}/`;
Bugsnag.start({ apiKey: '0'.repeat(32), endpoints: { notify, sessions: notify }, autoTrackSessions: false, logger: null });
await new Promise((resolve, reject) => Bugsnag.notify(caught(), undefined, (error) => (error ? reject(error) : resolve())));

const rollbar = new Rollbar({ accessToken: 't', endpoint: `${url('API_ROLLBAR_COM')}/api/1/item/`, environment: 'test' });
await new Promise((resolve, reject) => rollbar.error(caught(), (error) => (error ? reject(error) : resolve())));

console.log('done');
process.exit(0);
