-- Read the lease of a token. Writes nothing.
-- Precondition: none.
-- KEYS[1] base  of the kind
-- ARGV[1] token  text
-- ARGV[2] options  text: see the kind
-- DERIVED those of the kind
-- Returns {n, m}: the milliseconds left of the lease, -1 without an end; the number it was granted under, or 0
-- Returns {}: this token has no lease, or of a group not all of the names
-- Cost: that of the kind
local base = KEYS[1]
local token, options = ARGV[1], ARGV[2]
-- @include clock
-- @include kind

local ctx = { base = base, token = token, options = options }
read_clock(ctx)
local remaining_ms = left_ms(ctx, token)
return remaining_ms and { remaining_ms, number_of(ctx, token) } or {}
