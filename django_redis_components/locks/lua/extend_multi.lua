-- Extend the lease on several names to at least ttl_ms from now. It is never shortened, so a late repetition does no harm.
-- Precondition: none.
-- KEYS[1] group  hash: waiting token -> the names it wants, one per line
-- ARGV[1] token  text
-- ARGV[2] ttl_ms  milliseconds
-- ARGV[3..] names  text
-- DERIVED <group>:handoffs, <group>:holder:<token>
-- DERIVED <group>:held:<name>, <group>:fence:<name>
-- Returns 1: all are extended
-- Returns 0: not all are held by this token; nothing was changed
-- Cost: O(names)
local group = KEYS[1]
local token, ttl_ms = ARGV[1], tonumber(ARGV[2])
local names = { unpack(ARGV, 3) }
-- @include fence_ms
-- @include holder

for _, name in ipairs(names) do
  if redis.call("GET", group .. ":held:" .. name) ~= token then
    return 0
  end
end
redis.call("ZREM", group .. ":handoffs", token) -- adopted before its waiter has taken it
redis.call("PEXPIRE", holder_of(group, token), ttl_ms, "GT")
for _, name in ipairs(names) do
  redis.call("PEXPIRE", group .. ":held:" .. name, ttl_ms, "GT")
  keep_fence(group .. ":fence:" .. name, ttl_ms)
end
return 1
