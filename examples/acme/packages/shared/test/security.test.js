import test from 'node:test';
import assert from 'node:assert/strict';
import { csrfAllows, newToken, sameToken } from '@acme/shared/csrf';
import { hashPassword, passwordProblem, verifyPassword } from '@acme/shared/password';
import { createSessions } from '@acme/shared/sessions';
import { createRateLimit } from '@acme/shared/ratelimit';
import { html, json, raw, safeUrl } from '@acme/shared/html';
import { sniffImage } from '@acme/shared/images';
import { contentSecurityPolicy, publicError } from '@acme/shared/http/server';
import { localPath } from '@acme/shared/http/pages';
import { AppError } from '@acme/shared/errors';
import { FakeRedis } from './support.js';

const cheap = { N: 1024, r: 8, p: 1 };

test('a password is hashed with its own salt and verified', async () => {
  const [one, two] = await Promise.all([hashPassword('correct horse', cheap), hashPassword('correct horse', cheap)]);
  assert.notEqual(one, two);
  assert.match(one, /^scrypt\$1024\$8\$1\$/);
  assert.equal(await verifyPassword('correct horse', one), true);
  assert.equal(await verifyPassword('correct horsf', one), false);
});

test('an unknown account and a broken hash never verify', async () => {
  assert.equal(await verifyPassword('anything', undefined), false);
  assert.equal(await verifyPassword('anything', 'plain-text'), false);
});

test('weak passwords are refused', () => {
  assert.match(passwordProblem('short'), /at least 10/);
  assert.match(passwordProblem('x'.repeat(201)), /at most 200/);
  assert.match(passwordProblem(undefined), /at least 10/);
  assert.equal(passwordProblem('long enough'), null);
});

test('only the token of the session may change something', () => {
  const session = { csrf: newToken() };
  assert.equal(csrfAllows('POST', session, session.csrf), true);
  assert.equal(csrfAllows('POST', session, newToken()), false);
  assert.equal(csrfAllows('POST', session, ''), false);
  assert.equal(csrfAllows('POST', session, undefined), false);
  assert.equal(csrfAllows('DELETE', null, session.csrf), false);
  assert.equal(csrfAllows('GET', null, undefined), true);
  assert.equal(sameToken('', ''), false);
});

test('sessions: read back, rotated at login, unknown ids are nothing', async () => {
  const redis = new FakeRedis();
  const sessions = createSessions({ redis, ttl: 100 });
  const session = await sessions.create({ cart: { 1: 2 } });
  assert.equal([...redis.values.keys()].some((key) => key.includes(session.id)), false, 'the id itself is not stored');
  assert.deepEqual((await sessions.read(session.id)).cart, { 1: 2 });
  const rotated = await sessions.rotate(session, { userId: 7 });
  assert.notEqual(rotated.id, session.id);
  assert.notEqual(rotated.csrf, session.csrf);
  assert.deepEqual(rotated.cart, { 1: 2 });
  assert.equal(await sessions.read(session.id), null);
  assert.equal((await sessions.read(rotated.id)).userId, 7);
  for (const id of [undefined, '', 'x', `${session.id}x`, { a: 1 }]) assert.equal(await sessions.read(id), null);
});

test('the rate limit lets through what it should and says when to come back', async () => {
  const limit = createRateLimit({ redis: new FakeRedis(), limit: 2, windowSeconds: 60, prefix: 't' });
  assert.equal((await limit.hit('a')).allowed, true);
  assert.equal((await limit.hit('a')).allowed, true);
  assert.deepEqual(await limit.hit('a'), { allowed: false, retryAfter: 42 });
  assert.equal((await limit.hit('b')).allowed, true);
  await limit.reset('a');
  assert.equal((await limit.hit('a')).allowed, true);
});

test('templates escape what they are given', () => {
  const evil = `<script>alert("1")</script>'&`;
  assert.equal(String(html`<p title="${evil}">${evil}</p>`), '<p title="&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;">&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;</p>');
  assert.equal(String(html`${[html`<b>${'<'}</b>`, '>']}${null}${undefined}${false}${0}`), '<b>&lt;</b>&gt;0');
  assert.equal(String(html`${raw('<br>')}`), '<br>');
});

test('data in a script element cannot end it', () => {
  const text = String(json({ a: '</script><script>', b: '\u2028&' }));
  assert.doesNotMatch(text, /[<>&\u2028]/);
  assert.deepEqual(JSON.parse(text), { a: '</script><script>', b: '\u2028&' });
});

test('links and redirects stay where they should', () => {
  assert.equal(safeUrl('javascript:alert(1)'), '#');
  assert.equal(safeUrl('//evil.example'), '#');
  assert.equal(safeUrl('https://a.example/b'), 'https://a.example/b');
  for (const bad of ['//evil.example', '/\\evil.example', 'https://evil.example', 'x', undefined, ['/a']]) assert.equal(localPath(bad, '/safe'), '/safe', String(bad));
  assert.equal(localPath('/account?x=1'), '/account?x=1');
});

test('an upload is what its bytes say, not what its name says', () => {
  const png = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(8)]);
  assert.equal(sniffImage(png).type, 'image/png');
  assert.equal(sniffImage(Buffer.concat([Buffer.from('ffd8ffe0', 'hex'), Buffer.alloc(12)])).extension, 'jpg');
  assert.equal(sniffImage(Buffer.from('RIFF....WEBPVP8 ')).type, 'image/webp');
  assert.equal(sniffImage(Buffer.from('<svg xmlns="http://www.w3.org/2000/svg">')), null);
  assert.equal(sniffImage(Buffer.from('<html><script>alert(1)</script>')), null);
  assert.equal(sniffImage(Buffer.alloc(3)), null);
  assert.equal(sniffImage('text'), null);
});

test('the policy allows no inline script and no framing', () => {
  const policy = contentSecurityPolicy({ connect: ['https://a.example'] });
  assert.match(policy, /script-src 'self';/);
  assert.match(policy, /connect-src 'self' https:\/\/a\.example;/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
});

test('errors for the outside give nothing away', () => {
  assert.deepEqual(publicError(new TypeError('secret detail')), { status: 500, code: 'internal', message: 'Something went wrong on our side.' });
  assert.equal(publicError(Object.assign(new Error('x'), { code: 'ECONNREFUSED' })).status, 503);
  assert.equal(publicError(new Error('timeout exceeded when trying to connect')).code, 'database_unavailable');
  assert.equal(publicError(Object.assign(new Error('x'), { statusCode: 413 })).code, 'too_large');
  assert.equal(publicError(new AppError(409, 'c', 'm')).message, 'm');
});
