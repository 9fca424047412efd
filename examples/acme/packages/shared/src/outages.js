const DOWN = new Set(['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EPIPE', 'ENOENT', '57P01', '57P02', '57P03']);

/** True when the database itself is unreachable, not when a statement was wrong. */
export function isDatabaseDown(error) {
  const message = String(error?.message);
  return (
    DOWN.has(error?.code) ||
    /timeout exceeded when trying to connect|Connection terminated|connection timeout/i.test(message) ||
    (error instanceof AggregateError && error.errors.some(isDatabaseDown))
  );
}

/** True when Redis itself is unreachable. */
export function isRedisDown(error) {
  return error?.name === 'MaxRetriesPerRequestError' || /Connection is closed|Stream isn't writeable/i.test(String(error?.message));
}
