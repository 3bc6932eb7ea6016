-- @include layers

-- Milliseconds for which a removed layer says so: clients that add without a script may know it.
local REMEMBER_MS = 3600000
local REMOVED = "\4"

-- Remove a filter and its layers. Only a rebuild itself knows the layers of a rebuild.
local function remove(filter, is_build)
  for number = 1, filter.count do
    redis.call("UNLINK", filter.layers[number].key)
  end
  if not is_build then
    redis.call("SET", filter.layers[1].key, REMOVED, "PX", REMEMBER_MS)
  end
  redis.call("UNLINK", filter.meta)
end

-- Say in the newest layer of the filter whether it is being rebuilt.
local function mark_newest(base, state)
  local filter = read_filter(base, base .. ":meta")
  if filter then
    redis.call("SETRANGE", filter.layers[filter.count].key, 0, state)
  end
end
