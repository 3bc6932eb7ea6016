-- Multiply a number; most calls need one function of the kind.
-- Precondition: none.
-- KEYS[1] counter  none
-- ARGV[1] number  number
-- Returns n: four times the number, or twice if it is above 10
-- Cost: O(1)
local number = tonumber(ARGV[1])
-- @include kind: quadruple
if number <= 10 then
  return quadruple(number)
end
-- @include kind
return half(quadruple(number))
