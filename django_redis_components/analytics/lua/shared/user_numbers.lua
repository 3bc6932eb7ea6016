-- The numbers of mapped ids are in the hash base:ids. Its field "" is the next number, so that one whose id was deleted
-- is not used again.

-- Return the number of an id; nil if a mapped one has none.
local function find_number(base, id, is_mapped)
  return is_mapped and redis.call("HGET", base .. ":ids", id) or not is_mapped and id or nil
end

-- Return the number of an id; a mapped one without a number gets the next. Nil if all are used.
local function number_of(base, id, is_mapped, max_number)
  local number = find_number(base, id, is_mapped)
  if number then
    return number
  end
  number = tonumber(redis.call("HGET", base .. ":ids", "") or 0)
  if number > max_number then
    return nil
  end
  redis.call("HSET", base .. ":ids", id, number, "", number + 1)
  return number
end
