"""The page of rate limits: registered limits, the state of a key, reset."""
