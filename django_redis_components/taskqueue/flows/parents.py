"""What the tasks before it have returned: the first argument of a task in a flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Union

from django_redis_components.core import serialization as arguments
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Flow, Read, run
from django_redis_components.taskqueue.exceptions import ParentsLost
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.store.fields import flow_key, record_key

#: Key in what travels beside the arguments: ids of the tasks whose results are wanted, in the shape that is wanted.
PARENTS = "parents"
#: Key in its place for an `on_error` task: the flow, of which it wants to know what went wrong.
OOPS = "oops"

A = TypeVar("A")
B = TypeVar("B")
#: One thing, or a list of such: of a group, of a group of groups.
Shape = Union[A, list["Shape[A]"]]  # noqa: UP007 - mypy knows recursive aliases in this form only


def flat(shape: Shape[A]) -> list[A]:
    """What is in it, in order."""
    return [one for each in shape for one in flat(each)] if isinstance(shape, list) else [shape]


def mapped(shape: Shape[A], change: Callable[[A], B]) -> Shape[B]:
    """The same shape of other things."""
    return [mapped(each, change) for each in shape] if isinstance(shape, list) else change(shape)


def wanted(travelled: dict[str, Any]) -> bool:
    """Whether something goes before the arguments of a task."""
    return PARENTS in travelled or OOPS in travelled


def read(using: str, travelled: dict[str, Any]) -> Any:
    """What goes before the arguments of a task.

    Raises:
        ParentsLost: it is not there any more.
        redis.exceptions.RedisError: Redis did not answer.
    """
    flow = _values(travelled[PARENTS]) if PARENTS in travelled else _failure(travelled[OOPS])
    return run(connections.client(using), flow)


def _values(parents: Shape[str]) -> Flow[Any]:
    ids = flat(parents)
    replies = yield Batch([Read("HGET", record_key(task_id), "r") for task_id in ids])
    values = dict(zip(ids, replies, strict=True))
    for task_id, value in values.items():
        if value is None:
            raise ParentsLost(
                f"What task {task_id} returned is not in Redis any more, and this one waited for it."
                " It is kept until the flow has finished: was it evicted, or deleted by hand?"
            )
    return mapped(parents, lambda task_id: unpack(values[task_id]))


def _failure(flow_id: str) -> Flow[dict[str, Any]]:
    """Which task went wrong, and how."""
    oops = yield Read("HGET", flow_key(flow_id), "oops")
    if oops is None:
        raise ParentsLost(f"What went wrong in flow {flow_id} is not in Redis any more. Was it evicted?")
    task_id, name, how = oops.decode().split(" ", 2)
    errors = yield Read("LRANGE", f"{record_key(task_id)}:errors", -1, -1)
    error = arguments.decode(errors[0]) if errors else None
    return {"task_id": task_id, "task_name": name, "reason": how, "error": error}
