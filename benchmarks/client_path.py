"""What our client costs: one EVALSHA through it, beside redis-py's client and beside a raw connection.

    python -m benchmarks.client_path [--rounds 40] [--calls 500]

Each contender makes the same call (a script of one GET) on the embedded server, in interleaved rounds.
Printed are the median microseconds for a call, and the ratio to the raw connection: the send and the
read of redis-py's Connection, and nothing else. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import django
import redis
import redis.asyncio
from django.conf import settings

from benchmarks.environment import server_url

KEY = "bench:locks:{name}"
#: Commands in one batch.
BATCH = 20
TEXT = "return redis.call('GET', KEYS[1])"

Timed = Callable[[int], float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds (default 40)")
    parser.add_argument("--calls", type=int, default=500, help="calls of each contender in a round (default 500)")
    options = parser.parse_args()
    with server_url() as url:
        compare(url, options.rounds, options.calls)


def compare(url: str, rounds: int, calls: int) -> None:
    settings.configure(REDIS_COMPONENTS={"CONNECTIONS": {"default": {"URL": url}}})
    django.setup()
    table = {**synchronous(url), **asynchronous(url)}
    times: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(rounds):
        for name, timed in table.items():
            times[name].append(timed(calls) / calls * 1e6)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        base = medians[raw_of(name)]
        print(f"{name:36} median {median:7.1f} us  {median / base:5.2f} x raw   best {min(times[name]):7.1f} us")


def raw_of(name: str) -> str:
    """The contender that a row is compared with."""
    many = f", {BATCH} GETs" if "GETs" in name else ""
    return f"{'async: ' if name.startswith('async: ') else ''}raw connection{many}"


def synchronous(url: str) -> dict[str, Timed]:
    from django_redis_components.core.client import connections
    from django_redis_components.core.protocol import Command, run
    from django_redis_components.core.scripts import LuaScript

    class Inline(LuaScript):
        source = TEXT

    script = Inline("bench", "get", keys=("lock",), args=("token", "ttl_ms"), idempotent=True)
    plain = redis.Redis.from_url(url)
    sha = plain.script_load(TEXT)
    ours = connections.client()
    raw = plain.connection_pool.make_connection()
    raw.connect()

    def raw_call() -> None:
        raw.send_packed_command(raw.pack_command("EVALSHA", sha, 1, KEY, "token", 30_000), check_health=False)
        raw.read_response()

    def flow():
        return (yield script(lock=KEY, token="token", ttl_ms=30_000))

    def raw_batch() -> None:
        raw.send_packed_command(raw.pack_commands([("GET", KEY)] * BATCH), check_health=False)
        for _ in range(BATCH):
            raw.read_response()

    def pipeline() -> None:
        with plain.pipeline(transaction=False) as pipe:
            for _ in range(BATCH):
                pipe.get(KEY)
            pipe.execute()

    read = Command("GET", KEY, retry=True)
    batch = [read] * BATCH
    return {
        "raw connection": repeated(raw_call),
        "ours: Client.execute(Call)": repeated(lambda: ours.execute(script(lock=KEY, token="token", ttl_ms=30_000))),
        "ours: run(client, flow)": repeated(lambda: run(connections.client(), flow())),
        "redis-py: Redis.evalsha": repeated(lambda: plain.evalsha(sha, 1, KEY, "token", 30_000)),
        "redis-py: Script()": scripted(plain),
        "ours: Client.execute(GET)": repeated(lambda: ours.execute(read)),
        "redis-py: Redis.get": repeated(lambda: plain.get(KEY)),
        f"raw connection, {BATCH} GETs": repeated(raw_batch),
        f"ours: Client.execute_many, {BATCH} GETs": repeated(lambda: ours.execute_many(batch)),
        f"redis-py: pipeline, {BATCH} GETs": repeated(pipeline),
    }


def scripted(plain: redis.Redis) -> Timed:
    script = plain.register_script(TEXT)
    return repeated(lambda: script(keys=[KEY], args=["token", 30_000]))


def asynchronous(url: str) -> dict[str, Timed]:
    from django_redis_components.core.client import connections
    from django_redis_components.core.protocol import arun
    from django_redis_components.core.scripts import LuaScript

    class Inline(LuaScript):
        source = TEXT

    script = Inline("bench", "get", keys=("lock",), args=("token", "ttl_ms"), idempotent=True)
    loop = asyncio.new_event_loop()
    plain = redis.asyncio.Redis.from_url(url)
    sha = loop.run_until_complete(plain.script_load(TEXT))
    raw = plain.connection_pool.make_connection()
    loop.run_until_complete(raw.connect())

    async def raw_call() -> None:
        await raw.send_packed_command(raw.pack_command("EVALSHA", sha, 1, KEY, "token", 30_000), check_health=False)
        await raw.read_response()

    def flow():
        return (yield script(lock=KEY, token="token", ttl_ms=30_000))

    return {
        "async: raw connection": arepeated(loop, raw_call),
        "async: ours: arun(client, flow)": arepeated(loop, lambda: arun(connections.aclient(), flow())),
        "async: redis-py: Redis.evalsha": arepeated(loop, lambda: plain.evalsha(sha, 1, KEY, "token", 30_000)),
    }


def repeated(call: Callable[[], object]) -> Timed:
    def timed(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - begin

    return timed


def arepeated(loop: asyncio.AbstractEventLoop, call: Callable[[], Awaitable[object]]) -> Timed:
    async def all_of_them(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            await call()
        return time.perf_counter() - begin

    return lambda calls: loop.run_until_complete(all_of_them(calls))


if __name__ == "__main__":
    main()
