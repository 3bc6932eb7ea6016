-- Maximum length of a list. The caller's limit may be lower than that of another client.
local MAX_LENGTH = 1000

-- Remove all elements of an id; return the stored text, or "".
local function remove_id(recents, id)
  local stored = ""
  local start = id .. "\0"
  for _, element in ipairs(redis.call("LRANGE", recents, 0, MAX_LENGTH - 1)) do
    if string.sub(element, 1, #start) == start then
      stored = string.sub(element, #start + 1)
      redis.call("LREM", recents, 0, element)
    end
  end
  return stored
end
