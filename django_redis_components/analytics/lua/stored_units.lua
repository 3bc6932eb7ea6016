-- Find which of days, weeks and months some events of a site have stored.
-- Precondition: none.
-- KEYS[1..] indexes  set: names of the periods that an event has stored, one index for each event
-- Returns for each index: 1 or 0 for days, for weeks and for months; -1: not known
-- Cost: O(names) of the indexes, at most NAMES of each; 10,000 names take about 2 ms
local NAMES = 20000 -- names of an index that are looked at: those of two years of hours

local found = {}
for _, index in ipairs(KEYS) do
  local stored = {}
  -- Names are ev:<event>:<unit>:<period>, and an event may have colons. Most hours are left out: there are many.
  local reply = redis.call("SSCAN", index, 0, "MATCH", "ev:*:[dwm]*:*", "COUNT", NAMES)
  for _, name in ipairs(reply[2]) do
    stored[string.match(name, ":(%a+):[^:]*$") or ""] = 1
  end
  local is_complete = reply[1] == "0" and redis.call("EXISTS", index) == 1
  for _, unit in ipairs({ "day", "week", "month" }) do
    found[#found + 1] = stored[unit] or (is_complete and 0 or -1)
  end
end
return found
