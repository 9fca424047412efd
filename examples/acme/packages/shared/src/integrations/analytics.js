import { PostHog } from 'posthog-node';

const FLAG_BUDGET_MS = 250;
const FLAG_FRESH_MS = 30_000;
const FLAG_RETRY_MS = 30_000;

/**
 * Product analytics and feature flags. Nothing here ever throws or makes a
 * page wait for longer than FLAG_BUDGET_MS: a flag that is not known in time
 * has its default value, and is asked for again in the background.
 */
export function createAnalytics(config, log, { client, now = Date.now } = {}) {
  const posthog =
    client ??
    (config.POSTHOG_KEY
      ? new PostHog(config.POSTHOG_KEY, {
          host: config.POSTHOG_HOST,
          flushAt: 20,
          flushInterval: 2_000,
          requestTimeout: 5_000,
          fetchRetryCount: 1,
          featureFlagsRequestTimeoutMs: 2_000,
        })
      : null);
  posthog?.on?.('error', (error) => log?.debug({ err: error }, 'analytics were not delivered'));

  /** @type {Map<string, {value: boolean, at: number}>} */
  const known = new Map();
  let silentUntil = 0;

  async function ask(name, distinctId) {
    try {
      const value = await posthog.isFeatureEnabled(name, distinctId);
      if (value === undefined) throw new Error(`no answer for flag ${name}`);
      if (known.size > 5_000) known.clear();
      known.set(`${name}:${distinctId}`, { value, at: now() });
      return value;
    } catch (error) {
      silentUntil = now() + FLAG_RETRY_MS;
      log?.debug({ err: error }, 'feature flag is not available');
      return undefined;
    }
  }

  return {
    capture(event, distinctId, properties = {}) {
      try {
        posthog?.capture({ event, distinctId: String(distinctId), properties: { ...properties, app: config.app } });
      } catch (error) {
        log?.debug({ err: error }, 'analytics event was not recorded');
      }
    },
    /** @returns {Promise<boolean>} */
    async flag(name, distinctId, fallback = false) {
      if (!posthog) return fallback;
      const cached = known.get(`${name}:${distinctId}`);
      if (cached && now() - cached.at < FLAG_FRESH_MS) return cached.value;
      if (now() < silentUntil) return cached?.value ?? fallback;
      let timer;
      const late = new Promise((resolve) => {
        timer = setTimeout(resolve, FLAG_BUDGET_MS);
      });
      const value = await Promise.race([ask(name, distinctId), late]);
      clearTimeout(timer);
      return value ?? cached?.value ?? fallback;
    },
    async close() {
      await posthog?.shutdown(1_500).catch(() => {});
    },
  };
}
