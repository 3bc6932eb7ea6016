"""What Redis Functions could save at most: the time in which a script makes its Lua functions again in each call.

    python -m benchmarks.script_functions [--server redis] [--rounds 15]

A Function makes them once, when it is loaded. Measured are, by ``INFO commandstats``, a fetch with the outcome of the
task before it and an enqueue, one plain task in a call, and a script that ends where the one of the fetch begins to
work: after it has made its functions. Printed are the smallest and the median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from benchmarks import dashboard, growth
from benchmarks.scaling import script_us
from tools.localserver import LocalServer, redis_binary, valkey_binary

#: Where the script of a fetch begins to work, and the parts of a plain task, which are made when they are used.
WORK, PARTS = "local acks = #ARGV", "settle(); counters()"
#: Calls of each sort in a round.
CALLS = 200


def main() -> None:
    """Start a server and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--server", choices=["valkey", "redis"], default="valkey", help="embedded Valkey, or /usr/bin's Redis"
    )
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default: 15)")
    options = parser.parse_args()
    binary = {"valkey": valkey_binary, "redis": redis_binary}[options.server]()
    with tempfile.TemporaryDirectory() as directory, LocalServer(binary, directory=Path(directory)) as server:
        dashboard.set_up(server.url)
        measure(redis.Redis.from_url(server.url), options.rounds)


def measure(raw: redis.Redis, rounds: int) -> None:
    """Print the times, and how much less a task takes without making functions."""
    from django_redis_components.taskqueue.store.scripts import FETCH

    site = growth.with_ready(raw, "bench", rounds * CALLS * 2)
    before, work, after = FETCH.source.partition(WORK)
    if not work:
        raise SystemExit(f"fetch.lua has no {WORK!r}: state where its work begins.")
    calls: dict[str, Callable[[], Any]] = {
        "fetch": site.run_one,
        "enqueue": site.send,
        "functions": _sender(raw, f"{before} if true then {PARTS}; return 0 end {work}{after}"),
        "the same without them": _sender(raw, 'redis.call("TIME") return 0'),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(script_us(raw, call, CALLS))
    for label, summary in (("smallest", min), ("median", statistics.median)):
        us = {name: summary(values) for name, values in times.items()}
        saved, task = us["functions"] - us["the same without them"], us["fetch"] + us["enqueue"]
        print(
            f"{label:9} fetch {us['fetch']:.1f} us, enqueue {us['enqueue']:.1f} us, functions {saved:.1f} us:"
            f" at most {task / (task - saved):.2f} times less"
        )


def _sender(raw: redis.Redis, source: str) -> Callable[[], Any]:
    sha = raw.script_load(source)
    return lambda: raw.evalsha(sha, 1, "bench:{q}", "worker", "0", "1", "15000", "1", "10000", "0", "60000", "1", "q")


if __name__ == "__main__":
    main()
