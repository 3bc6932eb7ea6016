-- Parts of texts, without regard to the case of ASCII letters: `string.lower` leaves all others as they are.

-- Return whether a text has a part, which is in lower case.
local function has_part(text, part)
  return string.find(string.lower(text), part, 1, true)
end
