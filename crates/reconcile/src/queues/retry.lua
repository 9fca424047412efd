local id = ARGV[1]
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
local function decoded(text)
  local ok, value = pcall(cjson.decode, text)
  if ok and type(value) == 'table' then return value end
  return nil
end

-- BullMQ
for _, meta in ipairs(scan('*:meta')) do
  local base = string.sub(meta, 1, -6)
  if kind(base .. ':failed') == 'zset' and redis.call('zrem', base .. ':failed', id) == 1 then
    redis.call('hdel', base .. ':' .. id, 'finishedOn', 'processedOn', 'failedReason')
    redis.call('hset', base .. ':' .. id, 'atm', 0, 'attemptsMade', 0)
    redis.call('lpush', base .. ':wait', id)
    redis.call('zadd', base .. ':marker', 0, '0')
    redis.call('xadd', base .. ':events', '*', 'event', 'waiting', 'jobId', id, 'prev', 'failed')
    return 1
  end
end

-- RQ
if kind('rq:queues') == 'set' then
  for _, key in ipairs(redis.call('smembers', 'rq:queues')) do
    local queue = string.sub(key, 10)
    if kind('rq:failed:' .. queue) == 'zset' and redis.call('zrem', 'rq:failed:' .. queue, id) == 1 then
      redis.call('hset', 'rq:job:' .. id, 'status', 'queued')
      redis.call('hdel', 'rq:job:' .. id, 'ended_at', 'exc_info')
      redis.call('persist', 'rq:job:' .. id)
      redis.call('rpush', key, id)
      return 1
    end
  end
end

-- Sidekiq
for _, place in ipairs({ 'dead', 'retry' }) do
  if kind(place) == 'zset' then
    for _, text in ipairs(redis.call('zrange', place, 0, 9999)) do
      local job = decoded(text)
      if job and job.jid == id and redis.call('zrem', place, text) == 1 then
        redis.call('sadd', 'queues', job.queue)
        redis.call('lpush', 'queue:' .. job.queue, text)
        return 1
      end
    end
  end
end

-- Writes a time as Resque does, since its own pages read it. A script of Redis has no calendar.
local function date(seconds)
  local days = math.floor(seconds / 86400) + 719468
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  year = year + era * 400 + (month <= 2 and 1 or 0)
  local rest = seconds % 86400
  return string.format('%04d/%02d/%02d %02d:%02d:%02d UTC', year, month, day, math.floor(rest / 3600), math.floor(rest % 3600 / 60), rest % 60)
end

-- Resque: the place in the list is the id; it stays there, marked.
local at = string.match(id, '^failed%-(%d+)$')
if at and kind('resque:failed') == 'list' then
  local text = redis.call('lindex', 'resque:failed', at)
  local job = text and decoded(text)
  if job and job.payload and not job.retried_at then
    local payload = string.match(text, '"payload":(%b{})')
    -- The text is kept: written again, its empty lists would become empty objects.
    local marked = '{"retried_at":"' .. date(tonumber(redis.call('time')[1])) .. '",' .. string.sub(text, 2)
    redis.call('lset', 'resque:failed', at, marked)
    redis.call('sadd', 'resque:queues', job.queue)
    redis.call('rpush', 'resque:queue:' .. job.queue, payload or cjson.encode(job.payload))
    return 1
  end
end
return 0
