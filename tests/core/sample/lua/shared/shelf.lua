-- A part of which a script takes one function first.
-- @include limits

local STEP = 2

local function half(number)
  return number / STEP
end

local function double(number)
  return number * STEP
end

local function quadruple(number)
  return double(double(number))
end
