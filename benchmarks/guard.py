"""Compare the speed of this code with stored ratios, in about a minute; fail on a loss of more than 15 %.

    python -m benchmarks.guard [--server valkey] [--most-seconds 180]     # exit code 0: as fast, 1: slower
    python -m benchmarks.guard --store                                    # measure, and store the ratios

Rows and units (needs Linux and the extra ``demo``; no peers, no network):

- *enqueue, lock pair, semaphore pair, GCRA hit, prefix*: CPU time of this process and of the server for one call, in
  CPU times of a PING on a held connection of redis-py. All run on one core.
- *drain, CPU*: CPU time for each task of a default worker (8 threads, its log written to a file) and the server, in
  those of a bare loop of the same scripts. *drain, rate*: tasks per second of the bare loop, in those of the worker.
- *coroutines, CPU* and *rate*: the same worker drains coroutines, in CPU times and in tasks per second of *drain*.

The kernel counts CPU times, so other processes change them little. The measurements alternate, and each ratio is taken
within one round. A row is decided when the confidence interval of its median is on one side of the limit; until then
more rounds follow. If a row is undecided after ``--most-seconds``, the machine is too noisy (exit code 2).
Ratios depend on server and Python, so each pair of them has its own in ``guard_ratios.json``. Not part of `make test`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import django
import redis

from benchmarks import environment
from benchmarks.running import Bench
from tools.localserver import LocalServer, redis_binary, valkey_binary

#: Ratios by server and Python.
STORED = Path(__file__).with_name("guard_ratios.json")
#: Largest accepted loss: of a stored ratio of 2.0, 2.3 is still accepted.
TOLERANCE = 0.15
#: Calls of each block, and tasks of each drain.
CALLS, TASKS = 25, 12_000
#: Rounds before the first decision, of the calls and of the drains.
FIRST_CALLS, FIRST_DRAINS = 240, 5
#: Entries of the prefix index, and what is typed.
NAMES, TYPED = 2_000, "nam"
DRAIN_CPU, DRAIN_RATE = "drain, CPU", "drain, rate"
COROUTINES_CPU, COROUTINES_RATE = "coroutines, CPU", "coroutines, rate"
WORKER = [sys.executable, "-m", "django", "runworker", "--processes", "1", "--threads", "8"]
#: Keys of ready and running tasks.
UNSETTLED = [f"drc:taskqueue:{{default}}:q:default:{part}" for part in ("ready", "running")]

#: Exit code and last line, by the first of these that is among the verdicts.
ENDINGS = {
    False: (1, "Slower than stored. If that is wanted, run with --store and commit guard_ratios.json."),
    None: (2, "The machine is too noisy to decide. Run it again when the machine does less."),
    True: (0, "As fast as stored."),
}
NOTHING_STORED = 2, "Nothing is stored for this server and Python: run with --store on a commit that is fast enough."
#: Row -> the ratio of each round.
Ratios = dict[str, list[float]]


def main() -> None:
    """Measure, print the table, and exit with 0 (as fast), 1 (slower) or 2 (too noisy, or nothing stored)."""
    options = _arguments()
    binary = {"valkey": valkey_binary, "redis": redis_binary}[options.server]()
    known = f"{options.server}, Python {sys.version_info.major}.{sys.version_info.minor}"
    table = json.loads(STORED.read_text()) if STORED.exists() else {}
    stored = {} if options.store else table.get(known, {})
    with tempfile.TemporaryDirectory() as directory, LocalServer(binary, directory=Path(directory)) as server:
        guard = Guard(server, Path(directory) / "worker.log", stored)
        guard.measure(options.most_seconds)
    print(f"{known}; ratios, less is faster; limit: stored + {TOLERANCE:.0%}\n")
    verdicts = report(guard.ratios, stored)
    code, text = next(ending for found, ending in ENDINGS.items() if found in [*verdicts, True])
    if options.store and code == 0:
        table[known] = {row: round(statistics.median(ratios), 3) for row, ratios in guard.ratios.items()}
        STORED.write_text(json.dumps(table, indent=2, sort_keys=True) + "\n")
        text = f"Stored in {STORED.name}."
    elif code == 0 and not stored:
        code, text = NOTHING_STORED
    print(f"\n{text}")
    sys.exit(code)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="store the ratios of this run")
    parser.add_argument(
        "--server", choices=["valkey", "redis"], default="valkey", help="embedded Valkey, or /usr/bin's"
    )
    parser.add_argument("--most-seconds", type=float, default=180.0, help="limit for undecided rows (default: 180)")
    return parser.parse_args()


class Guard:
    """A run: one server, this process as its client, and workers."""

    def __init__(self, server: LocalServer, log: Path, stored: dict[str, float]) -> None:
        os.environ.update(environment.variables(server.url, server.url, "ours"))
        django.setup()
        self.ratios: Ratios = {}
        self._stored = stored
        self._server = server
        self._bench = Bench(server, log)
        self._cores = os.sched_getaffinity(0)

    def measure(self, most_s: float) -> None:
        """Run the first rounds, then more until each row is decided or the time is over."""
        deadline = time.monotonic() + most_s
        for rounds, first in ((self._calls(), FIRST_CALLS), (self._drains(), FIRST_DRAINS)):
            for number, rows in enumerate(rounds, 1):
                is_decided = all(verdict(self.ratios[row], self._stored.get(row)) is not None for row in rows)
                if number >= first and (is_decided or time.monotonic() > deadline):
                    break

    def _calls(self) -> Iterator[set[str]]:
        """Each round yields the names of its rows."""
        self._pin({max(self._cores)})
        ping, calls = held_ping(self._server.url), public_calls()
        for call in (ping, *calls.values()):
            self._cpu_s(call, 4 * CALLS)  # connections, scripts, and Python's caches
        while True:
            self._pin({max(self._cores)})
            before = self._cpu_s(ping, CALLS)
            for row, call in calls.items():
                taken, after = self._cpu_s(call, CALLS), self._cpu_s(ping, CALLS)
                self.ratios.setdefault(row, []).append(2 * taken / (before + after) / PINGS.get(row, 1))
                before = after
            self._pin(self._cores)
            yield set(calls)

    def _drains(self) -> Iterator[set[str]]:
        from benchmarks import bare, tasks

        self._pin(self._cores)
        while True:
            self._fill(tasks.noop)
            begin_s, begin_cpu_s = time.perf_counter(), self._used_cpu_s([os.getpid()])
            bare.drain()
            bare_s, bare_cpu_s = time.perf_counter() - begin_s, self._used_cpu_s([os.getpid()]) - begin_cpu_s
            self._fill(tasks.noop)
            ours_s, ours_cpu_s = self._worker_drain()
            self._fill(tasks.anoop)
            coroutines_s, coroutines_cpu_s = self._worker_drain()
            round_ = {
                DRAIN_RATE: ours_s / bare_s,
                DRAIN_CPU: ours_cpu_s / bare_cpu_s,
                COROUTINES_RATE: coroutines_s / ours_s,
                COROUTINES_CPU: coroutines_cpu_s / ours_cpu_s,
            }
            for row, ratio in round_.items():
                self.ratios.setdefault(row, []).append(ratio)
            yield set(round_)

    def _fill(self, task: Any) -> None:
        from benchmarks import tasks

        self._bench.raw.flushall()
        tasks.mark.enqueue("begin")
        task.enqueue_many([((number,), {}) for number in range(TASKS)])

    def _worker_drain(self) -> tuple[float, float]:
        """Return wall and CPU time of the worker and the server from the first task until all are settled."""
        with self._bench.running([WORKER], dict(os.environ)) as workers:
            self._bench.wait_for(lambda: self._bench.marked("begin"), workers, "the first task")
            processes = list(_descendants(workers[0].pid))
            begin_s, begin_cpu_s = time.perf_counter(), self._used_cpu_s(processes)
            while self._bench.raw.exists(*UNSETTLED):
                time.sleep(0.005)
            return time.perf_counter() - begin_s, self._used_cpu_s(processes) - begin_cpu_s

    def _cpu_s(self, call: Callable[[], object], times: int) -> float:
        begin_s = self._used_cpu_s([os.getpid()])
        for _ in range(times):
            call()
        return self._used_cpu_s([os.getpid()]) - begin_s

    def _used_cpu_s(self, processes: list[int]) -> float:
        """CPU time that these processes and the server have used."""
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in (self._server.pid, *processes))  # CPUCLOCK_SCHED

    def _pin(self, cores: set[int]) -> None:
        for pid in (0, self._server.pid):
            os.sched_setaffinity(pid, cores)


#: Round trips of a row, if more than one.
PINGS = {"lock pair": 2, "semaphore pair": 2}


def held_ping(url: str) -> Callable[[], object]:
    """PING on a held connection of redis-py: the unit."""
    connection = redis.Redis.from_url(url).connection_pool.make_connection()
    connection.connect()

    def ping() -> None:
        connection.send_packed_command(connection.pack_command("PING"), check_health=False)
        connection.read_response()

    return ping


def public_calls() -> dict[str, Callable[[], object]]:
    """The measured calls, by row."""
    from benchmarks.tasks import noop
    from django_redis_components.autocomplete import PrefixIndex
    from django_redis_components.locks import Lock
    from django_redis_components.ratelimits import RateLimit
    from django_redis_components.semaphores import Semaphore

    lock, semaphore = Lock("guard"), Semaphore("guard", 5)
    limit, index = RateLimit("guard", (1_000_000, 1.0)), PrefixIndex("guard")
    index.rebuild((number, f"name {number}") for number in range(NAMES))

    def pair(held: Any) -> Callable[[], object]:
        return lambda: (held.acquire(), held.release())

    return {
        "enqueue": lambda: noop.enqueue(1),
        "lock pair": pair(lock),
        "semaphore pair": pair(semaphore),
        "GCRA hit": lambda: limit.hit("key"),
        "prefix": lambda: index.complete(TYPED),
    }


def report(ratios: Ratios, stored: dict[str, float]) -> list[bool | None]:
    """Print a table and return whether each row is fast enough; None: not decided."""
    print(f"{'':16}{'stored':>8}{'measured':>10}{'95 % interval':>18}{'rounds':>8}{'change':>9}")
    verdicts = {row: verdict(values, stored.get(row)) for row, values in ratios.items()}
    for row, values in ratios.items():
        word = {True: "", False: "SLOWER", None: "not decided"}[verdicts[row]]
        median, base = statistics.median(values), stored.get(row, float("nan"))
        between = "{:.2f} to {:.2f}".format(*interval(values))
        print(f"{row:16}{base:8.2f}{median:10.2f}{between:>18}{len(values):8}{median / base - 1:+9.0%}  {word}")
    return list(verdicts.values())


def verdict(values: list[float], base: float | None) -> bool | None:
    """Return whether a row is fast enough; None: not decided. A row without a stored ratio is compared with itself."""
    low, high = interval(values)
    limit = (base or statistics.median(values)) * (1 + TOLERANCE)
    return None if low <= limit < high else high <= limit


def interval(values: list[float]) -> tuple[float, float]:
    """The 95 % confidence interval of the median, by ranks."""
    ordered, count = sorted(values), len(values)
    rank = max(0, int(count / 2 - 0.98 * count**0.5))
    return ordered[rank], ordered[count - 1 - rank]


def _descendants(pid: int) -> Iterator[int]:
    """The process and all that it has started."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from _descendants(int(child))


if __name__ == "__main__":
    main()
