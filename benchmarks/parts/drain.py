"""Tasks per second from filled queues, with one and two processes, with and without 2 ms of network latency."""

from __future__ import annotations

import time
from functools import partial

from benchmarks import environment, peers
from benchmarks.parts import Figures, Sizes, Step
from benchmarks.peers import Row
from benchmarks.running import Bench

#: Added round-trip time of the part "distance", in milliseconds.
DISTANCE_MS = 2.0
#: Of the number of tasks, what is drained over a distance.
DISTANT_SHARE = 0.2
#: Keys of our ready and running tasks.
OURS_UNSETTLED = [f"drc:taskqueue:{{default}}:q:default:{part}" for part in ("ready", "running")]
BARE = "bare loop: our scripts, 8 threads, 32 at a time"


def steps(bench: Bench, sizes: Sizes, rows: list[Row]) -> list[Step]:
    made = []
    for row in rows:
        count = max(40, int(sizes.tasks * row.weight))
        one_alone = row in (peers.ONE_AT_A_TIME, peers.ONE_THREAD_ONE)
        numbers = (1,) if one_alone else (1, 2)
        made += [Step("drain", row.label, partial(drain, bench, row, count, number)) for number in numbers]
    if peers.OURS in rows:
        made.append(Step("drain", BARE, partial(bare, bench, sizes.tasks * 2)))
    return made


def distant_steps(bench: Bench, sizes: Sizes, rows: list[Row]) -> list[Step]:
    made = []
    for row in rows:
        count = max(20, int(sizes.tasks * min(row.weight, 1.0) * DISTANT_SHARE))
        made.append(Step("distance", row.label, partial(distant, bench, row, count)))
    return made


def drain(bench: Bench, row: Row, count: int, processes: int, url: str | None = None) -> Figures:
    """Fill, start the worker, and take the time between the first and the last task.

    The last task of the queue is not the last to run if threads prefetch: ours are measured until every
    task is settled.
    """
    bench.raw.flushall()
    bench.send(row, "fill_in_bulk", count)
    with bench.worker(row, processes, url) as started:
        bench.wait_for(lambda: bench.marked("end"), started, f"{count} tasks")
        end = bench.marked("end")
        while row.peer == peers.OURS.peer and bench.raw.exists(*OURS_UNSETTLED):
            time.sleep(0.002)
            end = time.time()
    begin = bench.marked("begin")
    assert begin is not None
    assert end is not None
    return {f"{processes} process{'es' if processes > 1 else ''}, tasks/s": count / (end - begin)}


def distant(bench: Bench, row: Row, count: int) -> Figures:
    """The same with one process and a network between."""
    with bench.slow_network(DISTANCE_MS) as url:
        figures = drain(bench, row, count, 1, url)
    return {"tasks/s": figures["1 process, tasks/s"]}


def bare(bench: Bench, count: int) -> Figures:
    """Run the same script in a bare loop."""
    bench.raw.flushall()
    bench.send(peers.OURS, "fill_in_bulk", count)
    output = bench.ask([environment.python(), "-m", "benchmarks.bare", "drain"], bench.variables(peers.OURS))
    return {"1 process, tasks/s": output["rate"]}
