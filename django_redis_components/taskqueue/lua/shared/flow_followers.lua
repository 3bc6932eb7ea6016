-- The followers of a task of a flow. Those of which one script can start or fail all are in the task's node. More are in chunks
-- of as many: see flow_pending.lua.
-- @include context

-- In the node of a task whose followers are in chunks. A version without chunks reads it as none.
local MANY = ","

local function chunk_field(number, chunk)
  return FLOW.followers .. number .. ":" .. chunk
end

-- Return the followers for the node; those of several chunks, which ";" separates, are stored beside it.
local function store_followers(key, number, followers)
  if not string.find(followers, ";", 1, true) then
    return followers
  end
  local chunk = 0
  for numbers in string.gmatch(followers, "[^;]+") do
    redis.call("HSET", key, chunk_field(number, chunk), numbers)
    chunk = chunk + 1
  end
  return MANY
end

-- Return the number of the task with which the chunks of a task's followers are stored: another one if it was added.
local function number_of_chunks(key, number)
  return redis.call("HGET", key, FLOW.same_followers .. number) or number
end

local function stored_chunk(key, number, chunk)
  local numbers, following = unpack(redis.call("HMGET", key, chunk_field(number, chunk), chunk_field(number, chunk + 1)))
  return numbers or "", following ~= false
end

-- Return a chunk of the followers, and whether there is a further one.
local function read_chunk(key, number, followers, chunk)
  if followers ~= MANY then
    return followers, false
  end
  return stored_chunk(key, number_of_chunks(key, number), chunk)
end

-- Return the followers in `chunks` chunks at most, as `store_followers` takes them.
local function join_chunks(key, number, followers, chunks)
  if followers ~= MANY then
    return followers
  end
  number = number_of_chunks(key, number)
  local found, chunk, is_left = {}, 0, true
  while is_left and chunk < chunks do
    found[chunk + 1], is_left = stored_chunk(key, number, chunk)
    chunk = chunk + 1
  end
  return table.concat(found, ";")
end
