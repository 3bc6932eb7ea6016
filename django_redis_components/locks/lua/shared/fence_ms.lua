-- Milliseconds by which the fence outlives its lease: it is needed only while the server's clock may be
-- set back to before the last grant.
local FENCE_MS = 3600000
