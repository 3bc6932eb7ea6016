-- Takes a permit out of the holders; 1 if it was there.
local function give_back(permit)
  local held = redis.call("ZREM", holders, permit)
  for number = 2, (wanted(permit)) do
    redis.call("ZREM", holders, permit .. "#" .. number)
  end
  return held
end
