-- Whether tasks whose leases have expired may be recovered. Supervisors renew and pollers call several times in a lease,
-- so <base>:contact tells for how long the server has been up and reachable: `last`, when one of them last reached it;
-- `hold`, until when nothing is recovered; `shortest` and `longest`, the leases in use, in ms; `server`, the run id.
-- Each script decides by the clock at which it runs: a call that was sent before a stall of the server and runs after
-- it, before the renewals behind it, recovers nothing.
-- @include context

-- The clock may go back by so much between two contacts without being taken for a step, in milliseconds.
local MAX_STEP_BACK_MS = 1000

-- Record a contact. After a gap (longer than half a lease, a step of the clock, another server) nothing is recovered for
-- a lease. `is_new`: the caller has just started and found the gap; perhaps all workers were stopped. Then the hold lasts
-- a third of a lease and a second: a live supervisor renews within a third, or half a second after an error.
-- Return until when nothing is recovered, and the latest possible end of a lease, both in ms.
local function record_contact(ctx, lease_ms, is_new, server, is_broken)
  local key, now_ms = base_key(ctx, K.contact), ctx.now_ms
  local last, hold, shortest, longest, last_server = unpack(redis.call("HMGET", key,
    "last", "hold", "shortest", "longest", "server"))
  local gap_ms, hold_ms = now_ms - tonumber(last or 0), tonumber(hold or 0)
  local shortest_ms = math.min(lease_ms, tonumber(shortest or lease_ms))
  local longest_ms = math.max(lease_ms, tonumber(longest or lease_ms))
  local is_other = server and last_server and server ~= last_server
  local latest_ms = now_ms + 1.5 * longest_ms
  if is_broken or is_other or gap_ms > shortest_ms / 2 or gap_ms < -MAX_STEP_BACK_MS then
    local is_short = is_new and not is_broken and not is_other
    hold_ms = now_ms + (is_short and math.min(longest_ms, math.ceil(longest_ms / 3) + 1000) or longest_ms)
    shortest_ms, longest_ms = lease_ms, lease_ms
  end
  redis.call("HSET", key, "last", now_ms, "hold", hold_ms, "shortest", shortest_ms, "longest", longest_ms)
  if server and server ~= last_server then
    redis.call("HSET", key, "server", server)
  end
  return hold_ms, latest_ms
end
