"""The processes of the benchmark: ``python -m benchmarks.outbox.site fleet|relay|cost|drain ARGUMENTS``."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Processes that commit, and relays; seconds between two kills.
SITES, RELAYS, KILL_S = 4, 2, 2.0


def fleet(rate: int, path: str) -> None:
    """Run processes that commit, and relays; kill one after the other, until SIGTERM; print the number of kills."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    ranges, kills = itertools.count(1), 0

    def spawn(kind: str) -> int:
        first = next(ranges) * 1_000_000
        pid = os.fork()
        if not pid:
            try:
                order(first, rate / SITES, path) if kind == "site" else relay()
            finally:
                os._exit(1)
        return pid

    def kill(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    running = {spawn(kind): kind for kind in ["site"] * SITES + ["relay"] * RELAYS}
    next_kill = time.monotonic() + KILL_S
    while not stopped:
        time.sleep(0.05)
        if time.monotonic() >= next_kill:
            pid, next_kill, kills = random.choice([*running]), time.monotonic() + KILL_S, kills + 1
            kill(pid)
            kind = running.pop(pid)
            running[spawn(kind)] = kind
    for pid in running:
        kill(pid)
    _print({"kills": kills})


def order(first: int, rate: float, path: str) -> None:
    """Commit orders at a rate for ever; append the milliseconds of each commit to a file."""
    from django.db import Error, connection, transaction

    from benchmarks.outbox.tasks import run_order

    due, number = time.monotonic(), first
    with Path(path).open("a", buffering=1) as out:
        while True:
            time.sleep(max(0.0, due - time.monotonic()))
            due, number = due + 1 / rate, number + 1
            started = time.monotonic()
            try:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute("INSERT INTO orders VALUES (%s)", [number])
                    run_order.enqueue_on_commit(number)
            except Error:
                connection.close()
                time.sleep(0.02)
            else:
                out.write(f"{(time.monotonic() - started) * 1_000:.2f}\n")


def relay() -> None:
    """Be a relay for ever."""
    from django_redis_components.contrib.outbox.relay import relaying

    with relaying("default"):
        time.sleep(1e9)


def cost(commits: int) -> None:
    """Print the microseconds of each kind of transaction, in turns of 50: median, 95th percentile, and processor time.

    The processor time of this process is what a busy machine changes least.
    """
    from django.db import connection, transaction

    from benchmarks.outbox.tasks import noop

    direct, stored = noop.using(outbox=False), noop.using(outbox=True)
    kinds: dict[str, Callable[[int], object]] = {
        "commit": lambda _: None,
        "enqueue_on_commit": direct.enqueue_on_commit,
        "outbox": stored.enqueue_on_commit,
        "outbox, 10 calls": lambda number: [stored.enqueue_on_commit(number) for _ in range(10)],
        "enqueue_on_commit, 10 calls": lambda number: [direct.enqueue_on_commit(number) for _ in range(10)],
    }
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    used: dict[str, list[float]] = {kind: [] for kind in kinds}
    number = 0
    while len(times["commit"]) < commits:
        for kind, call in kinds.items():
            for _ in range(50):
                number += 1
                started, used_before = time.perf_counter(), time.thread_time()
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute("INSERT INTO orders VALUES (%s)", [number])
                    call(number)
                times[kind].append((time.perf_counter() - started) * 1e6)
                used[kind].append((time.thread_time() - used_before) * 1e6)
    _print(
        {
            kind: [statistics.median(found), statistics.quantiles(found, n=20)[-1], statistics.median(used[kind])]
            for kind, found in times.items()
        }
    )


def drain(count: int) -> None:
    """Print how many rows a second a relay sends and deletes, and how many it deletes that were sent before."""
    from benchmarks.outbox.tasks import noop
    from django_redis_components.contrib.outbox.models import OutboxEntry
    from django_redis_components.contrib.outbox.relay import Relay
    from django_redis_components.contrib.outbox.storage import DatabaseOutbox
    from django_redis_components.core.client import connections
    from django_redis_components.core.protocol import Command
    from django_redis_components.taskqueue.enqueue import prepare
    from django_redis_components.taskqueue.fields import Key
    from django_redis_components.taskqueue.outbox import row_of
    from django_redis_components.taskqueue.shards import home

    rates = {}
    for kind in ("unsent", "sent"):
        rows = [row_of(home(), prepare(noop, [number], {})[1]) for number in range(count)]
        DatabaseOutbox().add(rows, "default", "default")
        if kind == "sent":
            scores = [part for row in rows for part in (time.time_ns() // 1_000, row.token)]
            connections.client().execute(Command("ZADD", home().key(Key.outbox), *scores))
        relay, started = Relay("default"), time.perf_counter()
        relay.step()
        rates[kind] = count / (time.perf_counter() - started)
        relay.release()
        assert not OutboxEntry.objects.exists()
    _print(rates)


def _print(found: dict[str, Any]) -> None:
    print(json.dumps(found))


def main() -> None:
    import django

    django.setup()
    name, *arguments = sys.argv[1:]
    functions: dict[str, Callable[..., None]] = {"fleet": fleet, "relay": relay, "cost": cost, "drain": drain}
    functions[name](*[int(argument) if argument.isdigit() else argument for argument in arguments])


if __name__ == "__main__":
    main()
