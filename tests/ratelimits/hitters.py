"""What the children of the race do."""

from __future__ import annotations

import json
import os
import time

from django_redis_components.ratelimits import RateLimit, scripts


def hit(algorithm: str, rate: str, seconds: float, broken: bool = False) -> None:
    """Hit as often as possible, and print when hits were allowed: seconds, before asking and after the answer."""
    if broken:
        script = getattr(scripts, algorithm.upper())
        text = script.source.replace("local allowed, repeated = true, false", "local allowed, repeated = true, false\n")
        assert "allowed = false" in text
        vars(script)["source"] = text.replace("allowed = false", "allowed = math.random() < 0.5", 1)
    limit = RateLimit("race", rate, algorithm=algorithm, deny_cache=False)
    limit.hit(f"warm-up of {os.getpid()}")
    print("ready", flush=True)
    allowed = []
    until = time.time() + seconds
    while (asked := time.time()) < until:
        if limit.hit("all"):
            allowed.append((asked, time.time()))
    print(json.dumps(allowed), flush=True)
