-- Remove a file, and its producer from the queue of those that wait.
-- Precondition: none.
-- KEYS[1] base  prefix of the keys of the channel
-- DERIVED base:bytes base:limit base:sizes base:deadlines base:waiting base:waiting_until base:room:<id> base:file:<id>
-- DERIVED base:file:<id>:<number> base:pending:<consumer> base:wakeup:<consumer>
-- ARGV[1] id  of the file
-- Returns 1: there is no such file now
-- Cost: O(chunks) and O(consumers)
-- @include channel
local base = KEYS[1]
local id = ARGV[1]

local now_ms = read_clock()
stop_waiting(base, id)
remove_file(base, id, now_ms)
return 1
