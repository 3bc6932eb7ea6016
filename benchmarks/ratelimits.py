"""Rate limits beside limits, throttled-py and walrus: what a hit costs that is allowed, and one that is denied.

    python -m benchmarks.ratelimits [--rounds 40] [--calls 300]

One thread, in interleaved rounds: median microseconds for a hit, and the ratio to throttled-py's GCRA. The raw row
is our GCRA script over a bare connection. A peer takes part when it is installed. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
from collections.abc import Callable
from typing import Any

import redis

from benchmarks.environment import server_url
from benchmarks.locks import Timed, repeated, set_up

#: What all rows are compared with, where it is installed.
PEER = "throttled-py, gcra, allowed"
#: A rate that a round never reaches, and one that is reached at once.
WIDE, NARROW = (1_000_000, 1.0), (1, 86_400.0)


def main() -> None:
    """Run the rounds and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds (default: 40)")
    parser.add_argument("--calls", type=int, default=300, help="hits of each row in a round (default: 300)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """All rows in turn, round after round."""
    set_up(url)
    table = ours(url) | throttled_py(url) | limits_py(url) | walrus_py(url)
    for timed in table.values():
        timed(10)
    times: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(options.rounds):
        for name, timed in table.items():
            times[name].append(timed(options.calls) / options.calls * 1e6)
    base = statistics.median(times[PEER]) if PEER in times else float("nan")
    print(f"one hit, {options.rounds} rounds of {options.calls}")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:36} median {median:7.1f} us  {median / base:5.2f} x {PEER}   best {min(values):7.1f} us")


def ours(url: str) -> dict[str, Timed]:
    """Our rows."""
    from django_redis_components.ratelimits import RateLimit

    rows = {"raw connection, our gcra script": raw(url)}
    for algorithm, wide in (("gcra", WIDE), ("sliding", (10_000, 0.05)), ("fixed", WIDE)):
        rows[f"ours, {algorithm}, allowed"] = hits(RateLimit(f"bench-{algorithm}", wide, algorithm=algorithm).hit, True)
        denied = RateLimit(f"bench-{algorithm}-denied", NARROW, algorithm=algorithm, deny_cache=False)
        denied.hit("key")
        rows[f"ours, {algorithm}, denied, asked"] = hits(denied.hit, False)
    two = RateLimit("bench-two", WIDE, (1_000_000, 3_600.0))
    rows["ours, gcra, two rates, allowed"] = hits(two.hit, True)
    known = RateLimit("bench-known", NARROW)
    known.hit("key")
    rows["ours, denied, from memory"] = hits(known.hit, False)
    loop = asyncio.new_event_loop()
    waited = RateLimit("bench-async", WIDE)
    rows["ours, gcra, allowed, async"] = lambda calls: loop.run_until_complete(awaited(waited.ahit, calls))
    return rows


def throttled_py(url: str) -> dict[str, Timed]:
    """throttled-py's, if it is installed."""
    try:
        import throttled  # type: ignore[import-not-found]
    except ImportError:
        return {}
    store = throttled.RedisStore(server=url)
    rows = {}
    for kind in ("gcra", "sliding_window", "fixed_window", "token_bucket"):
        quota = throttled.rate_limiter.per_sec(1_000_000, burst=1_000_000)
        allowed = throttled.Throttled(key=f"bench-{kind}", using=kind, quota=quota, store=store)
        rows[f"throttled-py, {kind}, allowed"] = lambda calls, limit=allowed.limit: repeated(limit, calls)
    quota = throttled.rate_limiter.per_day(1, burst=1)
    denied = throttled.Throttled(key="bench-denied", using="gcra", quota=quota, store=store)
    rows["throttled-py, gcra, denied"] = lambda calls: repeated(denied.limit, calls)
    return rows


def limits_py(url: str) -> dict[str, Timed]:
    """limits', if it is installed."""
    try:
        from limits import RateLimitItemPerDay, RateLimitItemPerSecond  # type: ignore[import-not-found]
        from limits.storage import RedisStorage  # type: ignore[import-not-found]
        from limits.strategies import (  # type: ignore[import-not-found]
            FixedWindowRateLimiter,
            MovingWindowRateLimiter,
            SlidingWindowCounterRateLimiter,
        )
    except ImportError:
        return {}
    rows = {}
    for name, kind, count in (
        ("fixed", FixedWindowRateLimiter, 1_000_000),
        ("moving", MovingWindowRateLimiter, 10_000),
        ("sliding counter", SlidingWindowCounterRateLimiter, 1_000_000),
    ):
        strategy = kind(RedisStorage(url, key_prefix=f"limits-{name}"))
        item = RateLimitItemPerSecond(count)
        rows[f"limits, {name}, allowed"] = lambda calls, hit=strategy.hit, item=item: repeated(
            lambda: hit(item, "key"), calls
        )
    denied, item = MovingWindowRateLimiter(RedisStorage(url, key_prefix="limits-denied")), RateLimitItemPerDay(1)
    rows["limits, moving, denied"] = lambda calls: repeated(lambda: denied.hit(item, "key"), calls)
    return rows


def walrus_py(url: str) -> dict[str, Timed]:
    """walrus' script, if it is installed. What it counts is a list: it has no limit of a million."""
    try:
        from walrus import Walrus  # type: ignore[import-not-found]
    except ImportError:
        return {}
    database = Walrus.from_url(url)
    allowed = database.rate_limit_lua("walrus", limit=10_000, per=1)
    denied = database.rate_limit_lua("walrus-denied", limit=1, per=86_400)
    return {
        "walrus, script, allowed": lambda calls: repeated(lambda: allowed.limit("key"), calls),
        "walrus, script, denied": lambda calls: repeated(lambda: denied.limit("key"), calls),
    }


def raw(url: str) -> Timed:
    """The script over a bare connection: nothing of ours but the bytes."""
    from django_redis_components.ratelimits import RateLimit

    limiter = RateLimit("bench-raw", WIDE)._limiter
    call: Any = next(limiter.hit("key", 1))
    plain = redis.Redis.from_url(url)
    plain.execute_command(*call.eval_args())
    connection = plain.connection_pool.make_connection()
    connection.connect()
    command = b"".join(connection.pack_command(*call.command_args()))

    def hit() -> None:
        # Each call needs a new id, as each hit has: a repeated id writes nothing.
        connection.send_packed_command([command.replace(call.args[0], os.urandom(8))], check_health=False)
        connection.read_response()

    return lambda calls: repeated(hit, calls)


def hits(hit: Callable[[str], Any], allowed: bool) -> Timed:
    """Time hits of one key; the answer must be this."""

    def one() -> None:
        assert hit("key").is_allowed is allowed

    return lambda calls: repeated(one, calls)


async def awaited(hit: Callable[[str], Any], calls: int) -> float:
    """Seconds that this number of hits takes, one after the other."""
    begin = asyncio.get_running_loop().time()
    for _ in range(calls):
        await hit("key")
    return asyncio.get_running_loop().time() - begin


if __name__ == "__main__":
    main()
