-- Versions of the site's code: base:deploys has each by when a worker first reported it, base:versions each supervisor by
-- that time of its version. No two versions have the same time.
-- @include context

-- Versions and supervisors that are kept, the latest.
local MAX_DEPLOYS, MAX_SUPERVISORS = 100, 2000

local function supervisor_of(worker)
  return string.match(worker, "^(.*)%.[^.]*$") or worker
end

-- Record the version that a worker reports, if its supervisor is new.
local function record_version(ctx, worker, version)
  local deploys, versions, supervisor = base_key(ctx, K.deploys), base_key(ctx, K.versions), supervisor_of(worker)
  if type(version) ~= "string" or version == "" or redis.call("ZSCORE", versions, supervisor) then
    return
  end
  local at_ms = ctx.now_ms
  while redis.call("ZCOUNT", deploys, at_ms, at_ms) > 0 do
    at_ms = at_ms + 1
  end
  redis.call("ZADD", deploys, "NX", at_ms, version)
  redis.call("ZADD", versions, redis.call("ZSCORE", deploys, version), supervisor)
  redis.call("ZREMRANGEBYRANK", deploys, 0, -MAX_DEPLOYS - 1)
  redis.call("ZREMRANGEBYRANK", versions, 0, -MAX_SUPERVISORS - 1)
  redis.call("PEXPIRE", deploys, T.deploys_ms)
  redis.call("PEXPIRE", versions, T.deploys_ms)
end

-- Return the version that a worker ran; nil if it is not known.
local function version_of(ctx, worker)
  local at_ms = redis.call("ZSCORE", base_key(ctx, K.versions), supervisor_of(worker))
  return at_ms and redis.call("ZRANGEBYSCORE", base_key(ctx, K.deploys), at_ms, at_ms)[1]
end

-- Return the worker that runs a task, or has run it last; nil without one.
local function worker_of(lease, worker_ids)
  return string.match(lease or "", "^([^/]+)/") or string.match(worker_ids or "", "[^,]+$")
end

-- Return the host of a worker, from its id; empty without one.
local function host_of(worker)
  return string.match(supervisor_of(worker or ""), "^(.*):") or ""
end

-- Return whether a worker is of a version and a host; empty: any. A version is looked up once for each supervisor.
local function is_of_worker(ctx, worker, version, host)
  if host ~= "" and host_of(worker) ~= host or version ~= "" and not worker then
    return false
  elseif version == "" then
    return true
  end
  ctx.versions = ctx.versions or {}
  local supervisor = supervisor_of(worker)
  if ctx.versions[supervisor] == nil then
    ctx.versions[supervisor] = version_of(ctx, worker) or ""
  end
  return ctx.versions[supervisor] == version
end

-- Return {worker, version, …} of workers that are separated by commas; of many only the last.
local function versions_of(ctx, workers)
  local found = {}
  for worker in string.gmatch(string.sub(workers, -4000), "[^,]+") do
    local version = version_of(ctx, worker)
    if version then
      found[#found + 1], found[#found + 2] = worker, version
    end
  end
  return found
end
