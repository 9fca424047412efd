import { VendorError } from '../errors.js';

/** JSON over HTTPS with a deadline. Every failure is a VendorError that names the vendor. */
export async function fetchJson(vendor, url, { method = 'GET', headers = {}, body, timeoutMs = 3_000, fetch = globalThis.fetch } = {}) {
  let response;
  let text;
  try {
    response = await fetch(url, {
      method,
      headers: { accept: 'application/json', ...(body ? { 'content-type': 'application/json' } : {}), ...headers },
      body: body ? JSON.stringify(body) : undefined,
      signal: AbortSignal.timeout(timeoutMs),
    });
    text = await response.text();
  } catch (error) {
    const reason = error.name === 'TimeoutError' ? `no answer within ${timeoutMs} ms` : (error.cause?.code ?? error.message);
    throw new VendorError(vendor, `${method} ${new URL(url).pathname}: ${reason}`, { cause: error });
  }
  if (!response.ok) throw new VendorError(vendor, `${method} ${new URL(url).pathname}: status ${response.status}`);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new VendorError(vendor, `${method} ${new URL(url).pathname}: the answer is not JSON`, { cause: error });
  }
}
