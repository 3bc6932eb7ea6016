"""What `aenqueue` costs this process when many coroutines send at the same time.

    chrt -r 10 python -m benchmarks.coroutines [--against DIRECTORY] [--rounds 7] [--calls 4000]

For 1, 100 and 1,000 coroutines: the processor time of the client for each call (user and system), how long a call takes
(median and 99th percentile), calls a second, and the connections that the server sees. With ``--against`` the same is
done with the package in another directory, such as the checkout of an earlier release: both in turn, each round in new
processes. Printed are the medians of the rounds. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.environment import server_url

#: Coroutines that send at the same time.
COROUTINES = (1, 100, 1_000)
FIGURES = {
    "cpu_us": "CPU us a call",
    "median_us": "median us",
    "p99_us": "p99 us",
    "per_s": "calls a second",
    "connections": "connections",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--against", type=Path, help="a directory with another version of the package")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=4_000, help="calls of a round, for each number of coroutines")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.calls)))
        return
    with server_url() as url:
        compare(url, options)


def compare(url: str, options: argparse.Namespace) -> None:
    trees = {"here": Path.cwd()} | ({"against": options.against} if options.against else {})
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for count in COROUTINES:
            for name, tree in trees.items():
                found.setdefault((name, count), []).append(in_child(url, tree, count, options.calls))
    for (name, count), rounds in sorted(found.items(), key=lambda item: item[0][1]):
        medians = {figure: statistics.median(each[figure] for each in rounds) for figure in FIGURES}
        print(f"{name:8}{count:6} coroutines", *(f"{FIGURES[each]} {medians[each]:8.1f}" for each in FIGURES))


def in_child(url: str, tree: Path, count: int, calls: int) -> dict[str, float]:
    """Measure once with the package in a directory, and with this script."""
    environment = os.environ | {"PYTHONPATH": str(tree), "BENCH_URL": url}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", str(count), "--calls", str(calls)]
    done = subprocess.run(command, env=environment, cwd=tree, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def measure(count: int, calls: int) -> dict[str, float]:
    import django
    from django.conf import settings

    settings.configure(
        INSTALLED_APPS=["django_redis_components"],
        REDIS_COMPONENTS={"PREFIX": "bench", "CONNECTIONS": {"default": {"URL": os.environ["BENCH_URL"]}}},
    )
    django.setup()
    return asyncio.run(send(count, calls))


async def send(count: int, calls: int) -> dict[str, float]:
    from benchmarks.tasks import noop
    from django_redis_components.core.client import connections
    from django_redis_components.core.protocol import Command

    times_s: list[float] = []

    async def coroutine(number_of_calls: int) -> None:
        for _ in range(number_of_calls):
            started_at = time.perf_counter()
            await noop.aenqueue(1)
            times_s.append(time.perf_counter() - started_at)

    async def round_of(number_of_calls: int) -> None:
        await asyncio.gather(*(coroutine(max(1, number_of_calls // count)) for _ in range(count)))

    client: Any = connections.aclient("default")
    await client.execute(Command("FLUSHDB"))
    await round_of(calls // 4)
    times_s.clear()
    cpu_before, started_at = time.process_time(), time.perf_counter()
    await round_of(calls)
    elapsed_s, cpu_s = time.perf_counter() - started_at, time.process_time() - cpu_before
    info = await client.execute(Command("INFO", "clients", key=None))
    times_s.sort()
    return {
        "cpu_us": cpu_s / len(times_s) * 1e6,
        "median_us": times_s[len(times_s) // 2] * 1e6,
        "p99_us": times_s[int(len(times_s) * 0.99)] * 1e6,
        "per_s": len(times_s) / elapsed_s,
        "connections": float(info.split(b"connected_clients:")[1].split()[0]),
    }


if __name__ == "__main__":
    main()
