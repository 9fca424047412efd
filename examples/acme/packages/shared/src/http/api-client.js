import { AppError, VendorError } from '../errors.js';

export const SESSION_COOKIE = 'acme_sid';

/**
 * Calls the API on behalf of one browser: carries its session, its address
 * and the CSRF token of its form, and hands a new session back.
 *
 * @param {object} options
 * @param {string} options.baseUrl
 * @param {string | undefined} options.session
 * @param {(session: string | null) => void} options.onSession
 */
export function createApiClient({ baseUrl, session, onSession, ip, requestId, userAgent, fetch = globalThis.fetch }) {
  let current = session;
  async function call(method, path, { body, csrf, timeoutMs = 12_000, bytes, type } = {}) {
    const headers = { accept: 'application/json', 'x-request-id': requestId ?? '' };
    if (current) headers.cookie = `${SESSION_COOKIE}=${current}`;
    if (ip) headers['x-forwarded-for'] = ip;
    if (userAgent) headers['user-agent'] = userAgent;
    if (csrf) headers['x-csrf-token'] = csrf;
    if (bytes) headers['content-type'] = type ?? 'application/octet-stream';
    else if (body !== undefined) headers['content-type'] = 'application/json';
    let response;
    let data;
    try {
      response = await fetch(baseUrl + path, {
        method,
        headers,
        body: bytes ?? (body === undefined ? undefined : JSON.stringify(body)),
        signal: AbortSignal.timeout(timeoutMs),
        redirect: 'error',
      });
      data = response.status === 204 ? null : await response.json();
    } catch (error) {
      throw new AppError(503, 'api_unavailable', 'The shop is taking a short break. Please try again in a moment.', {
        cause: new VendorError('api', error.cause?.code ?? error.message).message,
      });
    }
    for (const line of response.headers.getSetCookie()) {
      const match = new RegExp(`^${SESSION_COOKIE}=([^;]*)`).exec(line);
      if (match) {
        current = match[1] || undefined;
        onSession(current ?? null);
      }
    }
    if (!response.ok) {
      const problem = data?.error ?? {};
      throw new AppError(response.status, problem.code ?? 'internal', problem.message ?? 'Something went wrong on our side.', {
        ...problem.details,
        reference: problem.reference,
      });
    }
    return data;
  }
  return {
    get: (path, options) => call('GET', path, options),
    post: (path, body = {}, options) => call('POST', path, { ...options, body }),
    put: (path, body = {}, options) => call('PUT', path, { ...options, body }),
    delete: (path, options) => call('DELETE', path, { ...options, body: {} }),
    upload: (path, bytes, options) => call('PUT', path, { ...options, bytes }),
  };
}
