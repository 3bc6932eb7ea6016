-- What a task states about its limits, in the fields concurrency ("limit/key") and rate ("interval_us/tolerance_us/key").
-- A limit is named "c:<key>" or "r:<key>".
-- @include context

-- Return the limit's name and its numbers.
local function parse_limit(field, value)
  local is_concurrency = field == F.concurrency
  local numbers, key = string.match(value, is_concurrency and "^(%d+)/(.*)$" or "^(%d+/%d+)/(.*)$")
  return (is_concurrency and "c:" or "r:") .. key, numbers
end

local function store_limit(ctx, limit, numbers)
  redis.call("SET", base_key(ctx, K.limit, limit), numbers, "PX", T.limit_ms)
end

-- Store the limits among the pairs of field and value args[first] to args[last]. The newest task's numbers apply to
-- tasks that were sent before, too.
local function store_limits(ctx, args, first, last)
  for index = first, last, 2 do
    if args[index] == F.concurrency or args[index] == F.rate then
      store_limit(ctx, parse_limit(args[index], args[index + 1]))
    end
  end
end

local function entry_id(entry)
  return string.match(entry, "[^\t]+$")
end

-- Return the group in an entry for a limit, nil without one.
local function group_of(limit, entry)
  return string.match(entry, "^\t\t([^\t]*)", #limit + 1)
end
