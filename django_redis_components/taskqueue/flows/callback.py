"""Callbacks that are flows: the call that writes such a flow is the argument of a task, `taskqueue.start_flow`.

That task is the callback: the end of the other flow starts it like any callback. A repeated run, of a worker that died
or lost its lease, repeats the call, and the script accepts it once: the flow whose callback it is has a field that says
so, and is kept until the task has finished.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.protocol import Call, Flow
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import ParentsLost
from django_redis_components.taskqueue.fields import FlowField
from django_redis_components.taskqueue.flows.enqueue import MAX_STARTED, Messages, prepare_callback, start_tasks
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.outbox import plain_arguments, results_of_flow
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.scripts import ENQUEUE_FLOW

#: Name of the task.
START_FLOW = "django_redis_components.start_flow"
#: Places in the arguments of the call: the id of the flow, the number of its tasks, its first task.
FLOW_ID = ENQUEUE_FLOW.args.index("flow_id")
_TASKS, _FIRST = ENQUEUE_FLOW.args.index("tasks"), ENQUEUE_FLOW.args.index("nodes*")
#: Script arguments of a task before those of its call: number, followers, open parents, and the number of the others.
_AHEAD = 4


def callback_of(graph: FlowGraph) -> tuple[Any, Messages]:
    """Return the call of the task that starts a flow, and the tasks of that flow.

    Raises:
        InvalidTask: the flow has too many tasks.
    """
    messages, call = prepare_callback(graph)
    queue = graph.nodes[0].call.task.options.queue_name
    task = dataclasses.replace(registry.internal[START_FLOW], connection=graph.using).using(queue_name=queue)
    return task.s(plain_arguments(call.args)), messages


def start(shard: Shard, outer: str, given: Any, call: Sequence[Any]) -> Flow[list[TaskResult]]:
    """Enqueue a flow that is a callback; return the results of its tasks.

    Args:
        outer: id of the flow whose callback it is.
        given: what its first tasks receive.
        call: the arguments of the script.

    Raises:
        ParentsLost: the other flow was evicted or deleted.
    """
    arguments = with_values(call, serialization.encode(given).decode(), outer)
    accepted_us = yield Call(ENQUEUE_FLOW, (shard.base,), arguments)
    if not accepted_us:
        raise ParentsLost(f"Flow {outer} is no longer in Redis: it was evicted or deleted.")
    if call[_TASKS] > MAX_STARTED:
        yield from start_tasks(shard, call[FLOW_ID])
    return list(results_of_flow(shard, call, accepted_us))


def with_values(call: Sequence[Any], given: str, outer: str) -> tuple[Any, ...]:
    """Return the arguments with the values of `given` and `callback_of`, which end those of the first task."""
    end = _FIRST + _AHEAD + call[_FIRST + _AHEAD - 1]
    return (*call[: end - 4], FlowField.given, given, FlowField.callback_of, outer, *call[end:])
