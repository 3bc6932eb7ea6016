-- Empty a queue of what waits, into a bin from which it can be brought back for a day.
-- Precondition: none.
-- KEYS[1] base  string prefix of the tag's keys
-- ARGV[1] queue  name
-- ARGV[2] op  id of the operation and of the bin, new for each
-- DERIVED base:q:<queue>:front, :ready lists, :prio, :sched, :limited, :waiting zsets, :called hash, :ghosts, :purged strings,
--         base:bin:<bin>:* lists and zsets, base:bins zset, base:op:<op> string
-- Returns {n, m}: n tasks that it has put into the bin, without any there is no bin; m that stay, since they wait for
--         other tasks and have no place in the queue yet
-- Cost: O(1), whatever waits
local base = KEYS[1]
local queue = ARGV[1]
local op = ARGV[2]
-- @include clock
-- @include places
-- @include once

local before = answered()
if before then
    return before
end
local kept = 0
for part, count in pairs({ front = "LLEN", ready = "LLEN", prio = "ZCARD", sched = "ZCARD", limited = "ZCARD" }) do
    local from, to = place(queue, part), base .. ":bin:" .. op .. ":" .. part
    if redis.call("EXISTS", from) == 1 then
        redis.call("RENAME", from, to)
        kept = kept + redis.call(count, to)
    end
end
kept = kept - tonumber(redis.call("GET", place(queue, "ghosts")) or 0)
redis.call("DEL", place(queue, "ghosts"), place(queue, "called"))
-- Whoever is cancelled in a bin haunts no list. The bins themselves are gone by then, or nobody prunes.
redis.call("SET", place(queue, "purged"), now_us, "PX", 604800000)
if kept > 0 then
    redis.call("ZADD", base .. ":bins", now_ms, queue .. "/" .. op)
else
    redis.call("UNLINK", base .. ":bin:" .. op .. ":front", base .. ":bin:" .. op .. ":ready")
end
return answer_with({ kept, redis.call("ZCARD", place(queue, "waiting")) })
