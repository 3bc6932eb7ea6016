"""Operations on many pending tasks of a queue: reschedule, move, cancel. Flows; each may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django_redis_components.core.protocol import Call, Flow
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue.options import RESULT_TTL_S
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store import control
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.finished import finished_bounds
from django_redis_components.taskqueue.store.scripts import CANCEL_TASKS, MOVE_TASKS, RESCHEDULE_TASKS

#: Tasks that one call takes out of their places. To find and remove one of a ready list of a million tasks takes about
#: 1.2 ms of the server.
CHUNK = 100


def reschedule_tasks(shard: Shard, queue: str, ids: Sequence[str], due: str, until_us: str = "") -> Flow[int]:
    """Change the due time of those of the tasks that are ready or scheduled. Return how many.

    Args:
        due: as `TaskOptions.due` returns it; empty: at once, which does not apply to ready tasks.
        until_us: only those that had entered the queue by then; empty: all.
    """

    def script(ids: list[str]) -> Call:
        return RESCHEDULE_TASKS(base=shard.base, queue=queue, until_us=until_us, due=due, op=new_op(), ids=ids)

    return sum((yield from _in_chunks(script, ids, CHUNK)))


def move_tasks(shard: Shard, queue: str, ids: Sequence[str], target: str, until_us: str = "") -> Flow[int]:
    """Move those of the tasks that are pending to another queue. Return how many.

    Args:
        until_us: only those that had entered the queue by then; empty: all.
    """

    def script(ids: list[str]) -> Call:
        return MOVE_TASKS(base=shard.base, queue=queue, until_us=until_us, target=target, op=new_op(), ids=ids)

    return sum((yield from _in_chunks(script, ids, CHUNK)))


def cancel_tasks(shard: Shard, queue: str, ids: Sequence[str], force_ms: int | str, until_us: str = "") -> Flow[int]:
    """Cancel those of the tasks that are pending, and ask running ones to stop. Return how many.

    Args:
        force_ms: how long a running task has to stop by itself; empty: running tasks are left alone.
        until_us: only those that had entered the queue, or had started if they run, by then; empty: all.
    """
    ttl_ms = to_ms(RESULT_TTL_S, "result_ttl")

    def script(ids: list[str]) -> Call:
        names = {"queue": queue, "until_us": until_us, "ttl_ms": ttl_ms, "force_ms": force_ms}
        return CANCEL_TASKS(base=shard.base, op=new_op(), ids=ids, **names, **finished_bounds())

    return sum((yield from _in_chunks(script, ids, control.CHUNK)))


def _in_chunks(script: Callable[[list[str]], Call], ids: Sequence[str], size: int) -> Flow[list[int]]:
    """Call a script for the tasks in chunks. Return the numbers of its replies."""
    counts: list[int] = []
    for some in control.chunks_of(ids, "task ids", size):
        counts += yield script(some)
    return counts
