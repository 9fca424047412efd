import { readdir, readFile } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import pg from 'pg';

const FOLDER = fileURLToPath(new URL('../migrations/', import.meta.url));
const LOCK = 727_001;

export async function readMigrations(folder = FOLDER) {
  const names = (await readdir(folder)).filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(`${folder}/${name}`, 'utf8');
      return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

/**
 * Decides what is left to do, and refuses a history that was rewritten.
 * @param {{name: string, checksum: string}[]} files
 * @param {{name: string, checksum: string}[]} applied
 */
export function planMigrations(files, applied) {
  const known = new Map(files.map((file) => [file.name, file]));
  for (const row of applied) {
    const file = known.get(row.name);
    if (!file) throw new Error(`migration ${row.name} was applied but its file is gone`);
    if (file.checksum !== row.checksum) throw new Error(`migration ${row.name} was changed after it was applied; add a new one instead`);
  }
  const done = new Set(applied.map((row) => row.name));
  return files.filter((file) => !done.has(file.name));
}

/** Brings the schema forward. An advisory lock makes a second runner wait and then find nothing to do. */
export async function migrate(connectionString, { log = () => {}, folder = FOLDER } = {}) {
  const files = await readMigrations(folder);
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 5_000, application_name: 'acme-migrate' });
  await client.connect();
  try {
    await client.query('SELECT pg_advisory_lock($1)', [LOCK]);
    await client.query(
      'CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())',
    );
    const { rows } = await client.query('SELECT name, checksum FROM schema_migrations ORDER BY name');
    const pending = planMigrations(files, rows);
    for (const migration of pending) {
      await client.query('BEGIN');
      try {
        await client.query(migration.sql);
        await client.query('INSERT INTO schema_migrations (name, checksum) VALUES ($1, $2)', [migration.name, migration.checksum]);
        await client.query('COMMIT');
      } catch (error) {
        await client.query('ROLLBACK');
        error.message = `${migration.name}: ${error.message}`;
        throw error;
      }
      log(`applied ${migration.name}`);
    }
    return { applied: pending.map((m) => m.name), total: files.length };
  } finally {
    await client.end();
  }
}
