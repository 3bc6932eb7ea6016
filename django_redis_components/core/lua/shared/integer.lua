-- Numbers as arguments of commands, as text. Redis 7.0 converts a number as a fraction of 17 digits; Valkey 9
-- converts it faster than this function, which the shortest scripts therefore do without.

local function integer(number)
  return string.format("%d", number)
end
