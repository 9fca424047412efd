import { randomBytes, timingSafeEqual } from 'node:crypto';

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS']);

export const newToken = (bytes = 32) => randomBytes(bytes).toString('base64url');

/** @param {unknown} a @param {unknown} b */
export function sameToken(a, b) {
  if (typeof a !== 'string' || typeof b !== 'string' || a.length === 0) return false;
  const left = Buffer.from(a);
  const right = Buffer.from(b);
  return left.length === right.length && timingSafeEqual(left, right);
}

/** True when a request with this method and token may change something in this session. */
export function csrfAllows(method, session, token) {
  return SAFE.has(method) || (session != null && sameToken(session.csrf, token));
}
