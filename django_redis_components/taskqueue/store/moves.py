"""Moving tasks to another shard, in steps of which each may be repeated. Flows; each is of one shard.

`export_tasks` takes tasks out of their queue, in one step of the shard that has them. `read_moving` reads them,
`import_tasks` accepts them in the other shard, `forget_tasks` deletes them in the first one, and `return_tasks` returns
those that were refused. Any process may continue with the tasks in `moving`, after a crash or beside another: the
other shard lists those that it has accepted or refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from django_redis_components.core.chunks import chunks
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue.fields import Field, Key, Ttl
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.messages import CHUNK_BYTES
from django_redis_components.taskqueue.store.scripts import (
    COUNT_MOVABLE,
    EXPORT_TASKS,
    FORGET_TASKS,
    IMPORT_TASKS,
    RETURN_TASKS,
)
from django_redis_components.taskqueue.store.task_records import Fields, fields_of

#: Tasks that one call takes; see `pending_tasks.CHUNK`.
CHUNK = 100
#: Records that are read in one round trip: each may have a message of `MAX_BODY_BYTES`.
READ_CHUNK = 25
#: Fields that belong to the shard that a task leaves.
_LEFT_BEHIND = (Field.moving, Field.waiters)
#: Fields of tasks whose unique key or next start moves with them.
_EXACT = {Field.unique_claim, Field.rate}


@dataclasses.dataclass(frozen=True, slots=True)
class MovingTask:
    """A task that was taken out of its queue.

    Attributes:
        op: of the export.
        arguments: of import_tasks.lua after the id and their number; none if the record has expired meanwhile.
    """

    id: str
    op: str
    arguments: tuple[Any, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of what may be large."""
        return sum(len(part) for part in self.arguments if isinstance(part, bytes))


@dataclasses.dataclass(frozen=True, slots=True)
class InterruptedMove:
    """Tasks that were taken out of their queues and are not deleted yet.

    Attributes:
        oldest: id of the one that was taken first.
        target: name of the shard that it is moved to; "" if its record has expired.
        queue: of it; "" if its copy has expired.
    """

    count: int
    oldest: str
    target: str
    queue: str


@dataclasses.dataclass(slots=True)
class Movable:
    """How many tasks another shard may take, and how many must stay, by why.

    Attributes:
        flows: members of flows.
        unique, limits: tasks with a unique key or a limit, if new tasks of the queue do not go to the other shard.
        held: tasks with a limit that a running task holds.
        groups: tasks of paused groups.
        refused: tasks whose unique key another task has in the other shard.
    """

    movable: int = 0
    flows: int = 0
    unique: int = 0
    limits: int = 0
    held: int = 0
    groups: int = 0
    refused: int = 0

    def __add__(self, other: Movable) -> Movable:
        """Return the sums."""
        one, two = dataclasses.astuple(self), dataclasses.astuple(other)
        return Movable(*(a + b for a, b in zip(one, two, strict=True)))


def count_movable(
    shard: Shard, queue: str, state: str, until_us: int, ids: Sequence[str], *, is_target: bool
) -> Flow[Movable]:
    """Count which of these tasks another shard may take.

    Args:
        state: failed, or any other of a pending task.
        until_us: only those that had entered the state by then.
        is_target: whether all new tasks of the queue go to the other shard. Only then may it take those with a unique
            key or a limit: otherwise new ones with the same key would be elsewhere.
    """
    counts = yield COUNT_MOVABLE(
        base=shard.base, queue=queue, state=state, until_us=until_us, is_target=int(is_target), ids=ids
    )
    return Movable(*counts)


def export_tasks(
    shard: Shard, queue: str, state: str, until_us: int, target: Shard, ids: Sequence[str], *, is_target: bool
) -> Flow[int]:
    """Take those of the tasks out of their queue that another shard may take. Return how many.

    Args:
        state, until_us, is_target: see `count_movable`.

    Raises:
        ValueError: tasks of an interrupted move to another shard are left.
    """
    (taken,) = yield EXPORT_TASKS(
        base=shard.base,
        queue=queue,
        state=state,
        until_us=until_us,
        target=target.name,
        op=new_op(),
        is_target=int(is_target),
        ids=ids,
    )
    if taken < 0:
        yield from check_target(shard, target)
    return max(0, int(taken))


def check_target(shard: Shard, target: Shard) -> Flow[int]:
    """Return how many tasks of interrupted moves to a shard are left.

    Raises:
        ValueError: those that are left were to be moved to another one.
    """
    left = yield from read_interrupted(shard)
    name = left.target if left and left.target else target.name
    if name != target.name:
        raise ValueError(
            f"A move of tasks from shard {shard.name!r} to {name!r} was interrupted, or runs. Complete it first:"
            f" redis shards move {shard.name} {name}"
        )
    return left.count if left else 0


def read_interrupted(shard: Shard) -> Flow[InterruptedMove | None]:
    """Return what a move has left that was interrupted, or runs; None without one."""
    moving = shard.key(Key.moving)
    count, oldest = yield Batch([Read("ZCARD", moving), Read("ZRANGE", moving, 0, 0)])
    if not oldest:
        return None
    task_id = oldest[0].decode()
    note, queue = yield Batch(
        [
            Read("HGET", shard.record(task_id), Field.moving),
            Read("HGET", shard.key(Key.moving_task, task_id), Field.queue),
        ]
    )
    return InterruptedMove(int(count), task_id, (note or b"").decode().partition(" ")[0], (queue or b"").decode())


def count_moving(shard: Shard) -> Flow[int]:
    """Return how many tasks were taken out of their queues, and not moved yet."""
    return int((yield Read("ZCARD", shard.key(Key.moving))))


def read_moving(shard: Shard) -> Flow[list[MovingTask]]:
    """Return tasks that were taken out of their queues, in the order in which they were taken."""
    ids = [task_id.decode() for task_id in (yield Read("ZRANGE", shard.key(Key.moving), 0, CHUNK - 1))]
    tasks: list[MovingTask] = []
    for some in chunks(ids, READ_CHUNK):
        replies = yield Batch([read for task_id in some for read in _reads(shard, task_id)])
        rows = list(chunks(replies, 5))
        exact = yield from _read_exact(shard, some, [fields_of(pairs) for _, pairs, *_ in rows])
        for task_id, (note, *copy) in zip(some, rows, strict=True):
            if note is not None:  # else another process has finished its move
                tasks.append(_moving_task(task_id, note.decode(), exact.get(task_id, (0, 0)), *copy))
    return tasks


def _reads(shard: Shard, task_id: str) -> list[Command]:
    aside = shard.key(Key.moving_task, task_id)
    return [
        Read("HGET", shard.record(task_id), Field.moving),
        Read("HGETALL", aside),
        Read("PTTL", aside),
        Read("LRANGE", f"{aside}:errors", 0, -1),
        Read("PTTL", f"{aside}:errors"),
    ]


def _read_exact(shard: Shard, ids: Sequence[str], records: Sequence[Fields]) -> Flow[dict[str, tuple[int, int]]]:
    """Return for how long tasks have their unique key, and when the next start of their rate is, in milliseconds."""
    found: dict[str, tuple[int, int]] = {}
    keyed = [(task_id, fields) for task_id, fields in zip(ids, records, strict=True) if _EXACT & fields.keys()]
    reads: list[Command] = []
    for _, fields in keyed:
        key = shard.key(Key.unique, fields.get(Field.unique_claim, b"").decode()[1:])
        rate = fields.get(Field.rate, b"").decode().split("/", 2)[-1]
        reads += [Read("GET", key), Read("PTTL", key), Read("PTTL", shard.key(Key.rate, f"r:{rate}"))]
    replies = (yield Batch(reads)) if reads else []
    for number, (task_id, _) in enumerate(keyed):
        holder, key_ms, next_ms = replies[number * 3 : number * 3 + 3]
        has_key = holder == task_id.encode() and key_ms != -2  # else it has expired between the two reads
        found[task_id] = (key_ms if has_key else 0, max(0, next_ms))
    return found


def _moving_task(
    task_id: str,
    note: str,
    exact: tuple[int, int],
    pairs: list[bytes],
    ttl_ms: int,
    errors: list[bytes],
    errors_ttl_ms: int,
) -> MovingTask:
    _target, op, part, score = note.split(" ")
    fields = fields_of(pairs)
    if Field.queue not in fields:
        return MovingTask(task_id, op)
    kept = [each for name, value in fields.items() if name not in _LEFT_BEHIND for each in (name, value)]
    queue = fields[Field.queue]
    return MovingTask(task_id, op, (op, queue, part, score, ttl_ms, *exact, errors_ttl_ms, len(errors), *errors, *kept))


def import_tasks(
    shard: Shard, tasks: Sequence[MovingTask], read_at_ms: int
) -> Flow[tuple[int, list[MovingTask], list[MovingTask]]]:
    """Accept tasks of another shard. Return this server's time in milliseconds, those that are here, and those refused.

    Args:
        tasks: whose arguments are not larger than a part (`parts`).
        read_at_ms: time of this server, in milliseconds, before they were read. Of copies that are too old none is
            accepted.

    Raises:
        ValueError: some of these tasks are being moved from here to the other shard.
    """
    rows = [each for task in tasks for each in (task.id, len(task.arguments), *task.arguments)]
    now_ms, *statuses = yield IMPORT_TASKS(
        base=shard.base, read_at_ms=read_at_ms, failed_ttl_ms=_failed_ttl_ms(), tasks=rows
    )
    if 0 in statuses:
        raise ValueError(f"A move of tasks from shard {shard.name!r} was interrupted, or runs. Complete it first.")
    by_status = list(zip(tasks, statuses, strict=False))  # none if the copies are too old
    return (
        now_ms,
        [task for task, status in by_status if status == 1],
        [task for task, status in by_status if status == 2],
    )


def parts(tasks: Sequence[MovingTask]) -> Iterator[list[MovingTask]]:
    """Split tasks so that the server accepts each part in a short time."""
    part: list[MovingTask] = []
    for task in tasks:
        if part and sum(each.size for each in part) + task.size > CHUNK_BYTES:
            yield part
            part = []
        part.append(task)
    if part:
        yield part


def forget_tasks(shard: Shard, tasks: Sequence[MovingTask]) -> Flow[int]:
    """Delete tasks that the other shard has. Return how many this call has deleted."""
    return int((yield FORGET_TASKS(base=shard.base, tasks=[each for task in tasks for each in (task.id, task.op)])))


def return_tasks(shard: Shard, tasks: Sequence[MovingTask]) -> Flow[None]:
    """Return tasks that the other shard has refused to their queue."""
    pairs = [each for task in tasks for each in (task.id, task.op)]
    yield RETURN_TASKS(base=shard.base, failed_ttl_ms=_failed_ttl_ms(), tasks=pairs)


def settle_arrivals(shard: Shard, tasks: Sequence[MovingTask], now_ms: int, what: str = "") -> Flow[None]:
    """Shorten how long it is known where these tasks came from: their move is finished.

    Args:
        what: "/refused" of tasks that were refused.
    """
    until_ms = now_ms + Ttl.settled_ms
    scores = [each for task in tasks for each in (until_ms, f"{task.op}/{task.id}{what}")]
    yield Command("ZADD", shard.key(Key.arrived), "XX", *scores, retry=True)


def _failed_ttl_ms() -> int:
    return to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")


def read_ms(shard: Shard) -> Flow[int]:
    """Return the server's time in milliseconds."""
    seconds, micros = yield Read("TIME", key=shard.base)
    return int(seconds) * 1_000 + int(micros) // 1_000
