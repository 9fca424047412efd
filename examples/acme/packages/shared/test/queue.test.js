import test from 'node:test';
import assert from 'node:assert/strict';
import { backoff, createQueue, MAX_ATTEMPTS } from '@acme/shared/queue';
import { FakeRedis } from './support.js';

function setup() {
  const clock = { now: 1_000_000 };
  const redis = new FakeRedis();
  return { clock, redis, queue: createQueue({ redis, now: () => clock.now }) };
}

test('the wait doubles and has an end', () => {
  assert.deepEqual([1, 2, 3, 4].map(backoff), [1000, 2000, 4000, 8000]);
  assert.equal(backoff(30), 60_000);
});

test('a job is taken once, in order, and gone when it succeeded', async () => {
  const { queue } = setup();
  const first = await queue.add('a', { n: 1 });
  await queue.add('b', {});
  const job = await queue.take('w');
  assert.equal(job.id, first.id);
  await queue.succeed('w', job);
  assert.equal((await queue.take('w')).type, 'b');
  assert.equal(await queue.take('w'), null);
  assert.equal((await queue.overview()).done, 1);
});

test('a failed job comes back after its wait and not before', async () => {
  const { queue, clock } = setup();
  await queue.add('a', {});
  const outcome = await queue.fail('w', await queue.take('w'), new Error('busy'));
  assert.deepEqual(outcome, { dead: false, attempts: 1, retryInMs: 1000 });
  clock.now += 999;
  await queue.promote();
  assert.equal(await queue.take('w'), null);
  clock.now += 1;
  await queue.promote();
  const again = await queue.take('w');
  assert.equal(again.attempts, 1);
  assert.equal(again.lastError, 'busy');
});

test('after the last attempt a job is a dead letter and can be revived', async () => {
  const { queue, clock } = setup();
  const { id } = await queue.add('a', {});
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const outcome = await queue.fail('w', await queue.take('w'), new Error('no'));
    assert.equal(outcome.dead, attempt === MAX_ATTEMPTS);
    clock.now += 60_000;
    await queue.promote();
  }
  const { dead, deadJobs } = await queue.overview();
  assert.equal(dead, 1);
  assert.equal(deadJobs[0].attempts, MAX_ATTEMPTS);
  await queue.retryDead(id);
  assert.equal((await queue.take('w')).attempts, 0);
  assert.equal(await queue.retryDead('unknown'), null);
});

test('an error that cannot pass is not tried again', async () => {
  const { queue } = setup();
  await queue.add('a', {});
  const outcome = await queue.fail('w', await queue.take('w'), Object.assign(new Error('gone'), { permanent: true }));
  assert.equal(outcome.dead, true);
});

test('jobs of a worker that went away are taken back', async () => {
  const { queue, redis } = setup();
  await queue.add('a', {});
  await queue.beat('lost');
  await queue.take('lost');
  await redis.del(queue.keys.beat('lost'));
  assert.equal(await queue.beat('alive'), 1);
  assert.equal((await queue.take('alive')).type, 'a');
});
