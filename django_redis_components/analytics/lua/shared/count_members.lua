-- Add to the scores of members of a zset with a maximum of members; further ones are counted as __other__.
-- The member "" is the sum of all. Return the score of the last member, or 0 if it was counted as __other__.
local function count_members(key, ttl_ms, max_members, members_and_times)
  local sum = 0
  for index = 2, #members_and_times, 2 do
    sum = sum + members_and_times[index]
  end
  redis.call("ZINCRBY", key, sum, "")
  local size, score = redis.call("ZCARD", key), 0
  for index = 1, #members_and_times, 2 do
    local member, times = members_and_times[index], members_and_times[index + 1]
    score = redis.call("ZADD", key, "XX", "INCR", times, member)
    if not score and size <= max_members then -- one member is the sum
      size = size + 1
      score = redis.call("ZINCRBY", key, times, member)
    elseif not score then
      redis.call("ZINCRBY", key, times, "__other__")
      score = 0
    end
  end
  redis.call("PEXPIRE", key, ttl_ms)
  return tonumber(score)
end
