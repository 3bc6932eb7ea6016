-- Numbers as arguments of commands. The server converts a number as a fraction of 17 digits, which takes longer than
-- most commands; a text it takes as it is.

local function integer(number)
  return string.format("%d", number)
end
