"""What each shard holds, and whether one is empty; independent of argparse and of the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.template.defaultfilters import filesizeformat

from django_redis_components.core.protocol import Flow, Read, run
from django_redis_components.core.text import counted
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.problems.facts import read_facts
from django_redis_components.dashboard.problems.incidents import IncidentState
from django_redis_components.dashboard.problems.of_shards import FactsOrError, error_of, read_others
from django_redis_components.dashboard.problems.shard_states import ShardState, shard_states
from django_redis_components.management.base import CommandResult
from django_redis_components.management.listings import task_listing
from django_redis_components.management.tables import TextTable
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.schedules.status import ScheduleInfo, read_part
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import Shard, home, named, route_of
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, read_depths, tasks_of

#: States whose tasks are pending, in the order of the text.
PENDING = ("ready", "scheduled", "running", "waiting", "unregistered")
_NUMBERS = ("QUEUES", "READY", "OLDEST", "SCHEDULED", "RUNNING", "FAILED", "WORKERS", "MEMORY")


def list_shards(using: str) -> CommandResult:
    """Return the shards. One that is away has a row that says so.

    Raises:
        redis.exceptions.RedisError: none answers.
    """
    states = read_states(using)
    data = {"shards": [_state_data(state) for state in states]}
    table = TextTable(("SHARD", "SERVER", "STATE", *_NUMBERS, "POLLER"), [*map(_row, states)], frozenset(_NUMBERS))
    away = [state.outage.text for state in states if state.outage]
    text = f"{len(states) - len(away)} of {counted(len(states), 'shard')} read."
    return CommandResult(data, text, table, note=" ".join(away))


def read_states(using: str) -> list[ShardState]:
    """Return the states of all shards, read side by side.

    Raises:
        redis.exceptions.RedisError: none answers.
    """
    first, incidents = home(using), IncidentState()
    at_home: FactsOrError
    try:
        at_home = facts = read_facts(using, first)
        incidents = facts.incidents
    except SnapshotFailed as exc:
        at_home = exc
    found: dict[Shard, FactsOrError] = {first: at_home, **read_others(using)}
    errors = [error_of(facts) for facts in found.values()]
    if errors[0] is not None and None not in errors:
        raise errors[0]
    return shard_states(found, incidents)


def check_empty(using: str, name: str) -> CommandResult:
    """Return what is left in a shard: it is empty if no task is pending, and nothing sends new ones.

    Raises:
        ValueError: there is no shard with this name.
        redis.exceptions.RedisError: it does not answer.
    """
    shard = named(name, using)
    queues, flows, moving, schedules = run(prompt_client(shard), _read_left(shard))
    pending = {queue.name: _pending(queue) for queue in queues if any(_pending(queue).values())}
    routed = [queue.name for queue in queues if shard in route_of(queue.name, using)]
    added = [schedule.name for schedule in schedules if schedule.is_added]
    failed = sum(queue.failed for queue in queues)
    data = {"shard": name, "pending": pending, "flows": flows, "moving": moving, "schedules": added}
    data |= {"failed": failed, "routed": routed}
    left = [_pending_text(queue, counts) for queue, counts in pending.items()]
    left += [counted(flows, "unfinished flow")] if flows else []
    left += [f"{counted(moving, 'task')} of a move that was interrupted, or runs"] if moving else []
    left += [f"schedules that were added at run time: {', '.join(added)}"] if added else []
    notes = []
    if failed:
        notes.append(f"{counted(failed, 'failed task')} of it cannot be retried any more once it is removed.")
    if routed:
        notes.append(f"New tasks of these queues go to it: {', '.join(routed)}. Change their route first.")
    if left:
        return CommandResult(data, note=" ".join(notes), problem=f"Shard {name!r} is not empty: {'; '.join(left)}.")
    return CommandResult(data, f"Shard {name!r} has no pending tasks.", note=" ".join(notes))


def _read_left(shard: Shard) -> Flow[tuple[list[QueueInfo], int, int, list[ScheduleInfo]]]:
    moving = yield Read("ZCARD", shard.key(Key.moving))  # first: a move to this shard puts them into a queue
    queues = yield from read_depths(shard)
    flows = yield Read("ZCARD", shard.key(Key.unfinished_flows))
    part = yield from read_part(shard)
    schedules = list(part.schedules)
    while part.has_more:
        part = yield from read_part(shard, after=schedules[-1].name)
        schedules += part.schedules
    return queues, flows, moving, schedules


def _pending(queue: QueueInfo) -> dict[str, int]:
    return {state: getattr(queue, state) for state in PENDING if getattr(queue, state)}


def _pending_text(queue: str, counts: Mapping[str, int]) -> str:
    return f"queue {queue!r} has {', '.join(f'{count:,} {state}' for state, count in counts.items())}"


def _row(state: ShardState) -> tuple[str, ...]:
    address, name = state.address, state.shard.name
    if state.overview is None:
        since = f"away since {task_listing.clock(state.away_since)}" if state.away_since else "away"
        return (name, address, since, *([""] * len(_NUMBERS)), "")
    oldest = state.oldest_age
    return (
        name,
        address,
        "answers",
        f"{len(state.queues):,}",
        f"{state.count('ready'):,}",
        "" if oldest is None else task_listing.age(oldest),
        *(f"{state.count(each):,}" for each in ("scheduled", "running", "failed")),
        f"{state.overview.live_count:,}",
        _memory_text(*state.memory),
        "active" if state.overview.poller else "none",
    )


def _memory_text(used: int, most: int) -> str:
    if not used:
        return ""
    return f"{used / most:.0%}" if most else filesizeformat(used).replace("\xa0", " ")


def _state_data(state: ShardState) -> dict[str, Any]:
    overview, (used, most) = state.overview, state.memory
    return {
        "name": state.shard.name,
        "using": state.shard.alias,
        "address": state.address,
        "error": state.outage.text if state.outage else None,
        "away_since": state.away_since,
        "queues": {queue.name: tasks_of(queue) for queue in state.queues} if overview else None,
        **{each: state.count(each) if overview else None for each in (*PENDING, "failed")},
        "oldest_age": state.oldest_age,
        "workers": overview.live_count if overview else None,
        "poller": overview.poller if overview else None,
        "used_memory": used or None,
        "max_memory": most or None,
    }
