import pino from 'pino';

/** JSON lines on stdout, with secrets and personal data of requests left out. */
export function createLogger({ app, LOG_LEVEL = 'info' }) {
  return pino({
    level: LOG_LEVEL,
    base: { app },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: ['req.headers.cookie', 'req.headers.authorization', '*.password'], censor: '[redacted]' },
  });
}
