"""The counters of a run, and the resources that its processes write."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import redis
from django.conf import settings

#: A resource that rejects stale writes, and logs the others.
FENCED_WRITE = """
local last = tonumber(redis.call("GET", KEYS[1]) or 0)
if tonumber(ARGV[1]) < last then
  return 0
end
redis.call("SET", KEYS[1], ARGV[1])
redis.call("RPUSH", KEYS[2], ARGV[1])
return 1
"""


class SharedState:
    """Access of one process to the shared state, directly on the server."""

    def __init__(self) -> None:
        entries = settings.REDIS_COMPONENTS
        self._raw = _raw(entries["CONNECTIONS"]["default"]["URL"])
        self._base = f"{entries['PREFIX']}:history"
        self._fenced_write = FENCED_WRITE

    def close(self) -> None:
        self._raw.close()

    def now(self) -> int:
        """Return the server's time in microseconds; all nodes of a Cluster here are on one machine."""
        seconds, microseconds = self._raw.time()
        return seconds * 1_000_000 + microseconds

    def count(self, what: str) -> None:
        self._raw.hincrby(self._base, what, 1)

    def counts(self) -> dict[str, int]:
        return {what.decode(): int(number) for what, number in self._raw.hgetall(self._base).items()}

    def write(self, name: str, fence: int) -> None:
        key = f"{self._base}:{{{name}}}"
        landed = self._raw.eval(self._fenced_write, 2, key, f"{key}:log", fence)
        self.count("writes" if landed else "stale writes")

    def landed(self, name: str) -> list[int]:
        return [int(fence) for fence in self._raw.lrange(f"{self._base}:{{{name}}}:log", 0, -1)]


def _raw(url: str) -> Any:
    if not url.startswith("redis+cluster"):
        return redis.Redis.from_url(url)
    host, port = urlsplit(url).netloc.split(",")[0].split(":")
    return redis.RedisCluster(host=host, port=int(port))
