"""The task that starts a flow which is a callback: see `flows.callback`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.context import TaskContext
from django_redis_components.taskqueue.flows import callback
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.task import Task

#: Runs of it that may fail, as when Redis does not answer.
MAX_ATTEMPTS = 10
#: Key of the alias of its connection among the options that travel with its arguments.
_CONNECTION = "connection"


class StartFlowTask(Task[..., Any, Any]):
    """The task: workers of any connection run it, so its connection travels with it."""

    __slots__ = ()

    @property
    def _body_options(self) -> Mapping[str, Any]:
        return {_CONNECTION: self.connection}

    def _connection_of(self, options: Mapping[str, Any]) -> str:
        return str(options[_CONNECTION])


def start_flow(context: TaskContext, given: Any, call: list[Any]) -> str:
    """Enqueue a flow that is a callback; return its id.

    Args:
        given: what a callback receives.
        call: the arguments of the script.

    Raises:
        ParentsLost: the flow whose callback it is was evicted or deleted.
    """
    shard, outer = context.task_result._shard, context.flow.id or ""
    pipeline.notify_enqueued(shard.run(callback.start(shard, outer, given, call)))
    return str(call[callback.FLOW_ID])


registry.internal[callback.START_FLOW] = StartFlowTask(
    func=start_flow,
    name=callback.START_FLOW,
    declared_options=TaskOptions(max_attempts=MAX_ATTEMPTS),
    declared=frozenset(["max_attempts"]),
    takes_context=True,
)
