-- An index has generations of its data: one that is read, and one that a rebuild builds beside it. All writes go to both, and the
-- set "live" of the latter has their ids: the rebuild does not overwrite them. The state has their numbers "current" and
-- "building". The data of a rebuild that has expired are deleted step by step by the next writes.

-- Return the prefix of the keys of the generation that is read.
local function current_base(root)
  return root .. ":" .. (redis.call("HGET", root .. ":state", "current") or "0")
end

-- Return the prefix of the keys of the generation that is built; nil if there is none.
local function building_base(root)
  local number = redis.call("HGET", root .. ":state", "building")
  return number and root .. ":" .. number or nil
end

-- Give the number of the generation that is built up to be deleted.
local function discard_building(root)
  local number = redis.call("HGET", root .. ":state", "building")
  if number then
    redis.call("HDEL", root .. ":state", "building")
    redis.call("SADD", root .. ":dropping", number)
  end
end

-- Return a number for a new generation. If the state was lost, the numbers start again: those whose data is still there are
-- passed over.
local function new_number(root)
  local number
  repeat
    number = redis.call("HINCRBY", root .. ":state", "last", 1)
  until redis.call("EXISTS", root .. ":" .. number .. ":docs", root .. ":" .. number .. ":vocabulary") == 0
  return number
end

-- Return the prefixes of the keys of the generations that are written: the one that is read, and the one that is built, or nil.
local function written_bases(root)
  local numbers = redis.call("HMGET", root .. ":state", "current", "building")
  local current = root .. ":" .. (numbers[1] or "0")
  if not numbers[2] then
    return current, nil
  end
  if redis.call("EXISTS", root .. ":build") == 1 then
    return current, root .. ":" .. numbers[2]
  end
  discard_building(root)
  return current, nil
end
