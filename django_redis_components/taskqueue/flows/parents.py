"""The results of parent tasks: the first argument of a task in a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Union

from django_redis_components.core import serialization
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.taskqueue.exceptions import ParentsLost
from django_redis_components.taskqueue.fields import Field, FlowField
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.shards import Shard, home

#: Key in the metadata of a task: ids of its parents, in the shape of the argument.
PARENTS = "parents"
#: Key in the metadata of an `on_error` task: the flow whose first error is its argument.
FIRST_ERROR = "first_error"

A = TypeVar("A")
B = TypeVar("B")
#: A value or a list of shapes: of a group, of a group of groups.
Shape = Union[A, list["Shape[A]"]]  # noqa: UP007 - mypy knows recursive aliases in this form only


def flatten(shape: Shape[A]) -> list[A]:
    """Return the values, in order."""
    return [one for each in shape for one in flatten(each)] if isinstance(shape, list) else [shape]


def map_shape(shape: Shape[A], change: Callable[[A], B]) -> Shape[B]:
    """Apply a function to every value, keeping the shape."""
    return [map_shape(each, change) for each in shape] if isinstance(shape, list) else change(shape)


def has_inputs(metadata: dict[str, Any]) -> bool:
    """Return whether a task has a first argument from other tasks."""
    return PARENTS in metadata or FIRST_ERROR in metadata


def read_inputs(using: str, metadata: dict[str, Any]) -> Any:
    """Return the first argument of a task.

    Raises:
        ParentsLost: it is no longer in Redis.
        redis.exceptions.RedisError: Redis did not answer.
    """
    shard = home(using)
    flow = _values(shard, metadata[PARENTS]) if PARENTS in metadata else _failure(shard, metadata[FIRST_ERROR])
    return shard.run(flow)


def _values(shard: Shard, parents: Shape[str]) -> Flow[Any]:
    ids = flatten(parents)
    replies = yield Batch([Read("HGET", shard.record(task_id), Field.return_value) for task_id in ids])
    values = dict(zip(ids, replies, strict=True))
    for task_id, value in values.items():
        if value is None:
            raise ParentsLost(
                f"The result of parent task {task_id} is no longer in Redis."
                " It is kept until the flow has finished: it was evicted or deleted."
            )
    return map_shape(parents, lambda task_id: unpack(values[task_id]))


def _failure(shard: Shard, flow_id: str) -> Flow[dict[str, Any]]:
    """Return which task failed first, and how."""
    first_error = yield Read("HGET", shard.flow(flow_id), FlowField.first_error)
    if first_error is None:
        raise ParentsLost(f"The first error of flow {flow_id} is no longer in Redis: it was evicted or deleted.")
    task_id, name, reason = first_error.decode().split(" ", 2)
    errors = yield Read("LRANGE", f"{shard.record(task_id)}:errors", -1, -1)
    error = serialization.decode(errors[0]) if errors else None
    return {"task_id": task_id, "task_name": name, "reason": reason, "error": error}
