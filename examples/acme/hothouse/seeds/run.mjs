/** `node hothouse/seeds/run.mjs BUNDLE`: one small piece of data. Running it again changes nothing. */
import { readFile, writeFile } from 'node:fs/promises';
import '@acme/shared/load-env';
import { loadConfigOrExit } from '@acme/shared/config';
import { createDatabase } from '@acme/shared/db';
import * as bundles from './bundles.mjs';

const [name] = process.argv.slice(2);
const bundle = bundles[name];
if (!bundle) {
  process.stderr.write(`There is no bundle ${name}: ${Object.keys(bundles).join(', ')}\n`);
  process.exit(2);
}
const config = loadConfigOrExit('seed');
const db = createDatabase(config.DATABASE_URL);
try {
  const path = process.env.HOTHOUSE_SEED_CONTEXT;
  const context = path ? JSON.parse((await readFile(path, 'utf8')) || '{}') : {};
  const told = await db.transaction((tx) => bundle(tx, context));
  // What bundles tell is kept by topic: who can sign in, where to look, what was made.
  for (const [topic, entries] of Object.entries(told)) {
    context[topic] = Array.isArray(entries) ? [...new Set([...(context[topic] ?? []), ...entries])] : { ...context[topic], ...entries };
  }
  if (path) await writeFile(path, `${JSON.stringify(context, null, 2)}\n`);
  process.stdout.write(`${name}: ${JSON.stringify(told.ids ?? {})}\n`);
} catch (error) {
  process.stderr.write(`seed ${name}: ${error.message || error.code}${error.code === '42P01' ? ' (run `npm run migrate` first)' : ''}\n`);
  process.exitCode = 1;
} finally {
  await db.close();
}
