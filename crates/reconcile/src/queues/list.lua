local out = {}
local function add(queue, id, name, state, attempts, err)
  if #out >= 2000 then return end
  local job = { queue = queue, id = tostring(id), name = tostring(name or ''), state = state, attempts = tonumber(attempts) or 0 }
  if err and err ~= cjson.null then job.error = string.sub(tostring(err), 1, 500) end
  out[#out + 1] = job
end
local function scan(pattern)
  local all, cursor = {}, '0'
  repeat
    local part = redis.call('scan', cursor, 'match', pattern, 'count', 1000)
    cursor = part[1]
    for _, key in ipairs(part[2]) do all[#all + 1] = key end
  until cursor == '0' or #all > 2000
  table.sort(all)
  return all
end
local function kind(key) return redis.call('type', key).ok end
local function entries(key)
  local of = kind(key)
  if of == 'list' then return redis.call('lrange', key, 0, 499) end
  if of == 'zset' then return redis.call('zrange', key, 0, 499) end
  return {}
end
local function decoded(text)
  local ok, value = pcall(cjson.decode, text)
  if ok and type(value) == 'table' then return value end
  return nil
end

-- BullMQ
for _, meta in ipairs(scan('*:meta')) do
  if kind(meta) == 'hash' and (redis.call('hexists', meta, 'opts.maxLenEvents') == 1 or redis.call('hexists', meta, 'version') == 1) then
    local base = string.sub(meta, 1, -6)
    local queue = string.match(base, '([^:]+)$')
    for part, state in pairs({ wait = 'waiting', paused = 'paused', active = 'active', delayed = 'delayed', prioritized = 'waiting', failed = 'dead', completed = 'completed' }) do
      for _, id in ipairs(entries(base .. ':' .. part)) do
        local job = redis.call('hmget', base .. ':' .. id, 'name', 'atm', 'attemptsMade', 'failedReason')
        if job[1] then add(queue, id, job[1], state, job[2] or job[3], job[4]) end
      end
    end
  end
end

-- RQ
if kind('rq:queues') == 'set' then
  for _, key in ipairs(redis.call('smembers', 'rq:queues')) do
    local queue = string.sub(key, 10)
    local parts = { [key] = 'waiting', ['rq:wip:' .. queue] = 'active', ['rq:scheduled:' .. queue] = 'delayed', ['rq:deferred:' .. queue] = 'delayed', ['rq:failed:' .. queue] = 'dead', ['rq:finished:' .. queue] = 'completed' }
    for place, state in pairs(parts) do
      for _, id in ipairs(entries(place)) do
        -- A job that runs is named with its execution.
        local own = string.match(id, '^([^:]+)') or id
        local job = redis.call('hmget', 'rq:job:' .. own, 'description', 'retries_left')
        add(queue, own, job[1] or '', state, state == 'dead' and 1 or 0, nil)
      end
    end
  end
end

-- Sidekiq
if kind('queues') == 'set' then
  for _, queue in ipairs(redis.call('smembers', 'queues')) do
    for _, text in ipairs(entries('queue:' .. queue)) do
      local job = decoded(text)
      if job and job.jid then add(queue, job.jid, job['class'], 'waiting', job.retry_count, job.error_message) end
    end
  end
end
for place, state in pairs({ schedule = 'delayed', retry = 'delayed', dead = 'dead' }) do
  if kind(place) == 'zset' then
    for _, text in ipairs(entries(place)) do
      local job = decoded(text)
      if job and job.jid then add(job.queue or 'default', job.jid, job['class'], state, (tonumber(job.retry_count) or -1) + 1, job.error_message) end
    end
  end
end

-- Resque
if kind('resque:queues') == 'set' then
  for _, queue in ipairs(redis.call('smembers', 'resque:queues')) do
    for at, text in ipairs(entries('resque:queue:' .. queue)) do
      local job = decoded(text)
      if job then add(queue, queue .. '-' .. (at - 1), job['class'], 'waiting', 0, nil) end
    end
  end
  -- A worker notes what it is doing; it has taken that off the queue.
  if kind('resque:workers') == 'set' then
    for _, worker in ipairs(redis.call('smembers', 'resque:workers')) do
      local text = kind('resque:worker:' .. worker) == 'string' and redis.call('get', 'resque:worker:' .. worker)
      local job = text and decoded(text)
      if job and type(job.payload) == 'table' then add(job.queue or '', 'worker-' .. worker, job.payload['class'], 'active', 0, nil) end
    end
  end
  for at, text in ipairs(entries('resque:failed')) do
    local job = decoded(text)
    if job and not job.retried_at then add(job.queue or '', 'failed-' .. (at - 1), job.payload and job.payload['class'], 'dead', 1, job.error) end
  end
end

-- Celery, with Redis as its broker
for _, key in ipairs(scan('*')) do
  if not string.find(key, ':') and kind(key) == 'list' then
    for _, text in ipairs(entries(key)) do
      local message = decoded(text)
      local headers = message and message.headers
      if type(headers) == 'table' and headers.task then add(key, headers.id, headers.task, headers.eta ~= cjson.null and headers.eta and 'delayed' or 'waiting', headers.retries, nil) end
    end
  end
end
if kind('unacked') == 'hash' then
  local all = redis.call('hgetall', 'unacked')
  for at = 2, math.min(#all, 1000), 2 do
    local entry = decoded(all[at])
    local headers = entry and type(entry[1]) == 'table' and entry[1].headers
    if type(headers) == 'table' and headers.task then add(entry[3] or '', headers.id, headers.task, 'active', headers.retries, nil) end
  end
end
for _, key in ipairs(scan('celery-task-meta-*')) do
  local result = decoded(redis.call('get', key))
  if result and (result.status == 'FAILURE' or result.status == 'SUCCESS') then
    local dead, err = result.status == 'FAILURE', nil
    if dead and type(result.result) == 'table' then
      local said = result.result.exc_message
      err = (result.result.exc_type or '') .. ': ' .. (type(said) == 'table' and tostring(said[1]) or tostring(said))
    end
    add(result.queue and result.queue ~= cjson.null and result.queue or 'celery', result.task_id, result.name and result.name ~= cjson.null and result.name or '', dead and 'dead' or 'completed', tonumber(result.retries) or 0, err)
  end
end

-- Laravel
for _, key in ipairs(scan('*queues:*')) do
  local queue, part = string.match(key, 'queues:([^:]+):?(%a*)$')
  local state = ({ [''] = 'waiting', delayed = 'delayed', reserved = 'active' })[part or '']
  if queue and state and kind(key) ~= 'set' then
    for _, text in ipairs(entries(key)) do
      local job = decoded(text)
      if job and job.displayName then add(queue, job.uuid or job.id, job.displayName, state, job.attempts, nil) end
    end
  end
end

table.sort(out, function(a, b)
  if a.queue ~= b.queue then return a.queue < b.queue end
  return a.id < b.id
end)
return cjson.encode(out)
