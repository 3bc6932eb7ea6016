-- Names a field that the legend does not have.
return redis.call("HGET", KEYS[1], F.lost)
