-- @include nowhere
return 1
