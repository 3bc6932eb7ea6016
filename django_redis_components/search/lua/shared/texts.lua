-- @include documents
-- @include postings
-- Documents whose texts are looked at for phrases, and bytes of their records.
local MAX_TEXTS, MAX_TEXT_BYTES = 2000, 4000000

-- Return a function that removes the documents of a set from a result unless their texts pass; the best are looked at first.
-- What is beyond the bounds of all its calls is removed too: it then returns false.
local function text_check(docs)
  local texts_left, bytes_left = MAX_TEXTS, MAX_TEXT_BYTES
  return function(candidates, result, passes)
    local is_whole, failed = true, {}
    for _, id in ipairs(redis.call("ZRANGE", candidates, 0, -1, "REV")) do
      local passed = false
      if texts_left > 0 and bytes_left > 0 then
        local record = redis.call("HGET", docs, id) or "\0\0\0"
        texts_left, bytes_left = texts_left - 1, bytes_left - #record
        passed = passes(" " .. parts_of(record)[4] .. " ")
      else
        is_whole = false
      end
      if not passed then
        failed[#failed + 1] = id
      end
    end
    for start = 1, #failed, 1000 do
      redis.call("ZREM", result, unpack(failed, start, math.min(start + 999, #failed)))
    end
    return is_whole
  end
end

local function has_all(text, phrases)
  for _, phrase in ipairs(phrases) do
    if not string.find(text, phrase, 1, true) then
      return false
    end
  end
  return true
end

-- Remove the documents without the phrases, and those with excluded ones; return whether all of them were looked at.
local function check_phrases(base, ordered, phrases, excluded, new_key)
  local check, is_whole = text_check(base .. ":docs"), true
  if #phrases > 0 then
    is_whole = check(ordered, ordered, function(text)
      return has_all(text, phrases)
    end)
  end
  for _, exclusion in ipairs(excluded) do
    if exclusion[1] ~= "" then
      local keys, weights, having = { ordered }, { 1 }, new_key()
      for number = 2, #exclusion do
        keys[number], weights[number] = base .. ":w:" .. exclusion[number], 0
      end
      combine("ZINTERSTORE", having, keys, weights, "SUM")
      local were_whole = check(having, ordered, function(text)
        return not string.find(text, exclusion[1], 1, true)
      end)
      is_whole = is_whole and were_whole
    end
  end
  return is_whole
end
