-- An index has generations of its data: one that is read, and one that a rebuild builds next to it. All writes go to both.
-- The state has their numbers "current" and "building", the token of the rebuild, and when it expires: its loader renews
-- that. A rebuild that was not renewed in time is abandoned by the next write, and its data deleted step by step.

-- Return the server's time in milliseconds.
local function time_ms()
  local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Return the prefix of the keys of the generation that is read.
local function current_base(root)
  return root .. ":" .. (redis.call("HGET", root .. ":state", "current") or "0")
end

-- Return the prefixes of the keys of the generations that are written; the one that is read is the first.
local function written_bases(root)
  local state = root .. ":state"
  local found = redis.call("HMGET", state, "current", "building", "expires_ms")
  local bases = { root .. ":" .. (found[1] or "0") }
  if found[2] and time_ms() < tonumber(found[3]) then
    bases[2] = root .. ":" .. found[2]
  elseif found[2] then
    redis.call("HDEL", state, "building", "token", "expires_ms")
    redis.call("SADD", root .. ":dropping", found[2])
  end
  return bases
end
