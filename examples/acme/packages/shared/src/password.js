import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

const derive = promisify(scrypt);
const COST = { N: 16_384, r: 8, p: 1 };
const LENGTH = 32;

/** @returns {Promise<string>} `scrypt$N$r$p$salt$hash` */
export async function hashPassword(password, cost = COST) {
  const salt = randomBytes(16);
  const hash = await derive(password.normalize('NFKC'), salt, LENGTH, { ...cost, maxmem: 64 * 1024 * 1024 });
  return ['scrypt', cost.N, cost.r, cost.p, salt.toString('base64url'), hash.toString('base64url')].join('$');
}

// Checked when the account does not exist, so that both cases take equally long.
const decoy = hashPassword(randomBytes(16).toString('hex'));

/** @param {string} password @param {string | null | undefined} stored */
export async function verifyPassword(password, stored) {
  const [scheme, n, r, p, salt, hash] = (stored ?? (await decoy)).split('$');
  if (scheme !== 'scrypt' || !hash) return false;
  const expected = Buffer.from(hash, 'base64url');
  const actual = await derive(password.normalize('NFKC'), Buffer.from(salt, 'base64url'), expected.length, {
    N: +n,
    r: +r,
    p: +p,
    maxmem: 64 * 1024 * 1024,
  });
  return timingSafeEqual(actual, expected) && Boolean(stored);
}

export function passwordProblem(password) {
  if (typeof password !== 'string' || password.length < 10) return 'Please choose a password of at least 10 characters.';
  if (password.length > 200) return 'Please choose a password of at most 200 characters.';
  return null;
}
