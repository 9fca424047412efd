/**
 * A small schema for environment variables. Every problem is collected, so
 * that a missing environment is reported once and completely.
 *
 * @typedef {object} Rule
 * @property {(text: string) => unknown} parse throws an Error that says what is expected
 * @property {string} [fallback] used when the variable is absent or empty
 * @property {boolean} [optional] absent gives `null`
 */

export class EnvironmentError extends Error {
  /** @param {string} app @param {{name: string, problem: string}[]} problems */
  constructor(app, problems) {
    const width = Math.max(...problems.map((p) => p.name.length));
    const lines = problems.map((p) => `  ${p.name.padEnd(width)}  ${p.problem}`);
    super(
      `${app}: ${problems.length} environment variable${problems.length === 1 ? ' is' : 's are'} missing or malformed:\n` +
        `${lines.join('\n')}\nSee .env.example for every variable and a working value.`,
    );
    this.name = 'EnvironmentError';
    this.problems = problems;
  }
}

const expect = (what) => {
  throw new Error(`must be ${what}`);
};

/** @returns {(text: string) => string} */
const url = (protocols, what, { origin = false } = {}) => (text) => {
  let parsed;
  try {
    parsed = new URL(text);
  } catch {
    return expect(what);
  }
  if (!protocols.includes(parsed.protocol) || !parsed.hostname) expect(what);
  return origin ? text.replace(/\/+$/, '') : text;
};

export const types = {
  string: (text) => text,
  postgresUrl: url(['postgres:', 'postgresql:'], 'a URL like postgres://user:password@host:5432/database'),
  redisUrl: url(['redis:', 'rediss:'], 'a URL like redis://host:6379'),
  httpUrl: url(['http:', 'https:'], 'a URL that begins with http:// or https://', { origin: true }),
  port: (text) => (/^\d+$/.test(text) && +text > 0 && +text < 65536 ? +text : expect('a port number from 1 to 65535')),
  integer: (text) => (/^\d+$/.test(text) ? +text : expect('a whole number')),
  boolean: (text) => ({ true: true, 1: true, false: false, 0: false })[text.toLowerCase()] ?? expect('true or false'),
  email: (text) => (/^(?:[^<>]+<)?[^\s@<>]+@[^\s@<>]+>?$/.test(text) ? text : expect('a mail address')),
  oneOf: (...values) => (text) => (values.includes(text) ? text : expect(`one of ${values.join(', ')}`)),
  prefixed: (...prefixes) => (text) =>
    prefixes.some((prefix) => text.startsWith(prefix)) ? text : expect(`a key that begins with ${prefixes.join(' or ')}`),
  sentryDsn: (text) => {
    const parsed = URL.canParse(text) ? new URL(text) : null;
    return parsed && parsed.username && /\/\d+$/.test(parsed.pathname) ? text : expect('a Sentry DSN like https://key@host/1');
  },
};

/**
 * @param {string} app name used in the message
 * @param {Record<string, Rule>} rules
 * @param {Record<string, string | undefined>} env
 */
export function readEnvironment(app, rules, env) {
  const values = {};
  const problems = [];
  for (const [name, rule] of Object.entries(rules)) {
    const given = env[name]?.trim();
    const text = given || rule.fallback;
    if (!text) {
      values[name] = null;
      if (!rule.optional) problems.push({ name, problem: 'is missing' });
      continue;
    }
    try {
      values[name] = rule.parse(text);
    } catch (error) {
      problems.push({ name, problem: `${error.message}` });
    }
  }
  if (problems.length) throw new EnvironmentError(app, problems);
  return values;
}
