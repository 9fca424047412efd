local function scan(pattern)
  local all, cursor = {}, '0'
  repeat
    local part = redis.call('scan', cursor, 'match', pattern, 'count', 1000)
    cursor = part[1]
    for _, key in ipairs(part[2]) do all[#all + 1] = key end
  until cursor == '0' or #all > 2000
  return all
end
local function kind(key) return redis.call('type', key).ok end
local moved = 0

-- BullMQ
for _, meta in ipairs(scan('*:meta')) do
  local base = string.sub(meta, 1, -6)
  if kind(base .. ':delayed') == 'zset' then
    for _, id in ipairs(redis.call('zrange', base .. ':delayed', 0, 999)) do
      redis.call('zrem', base .. ':delayed', id)
      redis.call('hset', base .. ':' .. id, 'delay', 0)
      redis.call('lpush', base .. ':wait', id)
      redis.call('zadd', base .. ':marker', 0, '0')
      moved = moved + 1
    end
  end
end

-- RQ
if kind('rq:queues') == 'set' then
  for _, key in ipairs(redis.call('smembers', 'rq:queues')) do
    local place = 'rq:scheduled:' .. string.sub(key, 10)
    if kind(place) == 'zset' then
      for _, id in ipairs(redis.call('zrange', place, 0, 999)) do
        redis.call('zrem', place, id)
        redis.call('hset', 'rq:job:' .. id, 'status', 'queued')
        redis.call('rpush', key, id)
        moved = moved + 1
      end
    end
  end
end

-- Sidekiq
for _, place in ipairs({ 'schedule', 'retry' }) do
  if kind(place) == 'zset' then
    for _, text in ipairs(redis.call('zrange', place, 0, 999)) do
      local ok, job = pcall(cjson.decode, text)
      if ok and type(job) == 'table' and job.jid and redis.call('zrem', place, text) == 1 then
        redis.call('sadd', 'queues', job.queue)
        redis.call('lpush', 'queue:' .. job.queue, text)
        moved = moved + 1
      end
    end
  end
end

-- Laravel
for _, key in ipairs(scan('*queues:*:delayed')) do
  if kind(key) == 'zset' then
    local ready = string.sub(key, 1, -9)
    for _, text in ipairs(redis.call('zrange', key, 0, 999)) do
      redis.call('zrem', key, text)
      redis.call('rpush', ready, text)
      redis.call('rpush', ready .. ':notify', 1)
      moved = moved + 1
    end
  end
end
return moved
