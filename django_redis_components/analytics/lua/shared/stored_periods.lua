-- An index is the set of the names of a counter's periods that are stored, so that a member can be removed from all.

-- Names of an index that are looked at when one is added: periods expire by themselves.
local CHECKED_NAMES = 2

-- Set the TTL of a period after a write to it, and add its name to the index if the write created it.
local function keep_period(base, index, name, ttl_ms)
  local period = base .. ":" .. name
  if redis.call("PTTL", period) == -1 then -- only a new period has no TTL
    for _, other in ipairs(redis.call("SRANDMEMBER", index, CHECKED_NAMES)) do
      if redis.call("EXISTS", base .. ":" .. other) == 0 then
        redis.call("SREM", index, other)
      end
    end
    redis.call("SADD", index, name)
  end
  redis.call("PEXPIRE", period, ttl_ms)
  -- A shorter TTL in the settings must not end the index before its periods.
  redis.call("PEXPIRE", index, ttl_ms, "NX")
  redis.call("PEXPIRE", index, ttl_ms, "GT")
end
