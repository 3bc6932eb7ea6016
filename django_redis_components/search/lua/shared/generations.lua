-- An index has generations of its data: one that is read, and one that a rebuild builds next to it. All writes go to both.

-- Return the prefix of the keys of the generation that is read.
local function current_base(root)
  return root .. ":" .. (redis.call("HGET", root .. ":state", "current") or "0")
end

-- Return the prefixes of the keys of the generations that are written; the one that is read is the first.
local function written_bases(root)
  local numbers = redis.call("HMGET", root .. ":state", "current", "building")
  local bases = { root .. ":" .. (numbers[1] or "0") }
  if numbers[2] then
    bases[2] = root .. ":" .. numbers[2]
  end
  return bases
end
