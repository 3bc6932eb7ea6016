"""The least that a hand-over can take: a process that blocks on a list and notes how late it is."""

from __future__ import annotations

import sys
import time

import redis

from benchmarks import bodies

#: Where the raw hand-over stands.
KEY = "bench:raw"


def receive() -> None:
    """Note the age of each moment that arrives."""
    held = redis.Redis.from_url(bodies.URL).connection_pool.make_connection()
    held.connect()
    while True:
        held.send_command("BLPOP", KEY, 0)
        _, moment = held.read_response()
        bodies.notes().rpush("bench:late", repr(time.time() - float(moment)))


def pick_up(count: int, pause_s: float) -> None:
    """Send moments."""
    client = redis.Redis.from_url(bodies.URL)
    for _ in range(count):
        time.sleep(pause_s)
        client.rpush(KEY, repr(time.time()))


if __name__ == "__main__":
    if sys.argv[1:] == ["receive"]:
        receive()
    else:
        pick_up(int(sys.argv[1]), float(sys.argv[2]))
        print("{}")
