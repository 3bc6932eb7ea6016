-- Delete up to `limit` keys of a generation that is not read any more; return 1 if more are left, otherwise 0.
local function drop_keys(root, limit)
  local number = redis.call("SRANDMEMBER", root .. ":dropping")
  if not number then
    return 0
  end
  local base = root .. ":" .. number
  local keys = {}
  for index, item in ipairs(redis.call("ZPOPMIN", base .. ":vocabulary", limit)) do
    if index % 2 == 1 then
      keys[#keys + 1] = base .. ":w:" .. item
    end
  end
  if #keys == 0 then
    for _, name in ipairs(redis.call("SPOP", base .. ":names", limit)) do
      keys[#keys + 1] = base .. ":" .. name
    end
  end
  if #keys > 0 then
    redis.call("UNLINK", unpack(keys))
    return 1
  end
  redis.call("UNLINK", base .. ":docs", base .. ":facets", base .. ":stats", base .. ":geo", base .. ":live")
  redis.call("SREM", root .. ":dropping", number)
  return redis.call("EXISTS", root .. ":dropping")
end
