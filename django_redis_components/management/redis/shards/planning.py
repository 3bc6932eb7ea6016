"""Which queues would be better in which shard."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.core.client.server import parse_info
from django_redis_components.core.protocol import Batch, Command, Flow
from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult
from django_redis_components.management.redis.queues.operations import away_note, read_recent
from django_redis_components.management.tables import TextTable
from django_redis_components.taskqueue.shard_clients import read_each
from django_redis_components.taskqueue.shards import Shard, route_of
from django_redis_components.taskqueue.stats.metrics import Metrics

#: A move is proposed only if it takes away this share of the load of the busiest shard, at least.
WORTH = 0.1


@dataclasses.dataclass(slots=True)
class QueueLoad:
    """The load of a queue in a shard.

    Attributes:
        per_minute: runs per minute. A spread queue has an equal part in each of its shards.
        route: the shard that new tasks go to.
        better: the shard that the plan proposes.
        is_spread: whether the queue has other shards, too: it is not moved.
    """

    queue: str
    per_minute: float
    route: str
    better: str
    is_spread: bool = False


def plan_routes(using: str, *, minutes: int, sample_s: float) -> CommandResult:
    """Return where queues would be better, so that the shards have equal loads with few changes.

    The load of a queue is the rate of its recorded runs. The processor time of each server is measured and stated
    beside: with it a reader sees whether a change is needed at all.

    Args:
        minutes: whose runs are counted.
        sample_s: seconds over which the processor time is measured.

    Raises:
        redis.exceptions.RedisError: no shard answers.
    """
    found, away = read_each(using, partial(read_recent, names=(), minutes=minutes))
    busy = measure(using, sample_s)
    loads = balanced(_loads(using, found, minutes), [shard.name for shard in found])
    text, data = _text(loads, found, busy, minutes, sample_s), _data(loads, found, busy, minutes, sample_s)
    return CommandResult(data, text, _table(loads), away_note(away))


def measure(using: str, sample_s: float) -> dict[str, float | None]:
    """Return which share of a core the server of each shard uses, by name; None if it is not known."""
    before, _ = read_each(using, _read_cpu)
    started = time.monotonic()
    time.sleep(sample_s)
    try:
        after, _ = read_each(using, _read_cpu)
    except RedisError:
        after = {}
    elapsed_s = time.monotonic() - started
    busy: dict[str, float | None] = {}
    for shard, first in before.items():
        last = after.get(shard)
        busy[shard.name] = None if first is None or last is None else max(0.0, last - first) / elapsed_s
    return busy


def balanced(loads: Sequence[QueueLoad], shards: Sequence[str]) -> list[QueueLoad]:
    """Propose shards for queues: move one at a time from the busiest to the least busy shard, while it is worth it.

    Args:
        shards: names of those that were read. The load of another one is not known, so it gets and gives no queue.
    """
    totals = dict.fromkeys(shards, 0.0)
    for load in loads:
        if load.better in totals:
            totals[load.better] += load.per_minute
    while True:
        busiest, idlest = max(totals, key=lambda name: totals[name]), min(totals, key=lambda name: totals[name])
        gap = totals[busiest] - totals[idlest]
        fitting = [
            load for load in loads if load.better == busiest and 0 < load.per_minute < gap and not load.is_spread
        ]
        if not fitting:
            return list(loads)
        moved = min(fitting, key=lambda load: abs(load.per_minute - gap / 2))
        if min(moved.per_minute, gap - moved.per_minute) < WORTH * totals[busiest]:
            return list(loads)
        totals[busiest] -= moved.per_minute
        totals[idlest] += moved.per_minute
        moved.better = idlest


def _loads(using: str, found: Mapping[Shard, Mapping[str, Metrics]], minutes: int) -> list[QueueLoad]:
    runs: dict[str, int] = {}
    for part in found.values():
        for name, metrics in part.items():
            runs[name] = runs.get(name, 0) + metrics.totals.runs
    routes = {name: [shard.name for shard in route_of(name, using)] for name in runs}
    loads = [
        QueueLoad(name, count / minutes / len(routes[name]), shard, shard, is_spread=len(routes[name]) > 1)
        for name, count in runs.items()
        for shard in routes[name]
    ]
    return sorted(loads, key=lambda load: (-load.per_minute, load.queue))


def _read_cpu(shard: Shard) -> Flow[float | None]:
    """Return the seconds of processor time that the server's main thread has used; None if it is not known."""
    [reply] = yield Batch([Command("INFO", "cpu", key=shard.base, retry=True)], return_exceptions=True)
    if isinstance(reply, ConnectionError | TimeoutError):
        raise reply
    try:
        fields = parse_info(reply).fields if isinstance(reply, bytes) else {}
        names = [f"used_cpu_{mode}_main_thread" for mode in ("user", "sys")]
        if names[0] not in fields:
            names = ["used_cpu_user", "used_cpu_sys"]
        return sum(float(fields[name]) for name in names)
    except (KeyError, ValueError):
        return None


def _table(loads: Sequence[QueueLoad]) -> TextTable | None:
    if not loads:
        return None
    total = sum(load.per_minute for load in loads)
    rows = [
        (
            load.queue,
            f"{load.per_minute:,.1f}",
            f"{load.per_minute / total:.0%}" if total else "",
            load.route,
            load.better if load.better != load.route else "",
        )
        for load in loads
    ]
    return TextTable(("QUEUE", "RUNS/MIN", "SHARE", "SHARD", "BETTER IN"), rows, frozenset(("RUNS/MIN", "SHARE")))


def _text(
    loads: Sequence[QueueLoad],
    found: Mapping[Shard, Any],
    busy: Mapping[str, float | None],
    minutes: int,
    sample_s: float,
) -> str:
    cores = ", ".join(f"{name} {'unknown' if share is None else f'{share:.0%}'}" for name, share in busy.items())
    read = (
        f"Read: the runs of the last {minutes} minutes of {counted(len({load.queue for load in loads}), 'queue')} in"
        f" {counted(len(found), 'shard')}, and the processor time of their servers over {sample_s:g} s (share of a"
        f" core: {cores}). Shards on one server share its core."
    )
    lines = [read]
    moves = {load.queue: load.better for load in loads if load.better != load.route}
    if moves:
        lines.append(f'To change in TASKQUEUE["QUEUES"]: {moves}. Old tasks run where they are.')
    else:
        lines.append("No change of a single queue would make the loads more equal.")
    return "\n".join(lines)


def _data(
    loads: Sequence[QueueLoad],
    found: Mapping[Shard, Any],
    busy: Mapping[str, float | None],
    minutes: int,
    sample_s: float,
) -> dict[str, Any]:
    after = {shard.name: sum(load.per_minute for load in loads if load.better == shard.name) for shard in found}
    before = {shard.name: sum(load.per_minute for load in loads if load.route == shard.name) for shard in found}
    return {
        "minutes": minutes,
        "sample": sample_s,
        "queues": [dataclasses.asdict(load) for load in loads],
        "shards": [
            {"name": name, "core_share": busy.get(name), "per_minute": before[name], "planned_per_minute": after[name]}
            for name in after
        ],
    }
