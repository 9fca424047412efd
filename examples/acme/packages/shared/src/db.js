import pg from 'pg';

// bigint and numeric come back as numbers: every amount is in cents and far below 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number);
pg.types.setTypeParser(pg.types.builtins.NUMERIC, Number);
pg.types.setTypeParser(pg.types.builtins.DATE, (text) => text);

/**
 * @typedef {object} Queryable
 * @property {(text: string, values?: unknown[]) => Promise<{rows: any[], rowCount: number}>} query
 */

/** A pool that survives a restart of the server and never waits long for a connection. */
export function createDatabase(connectionString, { log, max = 10, statementTimeout = 30_000 } = {}) {
  const pool = new pg.Pool({
    connectionString,
    max,
    connectionTimeoutMillis: 2_000,
    idleTimeoutMillis: 30_000,
    statement_timeout: statementTimeout,
    application_name: 'acme',
  });
  pool.on('error', (error) => log?.warn({ err: error }, 'idle database connection lost'));

  return {
    pool,
    query: (text, values) => pool.query(text, values),
    async one(text, values) {
      return (await pool.query(text, values)).rows[0] ?? null;
    },
    /**
     * Runs `work` in one transaction; rolls back when it throws.
     * @template T
     * @param {(tx: Queryable) => Promise<T>} work
     * @returns {Promise<T>}
     */
    async transaction(work) {
      const client = await pool.connect();
      let broken;
      try {
        await client.query('BEGIN');
        const result = await work(client);
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK').catch((rollbackError) => {
          broken = rollbackError;
        });
        throw error;
      } finally {
        client.release(broken);
      }
    },
    async check() {
      await pool.query('SELECT 1');
    },
    close: () => pool.end(),
  };
}
