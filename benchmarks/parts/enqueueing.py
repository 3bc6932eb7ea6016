"""Tasks sent in a second by one thread, one by one and in bulk."""

from __future__ import annotations

from functools import partial

from benchmarks import environment, peers
from benchmarks.parts import Figures, Sizes, Step
from benchmarks.peers import Row
from benchmarks.running import Bench

RAW = "bare: our script, one held connection"
ONE, BULK = "one by one, tasks/s", "in bulk, tasks/s"


def steps(bench: Bench, sizes: Sizes, rows: list[Row]) -> list[Step]:
    made = [Step("enqueue", row.label, partial(enqueue, bench, row, sizes.tasks)) for row in rows]
    if peers.OURS in rows:
        made.append(Step("enqueue", RAW, partial(raw, bench, sizes.tasks)))
    return made


def enqueue(bench: Bench, row: Row, count: int) -> Figures:
    bench.raw.flushall()
    figures = {ONE: bench.send(row, "fill", max(200, count // 4))["single"]}
    bench.raw.flushall()
    bulk = bench.send(row, "fill_in_bulk", count)
    return figures | ({BULK: bulk["bulk"]} if "bulk" in bulk else {})


def raw(bench: Bench, count: int) -> Figures:
    bench.raw.flushall()
    command = [environment.python(), "-m", "benchmarks.bare", "enqueue", str(count // 4)]
    return {ONE: bench.ask(command, bench.variables(peers.OURS))["rate"]}
