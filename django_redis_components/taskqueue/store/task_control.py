"""Operations on one task: cancel and reschedule. Flows; each may be repeated."""

from __future__ import annotations

from django_redis_components.core.protocol import Call, Flow
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.taskqueue.exceptions import NotScheduled, TaskResultDoesNotExist
from django_redis_components.taskqueue.options import RESULT_TTL_S
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.finished import finished_bounds
from django_redis_components.taskqueue.store.scripts import CANCEL, RESCHEDULE


def cancel(shard: Shard, task_id: str, force_after: Seconds | None = None) -> Flow[bool]:
    """Cancel a pending task, or ask a running one to stop. Return False if it has finished."""
    return (yield from try_cancel(shard, task_id, force_after)) > 0


def try_cancel(shard: Shard, task_id: str, force_after: Seconds | None = None) -> Flow[int]:
    """Do `cancel`. Return 1 if the task was pending, 2 if it runs and was asked to stop, 0 if it has finished."""
    done = yield cancel_call(shard, task_id, force_ms(force_after))
    if done == -1:
        raise TaskResultDoesNotExist(task_id)
    return int(done)


def cancel_call(shard: Shard, task_id: str, force_ms: int | str) -> Call:
    """Return the call that cancels a task; `force_ms` empty: only a pending one."""
    ttl_ms = to_ms(RESULT_TTL_S, "result_ttl")
    return CANCEL(base=shard.base, id=encodable(task_id), ttl_ms=ttl_ms, force_ms=force_ms, **finished_bounds())


def force_ms(force_after: Seconds | None) -> int:
    """Return how long a running task has to stop by itself; None: the setting CANCEL_GRACE."""
    grace = conf.settings().taskqueue.cancel_grace_s if force_after is None else force_after
    return to_ms(grace, "force_after", zero=True)


def reschedule(shard: Shard, task_id: str, due: str) -> Flow[None]:
    """Change the due time of a scheduled task to a value of `TaskOptions.due`; empty: now."""
    (moved,) = yield RESCHEDULE(base=shard.base, id=encodable(task_id), due=due, op=new_op())
    if moved == -1:
        raise TaskResultDoesNotExist(task_id)
    if moved == 0:
        raise NotScheduled(f"Task {task_id} is not scheduled: it is ready, running, finished or purged.")
