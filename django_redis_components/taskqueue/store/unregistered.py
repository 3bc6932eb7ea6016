"""Unregistered tasks: their names are not registered in the worker that fetched them."""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.core.protocol import Flow
from django_redis_components.core.text import counted
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.control import CHUNK, chunks_of, new_op
from django_redis_components.taskqueue.store.scripts import RENAME_TASKS, REQUEUE_UNREGISTERED


def rename_tasks(shard: Shard, queue: str, ids: Sequence[str], name: str, up_to_ms: str) -> Flow[int]:
    """Requeue those of the tasks that are unregistered under the name of a registered task. Return how many.

    Args:
        up_to_ms: only those that had become unregistered by then.
    """
    done = 0
    for some in chunks_of(ids, "task ids", CHUNK):
        (count,) = yield RENAME_TASKS(base=shard.base, queue=queue, up_to_ms=up_to_ms, name=name, op=new_op(), ids=some)
        done += count
    return done


def requeue_unregistered(shard: Shard, queues: Sequence[str]) -> None:
    """Requeue the unregistered tasks of these queues whose names are registered now."""
    names = registry.names_and_aliases()
    for queue in queues:
        seen, skip, total, up_to_ms = 1, 0, 0, b""
        while seen:
            call = REQUEUE_UNREGISTERED(base=shard.base, queue=queue, skip=skip, up_to_ms=up_to_ms, names=names)
            seen, stayed, requeued, up_to_ms = shard.client().execute(call)
            skip, total = skip + stayed, total + requeued
        if total:
            logger.info("Requeued %s of queue %s whose names are registered now.", counted(total, "task"), queue)
