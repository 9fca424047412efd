/** As much of Redis as the code under test uses, in memory. */
export class FakeRedis {
  values = new Map();
  #list(key) {
    if (!this.values.has(key)) this.values.set(key, []);
    return this.values.get(key);
  }
  async get(key) { return this.values.get(key) ?? null; }
  async set(key, value, ...options) {
    if (options.includes('NX') && this.values.has(key)) return null;
    this.values.set(key, value);
    return 'OK';
  }
  async del(key) { return Number(this.values.delete(key)); }
  async incr(key) { this.values.set(key, Number(this.values.get(key) ?? 0) + 1); return this.values.get(key); }
  async expire() { return 1; }
  async ttl() { return 42; }
  async exists(key) { return Number(this.values.has(key)); }
  async hset(key, field, value) { (this.values.get(key) ?? this.values.set(key, new Map()).get(key)).set(field, value); }
  async hget(key, field) { return this.values.get(key)?.get(field) ?? null; }
  async hdel(key, field) { this.values.get(key)?.delete(field); }
  async lpush(key, value) { return this.#list(key).unshift(value); }
  async llen(key) { return this.#list(key).length; }
  async lrange(key) { return [...this.#list(key)]; }
  async lrem(key, count, value) {
    const list = this.#list(key);
    const at = list.indexOf(value);
    if (at >= 0) list.splice(at, 1);
    return at >= 0 ? 1 : 0;
  }
  async lmove(from, to) {
    const value = this.#list(from).pop();
    if (value === undefined) return null;
    this.#list(to).unshift(value);
    return value;
  }
  blmove(from, to) { return this.lmove(from, to); }
  async sadd(key, value) { (this.values.get(key) ?? this.values.set(key, new Set()).get(key)).add(value); }
  async srem(key, value) { this.values.get(key)?.delete(value); }
  async smembers(key) { return [...(this.values.get(key) ?? [])]; }
  async zadd(key, score, value) { (this.values.get(key) ?? this.values.set(key, new Map()).get(key)).set(value, score); }
  async zcard(key) { return this.values.get(key)?.size ?? 0; }
  async zrange(key) { return [...(this.values.get(key) ?? [])].flatMap(([value, score]) => [value, String(score)]); }
  async eval(script, count, delayed, ready, until) {
    const due = [...(this.values.get(delayed) ?? [])].filter(([, score]) => score <= until).map(([value]) => value);
    for (const value of due) {
      this.values.get(delayed).delete(value);
      await this.lpush(ready, value);
    }
    return due.length;
  }
  multi() {
    const steps = [];
    const chain = new Proxy({}, {
      get: (_, name) => name === 'exec'
        ? async () => { for (const step of steps) await step(); }
        : (...args) => { steps.push(() => this[name](...args)); return chain; },
    });
    return chain;
  }
}

export const quiet = { info() {}, warn() {}, error() {}, debug() {} };
