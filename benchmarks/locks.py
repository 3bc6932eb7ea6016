"""Locks and semaphores beside redis-py's Lock: what a free one costs, and how soon the next holder continues.

    python -m benchmarks.locks [--rounds 40] [--calls 300] [--seconds 3]

First, acquire and release of a free lock by one thread, in interleaved rounds: median microseconds for
the pair, and the ratio to redis-py. The raw row is the same two scripts over a bare connection.
Then processes that compete for one lock, four that hold it for a millisecond and sixteen that hold it for
five: the time from a release to the next holder's start, the grants of each process, and its waits.
All processes connect before the first grant and exit after the last, so that starting and ending
processes is not measured. With n processes and a hold h
no process may wait longer than (n + 2) h + 10 ms, and, where one is killed while it waits, than a
hand-off (2 s) more. python-redis-lock takes part when it is installed.
``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import django
import redis
import redis.asyncio
from django.conf import settings

from benchmarks.environment import server_url

#: What all rows are compared with.
PEER = "redis-py Lock"
#: Processes of a fight, and the seconds that a holder works.
FIGHTS = [(4, 0.001), (16, 0.005)]
#: The one of them in which one process is killed in the middle.
KILLED = "ours, one killed"
FIGHTERS = ["ours", "ours, not fair", PEER, "redis-py Lock, sleep=0.001", "python-redis-lock", KILLED]

Timed = Callable[[int], float]


def main() -> None:
    """Run both parts and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds (default: 40)")
    parser.add_argument("--calls", type=int, default=300, help="pairs of each row in a round (default: 300)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of each fight (default: 3)")
    parser.add_argument("--hold", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--fighter", nargs=2, metavar=("NAME", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fighter:
        fight(*options.fighter, options.seconds, options.hold)
        return
    with server_url() as url:
        both(url, options)


def both(url: str, options: argparse.Namespace) -> None:
    """The free lock, then the contended one."""
    set_up(url)
    table = synchronous(url) | asynchronous(url)
    times: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(options.rounds):
        for name, timed in table.items():
            times[name].append(timed(options.calls) / options.calls * 1e6)
    base = statistics.median(times[PEER])
    print(f"acquire and release of a free one, {options.rounds} rounds of {options.calls}")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:34} median {median:7.1f} us  {median / base:5.2f} x {PEER}   best {min(values):7.1f} us")
    for processes, hold_s in FIGHTS:
        bound_ms = (processes + 2) * hold_s * 1e3 + 10
        print(f"\n{processes} processes, each holding it for {hold_s * 1e3:g} ms, {options.seconds:g} s; ", end="")
        print(f"no process may wait longer than {bound_ms:g} ms")
        for name in FIGHTERS:
            if maker(name, url) is not None:
                report(name, url, options.seconds, processes, hold_s)


def set_up(url: str) -> None:
    """Our settings on this server."""
    settings.configure(REDIS_COMPONENTS={"CONNECTIONS": {"default": {"URL": url}}})
    django.setup()


def synchronous(url: str) -> dict[str, Timed]:
    """Rows of one thread."""
    from django_redis_components.locks import Lock
    from django_redis_components.semaphores import Semaphore

    ours, fresh = Lock("bench"), "bench-new"
    semaphore = Semaphore("bench", 5, blocking=False)
    plain = redis.Redis.from_url(url)
    theirs = plain.lock("bench:redis-py", timeout=30)
    rows = {
        "raw connection, our scripts": raw(url),
        "ours": pairs(ours.acquire, ours.release),
        "ours, new object, with": lambda calls: repeated(lambda: enter(Lock(fresh)), calls),
        "ours, Semaphore": pairs(semaphore.acquire, semaphore.release),
        PEER: pairs(theirs.acquire, theirs.release),
        "redis-py Lock, new object, with": lambda calls: repeated(
            lambda: enter(plain.lock("bench:redis-py:new", timeout=30)), calls
        ),
    }
    other = maker("python-redis-lock", url)
    if other is not None:
        lock = other()
        rows["python-redis-lock"] = pairs(lock.acquire, lock.release)
    return rows


def asynchronous(url: str) -> dict[str, Timed]:
    """Rows of one task."""
    from django_redis_components.locks import Lock

    loop = asyncio.new_event_loop()
    ours = Lock("bench-async")
    theirs = redis.asyncio.Redis.from_url(url).lock("bench:redis-py:async", timeout=30)

    async def pairs_of(calls: int, acquire: Callable[[], Any], release: Callable[[], Any]) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            await acquire()
            await release()
        return time.perf_counter() - begin

    return {
        "ours, async": lambda calls: loop.run_until_complete(pairs_of(calls, ours.aacquire, ours.arelease)),
        "redis-py Lock, async": lambda calls: loop.run_until_complete(pairs_of(calls, theirs.acquire, theirs.release)),
    }


def raw(url: str) -> Timed:
    """The scripts of acquire and release over a bare connection: nothing of ours but the bytes."""
    from django_redis_components.locks.lock import PlainKind

    kind = PlainKind("bench-raw", 30)
    take, [give] = kind.acquire("t", True), kind.release("t")
    plain = redis.Redis.from_url(url)
    for call in (take, give):
        plain.execute_command(*call.eval_args())
    connection = plain.connection_pool.make_connection()
    connection.connect()
    packed = [connection.pack_command(*call.command_args()) for call in (take, give)]

    def pair() -> None:
        for each in packed:
            connection.send_packed_command(each, check_health=False)
            connection.read_response()

    return lambda calls: repeated(pair, calls)


def pairs(acquire: Callable[[], Any], release: Callable[[], Any]) -> Timed:
    """Time acquire and release."""

    def pair() -> None:
        acquire()
        release()

    return lambda calls: repeated(pair, calls)


def enter(lock: Any) -> None:
    """A with block around nothing."""
    with lock:
        pass


def repeated(call: Callable[[], object], calls: int) -> float:
    """Seconds that this number of calls takes."""
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - begin


def maker(name: str, url: str, key: str = "bench-fight") -> Callable[[], Any] | None:
    """How to make the named lock on a key; None when it is not installed."""
    if name.startswith("ours"):
        from django_redis_components.locks import Lock

        timeout = 0.5 if name == KILLED else 30  # a holder that is killed costs its lease, a waiter the hand-off
        return lambda: Lock(key, fair="not" not in name, timeout=timeout)
    client = redis.Redis.from_url(url)
    if name == "python-redis-lock":
        try:
            import redis_lock  # type: ignore[import-not-found]
        except ImportError:
            return None
        return lambda: redis_lock.Lock(client, key, expire=30)
    sleep = 0.001 if "sleep" in name else 0.1
    return lambda: client.lock(key, timeout=30, sleep=sleep)


def fight(name: str, url: str, seconds: float, hold_s: float) -> None:
    """One process: print when each turn was requested, started and ended (monotonic seconds)."""
    set_up(url)
    make = maker(name, url)
    if make is None:
        raise SystemExit(f"{name} is not installed")
    lock = make()
    warm_up(name, url)
    turns: list[tuple[float, float, float]] = []
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.monotonic() + seconds
    while (asked := time.monotonic()) < until:
        lock.acquire()
        started_at = time.monotonic()
        time.sleep(hold_s)
        turns.append((asked, started_at, time.monotonic()))
        lock.release()
    print(json.dumps(turns), flush=True)
    sys.stdin.read()


def warm_up(name: str, url: str) -> None:
    """Connect, and load the scripts of acquire, wait and release, on a lock without contention."""
    free = maker(name, url, f"bench-warm-{os.getpid()}")
    assert free is not None
    first, second = free(), free()
    first.acquire()
    second.acquire(**({"timeout": 1} if name == "python-redis-lock" else {"blocking_timeout": 0.02}))
    first.release()


def report(name: str, url: str, seconds: float, processes: int, hold_s: float) -> None:
    """Run them at the same time, and print the outcome."""
    command = [sys.executable, "-m", "benchmarks.locks", "--fighter", name, url]
    command += ["--seconds", str(seconds), "--hold", str(hold_s)]
    fighters = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    for fighter in fighters:
        assert fighter.stdout is not None
        fighter.stdout.readline()
    for fighter in fighters:
        assert fighter.stdin is not None
        fighter.stdin.write("go\n")
        fighter.stdin.flush()
    if name == KILLED:
        time.sleep(seconds / 2)
        victim = fighters.pop()
        victim.kill()
        victim.communicate()
    per_process = [turns_of(fighter) for fighter in fighters]
    for fighter in fighters:
        fighter.communicate()
    turns = sorted(
        (started_at, ended, number) for number, each in enumerate(per_process) for _, started_at, ended in each
    )
    gaps = [(then[0] - before[1]) * 1e3 for before, then in itertools.pairwise(turns) if then[2] != before[2]]
    waits = sorted((started_at - asked) * 1e3 for each in per_process for asked, started_at, _ in each)
    counts = sorted(len(each) for each in per_process)
    print(
        f"{name:28} {len(turns) / seconds:6.0f} turns/s, each {counts[0]}-{counts[-1]}; "
        f"to another process in p50 {percentile(gaps, 50):6.2f} p99 {percentile(gaps, 99):7.2f} ms; "
        f"waits p50 {percentile(waits, 50):6.2f} p99 {percentile(waits, 99):7.2f} max {waits[-1]:8.2f} ms"
    )


def turns_of(fighter: subprocess.Popen[str]) -> list[list[float]]:
    """What a fighter has printed when it was done."""
    assert fighter.stdout is not None
    found: list[list[float]] = json.loads(fighter.stdout.readline())
    return found


def percentile(values: list[float], share: int) -> float:
    """The value that this percentage stays below."""
    if not values:
        return float("nan")
    return sorted(values)[min(len(values) - 1, len(values) * share // 100)]


if __name__ == "__main__":
    main()
