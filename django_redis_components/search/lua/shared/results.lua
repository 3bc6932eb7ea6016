-- A stored result: a list of ids and scores, alternating, and a hash about it. The first documents of a result are stored, and
-- the results of an index are bounded: those that were not used for the longest time are deleted.

-- Store ids and scores of the first documents of an ordered set.
local function store_result(list, ordered, max_shown)
  redis.call("UNLINK", list, list .. ":about")
  local ids_and_scores = redis.call("ZRANGE", ordered, 0, max_shown - 1, "REV", "WITHSCORES")
  for start = 1, #ids_and_scores, 1000 do
    redis.call("RPUSH", list, unpack(ids_and_scores, start, math.min(start + 999, #ids_and_scores)))
  end
end

-- Note that a result was used; delete the oldest ones beyond the bound.
local function note_use(root, name, ttl_ms, max_results)
  local results = root .. ":results"
  local list = root .. ":r:" .. name
  redis.call("PEXPIRE", list, ttl_ms)
  redis.call("PEXPIRE", list .. ":about", ttl_ms)
  local time = redis.call("TIME")
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call("ZADD", results, now_ms, name)
  redis.call("ZREMRANGEBYSCORE", results, "-inf", now_ms - ttl_ms)
  redis.call("PEXPIRE", results, ttl_ms)
  local excess = redis.call("ZCARD", results) - max_results
  if excess > 0 then
    for number, member in ipairs(redis.call("ZPOPMIN", results, excess)) do
      if number % 2 == 1 then
        redis.call("UNLINK", root .. ":r:" .. member, root .. ":r:" .. member .. ":about")
      end
    end
  end
end
