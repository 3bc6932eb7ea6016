-- @include answers

local function increment(key, amount)
  return redis.call("HINCRBY", key, F.total, amount) + answer() - 42
end
