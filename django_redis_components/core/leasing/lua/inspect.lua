-- Read the holders and the waiters. Writes nothing: expired leases and waiters that were silent too long are not listed.
-- Precondition: none.
-- KEYS[1] base  of the kind
-- KEYS[2] queue  zset: waiting token -> ticket; of a group the hash of what each token wants
-- ARGV[1] most  number of holders, and of waiters, to list
-- ARGV[2] liveness_ms  milliseconds after which a silent waiter does not count
-- ARGV[3] options  text: see the kind
-- DERIVED <base>:asked, <base>:handoffs, <base>:holder:<token>, and those of the kind
-- Returns {now_ms, object, ...}: for each object, of which only a group has several, {held, limit, number, waiting,
--         {token, left_ms, description, ...}, {waiter, ticket, ...}}: how many leases are held and may be, 0 for no limit;
--         the number of the last grant, 0 when it has expired; holders in order of expiry, left_ms -1 without an end,
--         description "" when it is not known; waiters in the order of the queue, with the microseconds of their tickets
-- Cost: that of the kind, plus O(log waiters + most + hand-offs) for each object
local base, queue = KEYS[1], KEYS[2]
local most, liveness_ms, options = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
-- @include clock
-- @include kind
-- @include waiters
-- @include holder

local ctx = { base = base, queue = queue, options = options }
read_clock(ctx)
local since_ms = ctx.now_ms - liveness_ms
local reply = { ctx.now_ms }
for index, object in ipairs(describe_objects(ctx, most)) do
  local holders = {}
  for place = 1, #object.holders, 2 do
    local token, remaining_ms = object.holders[place], object.holders[place + 1]
    local description = redis.call("GET", holder_of(base, token)) or ""
    holders[#holders + 1], holders[#holders + 2], holders[#holders + 3] = token, remaining_ms, description
  end
  local waiters = living_waiters(ctx, object.queue, since_ms, most)
  local waiter_count = count_waiters(ctx, object.queue, since_ms, most, #waiters / 2)
  reply[index + 1] = { object.held, object.limit, object.number, waiter_count, holders, waiters }
end
return reply
