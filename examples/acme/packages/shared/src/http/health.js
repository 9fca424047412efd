/**
 * Asks every part this app depends on, each with a deadline.
 * @param {Record<string, () => Promise<unknown>>} checks
 */
export async function health(config, checks) {
  const results = await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      try {
        await withDeadline(check(), 1_500);
        return [name, { ok: true }];
      } catch (error) {
        return [name, { ok: false, reason: reasonOf(error) }];
      }
    }),
  );
  const ok = results.every(([, result]) => result.ok);
  return { ok, report: { status: ok ? 'ok' : 'unavailable', app: config.app, release: config.RELEASE, checks: Object.fromEntries(results) } };
}

function withDeadline(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function reasonOf(error) {
  if (error instanceof AggregateError && error.errors.length) return reasonOf(error.errors[0]);
  return error?.message || error?.code || 'unknown reason';
}
