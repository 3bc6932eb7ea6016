-- What is stored beside the token of a lease: a description of its holder, and after a forced release the operator.

-- Milliseconds for which a forced release stays stored, for the former holder's error.
local RELEASED_MS = 3600000

local function holder_of(base, token)
  return base .. ":holder:" .. token
end

-- Store who acquired the lease of a token. This replaces a forced release of the same token.
local function describe(base, token, holder, ttl_ms)
  redis.call("SET", holder_of(base, token), holder, "PX", ttl_ms)
end

-- Store the operator and the time of a forced release.
local function mark_released(base, token, released_by)
  local key, time = holder_of(base, token), redis.call("TIME")
  local lines = string.gsub(redis.call("GET", key) or "", "\nreleased_.*", "")
  local released = "\nreleased_ms=" .. time[1] .. string.format("%03d", math.floor(time[2] / 1000)) .. "\n" .. released_by
  redis.call("SET", key, lines .. released, "PX", RELEASED_MS)
end
