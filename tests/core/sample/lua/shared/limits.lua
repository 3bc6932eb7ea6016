local LIFE_MS = 60000
-- @include   answers  
