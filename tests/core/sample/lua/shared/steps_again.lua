-- @include answers
-- @include answers
-- @lazy steps: increment

local function twice(number)
  return 2 * number
end
