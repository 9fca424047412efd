/**
 * Error reporting. The SDK is large, so it is loaded shortly after the app has
 * started, or by the first report if that comes earlier. Sending happens in
 * the background; a host that cannot be reached costs nothing but the report.
 */
export function createErrorReporting(config, log, { loadAfterMs = 3_000 } = {}) {
  let loading;
  const load = () =>
    (loading ??= import('@sentry/node').then((Sentry) => {
      Sentry.init({
        dsn: config.SENTRY_DSN ?? undefined,
        environment: config.SENTRY_ENVIRONMENT,
        release: config.RELEASE,
        serverName: config.app,
        initialScope: { tags: { app: config.app } },
        // Errors only. Without tracing there is nothing to inject into other modules.
        enableRuntimeChannelInjection: false,
      });
      return Sentry;
    }));
  const failed = (error) => log?.warn({ err: error }, 'error reporting is not available');
  setTimeout(() => load().catch(failed), loadAfterMs).unref();

  return {
    /** @param {unknown} error @param {{tags?: object, extra?: object, user?: object}} [context] */
    report(error, context = {}) {
      log?.error({ err: error, ...context.extra }, error?.message ?? 'unexpected error');
      load().then((Sentry) => Sentry.captureException(error, context)).catch(failed);
    },
    async flush(timeoutMs = 1_500) {
      if (loading) await (await loading).flush(timeoutMs);
    },
  };
}
