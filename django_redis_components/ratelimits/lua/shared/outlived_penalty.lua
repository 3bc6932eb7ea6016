-- The penalty of a key that an operator blocks.

-- Delete the penalty's key if it expires before a block of this length ends: then the block decides, and is named as the
-- reason. Denials that are older than its end would not count any more. A penalty that ends later stays.
local function delete_outlived_penalty(key, blocked_us)
  if redis.call("PTTL", key) * 1000 <= blocked_us then
    redis.call("DEL", key)
  end
end
