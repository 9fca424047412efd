/** `npm run migrate`: brings the database schema forward. Safe to run at any time, and twice. */
import '@acme/shared/load-env';
import { loadConfigOrExit } from '@acme/shared/config';
import { migrate } from '@acme/shared/migrate';

const config = loadConfigOrExit('migrate');
try {
  const { applied, total } = await migrate(config.DATABASE_URL, { log: (text) => process.stdout.write(`${text}\n`) });
  process.stdout.write(applied.length ? `schema is up to date (${total} migrations)\n` : `nothing to do, schema is up to date (${total} migrations)\n`);
} catch (error) {
  process.stderr.write(`migrate: ${error.message || error.code || error.errors?.[0]?.message}\n`);
  process.exit(1);
}
