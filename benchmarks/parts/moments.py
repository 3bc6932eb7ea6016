"""How soon an idle worker begins a task, and how late a delayed one begins."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from functools import partial

from benchmarks import environment, peers
from benchmarks.parts import Figures, Sizes, Step
from benchmarks.peers import Row
from benchmarks.running import Bench

#: Seconds between two single tasks for an idle worker.
PAUSE_S = 0.015
RAW = "bare: a held BLPOP"
ALIVE, KILLED = "ours, poller alive", "ours, poller killed"
SINGLE = "single tasks, 1.37 s apart"

FAIR = "ours, 100 short tasks beside a long one, 2 workers"
#: Seconds of the long task, and the number of short ones.
LONG_S, SHORT = 12.0, 100

Started = list[subprocess.Popen[bytes]]


def pickup_steps(bench: Bench, sizes: Sizes, rows: list[Row]) -> list[Step]:
    made = [Step("pickup", row.label, partial(pick_up, bench, row, sizes.pickups)) for row in rows]
    if peers.OURS in rows:
        made.append(Step("pickup", RAW, partial(raw_pick_up, bench, sizes.pickups)))
    return made


def pick_up(bench: Bench, row: Row, count: int) -> Figures:
    bench.raw.flushall()
    with bench.worker(row) as started:
        _ready(bench, row, started)
        bench.send(row, "pick_up", count, PAUSE_S)
        return _late(bench, started, count)


def raw_pick_up(bench: Bench, count: int) -> Figures:
    bench.raw.flushall()
    command = [environment.python(), "-m", "benchmarks.handover"]
    variables = bench.variables(peers.OURS)
    with bench.running([[*command, "receive"]], variables) as started:
        time.sleep(1.0)
        bench.ask([*command, str(count), str(PAUSE_S)], variables)
        return _late(bench, started, count)


def fairness_steps(bench: Bench, sizes: Sizes, rows: list[Row]) -> list[Step]:
    return [Step("fairness", FAIR, partial(be_fair, bench))] if peers.OURS in rows else []


def be_fair(bench: Bench) -> Figures:
    """A worker with a long task, another with nothing to do, and short tasks that come all at once."""
    bench.raw.flushall()
    row = peers.OURS
    busy, idle = peers.ours("--no-poller", threads=2)(1), peers.ours("--no-poller")(1)
    with bench.running(busy, bench.variables(row)) as started:
        _ready(bench, row, started)
        bench.send(row, "nap", LONG_S)
        with bench.running(idle, bench.variables(row)) as both:
            time.sleep(4.0)
            bench.send(row, "burst", SHORT)
            return _late(bench, both, SHORT) | {"slowest, ms": max(bench.lateness_ms())}


def delayed_steps(bench: Bench, sizes: Sizes, rows: list[Row]) -> list[Step]:
    made = []
    if peers.OURS in rows:
        for label, alive in ((ALIVE, True), (KILLED, False)):
            label = f"{label}, {sizes.scheduled:,} others scheduled"
            made.append(Step("delayed", label, partial(delayed_among_others, bench, sizes, alive)))
        made.append(Step("delayed", f"ours, {SINGLE}", partial(singles, bench, peers.OURS, sizes.singles)))
    others = [row for row in rows if row is not peers.OURS]
    made += [Step("delayed", row.label, partial(delayed, bench, row, sizes)) for row in others]
    if peers.CELERY in rows:
        made.append(Step("delayed", f"Celery, {SINGLE}", partial(singles, bench, peers.CELERY, sizes.singles)))
    return made


def delayed(bench: Bench, row: Row, sizes: Sizes) -> Figures:
    """Tasks that fall due one after the other, and nothing else."""
    bench.raw.flushall()
    with bench.worker(row) as started:
        _ready(bench, row, started)
        return _fall_due(bench, row, started, sizes.delayed, sizes.delayed_s)


def singles(bench: Bench, row: Row, count: int) -> Figures:
    """Single tasks on an otherwise idle server."""
    bench.raw.flushall()
    with bench.worker(row) as started:
        _ready(bench, row, started)
        return _fall_due(bench, row, started, count, count * 1.37)


def delayed_among_others(bench: Bench, sizes: Sizes, alive: bool) -> Figures:
    """The same among many other tasks, with a separate poller process, which may be killed before."""
    bench.raw.flushall()
    bench.send(peers.OURS, "pile", sizes.scheduled)
    row = peers.OURS
    poller = [environment.python(), "-m", "django", "runpoller"]
    with bench.running([poller], bench.variables(row)) as pollers, _without_poller(bench) as started:
        _ready(bench, row, started)
        if not alive:
            pollers[0].kill()
        return _fall_due(bench, row, started, sizes.delayed, sizes.delayed_s)


@contextlib.contextmanager
def _without_poller(bench: Bench) -> Iterator[Started]:
    commands = peers.ours("--no-poller")(1)
    with bench.running(commands, bench.variables(peers.OURS)) as started:
        yield started


def _fall_due(bench: Bench, row: Row, started: Started, count: int, over_s: float) -> Figures:
    ends_in_s = bench.send(row, "delay", count, over_s)["ends_in_s"]
    time.sleep(max(0.0, ends_in_s))
    return _late(bench, started, count)


def _ready(bench: Bench, row: Row, started: Started) -> None:
    """Wait until the worker works, then forget that."""
    bench.send(row, "pick_up", 20, 0.001)
    bench.wait_for(lambda: len(bench.lateness_ms()) >= 20, started, "first tasks", 60)
    time.sleep(0.5)
    bench.raw.delete("bench:late")


def _late(bench: Bench, started: Started, count: int) -> Figures:
    bench.wait_for(lambda: len(bench.lateness_ms()) >= count, started, f"{count} single tasks", 60)
    late = sorted(bench.lateness_ms())
    return {"p50, ms": late[len(late) // 2], "p99, ms": late[min(len(late) - 1, round(len(late) * 0.99))]}
