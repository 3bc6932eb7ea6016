-- A rebuild loads data beside those that are read, and replaces them in one step. Two keys say which one is active:
--   build  string: token of the active rebuild; it expires ttl_ms after the last step
--   built  string: token of the last rebuild that was finished, by which a repeated swap is recognized
-- A rebuild whose token is not stored any more was superseded by a later one, or has expired: its steps return SUPERSEDED.
local SUPERSEDED = -1

-- Milliseconds for which a repeated swap is recognized: longer than any client retries.
local REMEMBER_MS = 600000

-- Start a rebuild; return whether it was not started before, by a call whose reply was lost. It supersedes the active one,
-- because it reads newer data.
local function begin_rebuild(build, token, ttl_ms)
  local is_new = redis.call("GET", build) ~= token
  redis.call("SET", build, token, "PX", ttl_ms)
  return is_new
end

-- Return whether a rebuild is the active one.
local function is_active(build, token)
  return redis.call("GET", build) == token
end

-- Renew a rebuild; return whether it is the active one.
local function renew_rebuild(build, token, ttl_ms)
  local active = is_active(build, token)
  if active then
    redis.call("PEXPIRE", build, ttl_ms)
  end
  return active
end

-- Return whether a rebuild was finished, by a call whose reply was lost.
local function is_built(built, token)
  return redis.call("GET", built) == token
end

-- Mark the active rebuild as finished.
local function finish_rebuild(build, built, token)
  redis.call("UNLINK", build)
  redis.call("SET", built, token, "PX", REMEMBER_MS)
end

-- End a rebuild that failed; return whether it was the active one.
local function abandon_rebuild(build, token)
  local active = is_active(build, token)
  if active then
    redis.call("UNLINK", build)
  end
  return active
end
