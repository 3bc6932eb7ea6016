"""The state of schedules in other shards, where they were under an earlier route of their queue.

A schedule whose shard is another one now continues after the last due time that was sent there: none is sent again, and
none is omitted. What was sent of a limited number counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Batch, Command, Flow, Read, run
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import describe_error
from django_redis_components.taskqueue.schedules.schedule import Schedule
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import Shard, shards_of

#: The fields of a schedule's state that are copied, as register_schedules.lua writes them.
_FIELDS = ("last", "times", "enabled", "next", "info")
#: The state, and the number of tasks sent.
State = tuple[list[bytes | None], bytes | None]


def copy_states(shard: Shard, schedules: Sequence[Schedule]) -> bool:
    """Copy the states of schedules that another shard has sent last. For the active poller of the shard.

    Returns:
        False if a shard does not answer: what it has sent is not known.
    """
    others = [other for other in shards_of(shard.using) if other != shard]
    if not others or not schedules:
        return True
    own = run(prompt_client(shard), _read(shard, schedules))
    is_complete = True
    for other in others:
        try:
            found = run(prompt_client(other), _read(other, schedules))
        except (RedisError, RedisComponentsError) as exc:
            logger.warning("Shard %s: %s; schedules do not continue from there.", other.name, describe_error(exc))
            is_complete = False
            continue
        writes = list(_newer(shard, schedules, own, found))
        if writes:
            run(prompt_client(shard), _write(writes))
    return is_complete


def _read(shard: Shard, schedules: Sequence[Schedule]) -> Flow[list[State]]:
    states = yield Batch([Read("HMGET", shard.key(Key.schedule, each.name), *_FIELDS) for each in schedules])
    counts = yield Read("HMGET", shard.key(Key.schedule_counts), *(each.name for each in schedules))
    return list(zip(states, counts, strict=True))


def _newer(shard: Shard, schedules: Sequence[Schedule], own: list[State], found: Sequence[State]) -> Iterator[Command]:
    """Yield what copies the states that are newer than the own ones. `own` has them afterwards."""
    for number, (schedule, (state, count)) in enumerate(zip(schedules, found, strict=True)):
        last, times = state[:2]
        known = own[number][0][0]
        if last is None or times != schedule.recurrence.text.encode() or int(last) <= int(known or 0):
            continue
        own[number] = state, count
        pairs: list[Any] = [part for pair in zip(_FIELDS, state, strict=True) if pair[1] is not None for part in pair]
        yield Command("HSET", shard.key(Key.schedule, schedule.name), *pairs, retry=True)
        if count is not None:
            yield Command("HSET", shard.key(Key.schedule_counts), schedule.name, count, retry=True)


def _write(writes: Sequence[Command]) -> Flow[None]:
    yield Batch(writes)
