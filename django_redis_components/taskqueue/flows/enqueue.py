"""Sending a flow: from its plan to the calls that write it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from django_redis_components.core import conf
from django_redis_components.core import serialization as arguments
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Call, Flow, arun, run
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import enqueue as sending
from django_redis_components.taskqueue import signals
from django_redis_components.taskqueue.exceptions import TaskQueueError
from django_redis_components.taskqueue.flows.graph import Node, Plan
from django_redis_components.taskqueue.flows.parents import OOPS, PARENTS, mapped, wanted
from django_redis_components.taskqueue.flows.result import FlowResult
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.store import tasks as store
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.messages import CHUNK_BYTES, Message
from django_redis_components.taskqueue.store.scripts import ENQUEUE_FLOW

#: Tasks written in one round trip.
CHUNK = 500


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A flow that is about to be sent: its result, and the calls that send it, one after the other.

    Attributes:
        database: alias of the one whose commit it waits for, if a task says one.
    """

    result: FlowResult
    calls: list[Call]
    database: str | None

    @property
    def results(self) -> list[TaskResult]:
        """The results of all tasks, in order, with that of the one for errors."""
        return [*self.result.results, *([self.result.rescue] if self.result.rescue else [])]


def prepare(plan: Plan, on_error: Any) -> Prepared:
    """Make the results and the calls of a flow."""
    flow_id = store.new_id()
    nodes = list(plan.nodes)
    if on_error is not None:
        plan.check(on_error)
        nodes.append(Node(on_error, None, [], []))
    results: list[TaskResult] = []
    parts: list[tuple[Any, ...]] = []
    for number, node in enumerate(nodes):
        also: dict[str, Any] = {}
        if node.gets is not None:
            also[PARENTS] = mapped(node.gets, lambda parent: results[parent].id)
        elif number == len(plan.nodes) and not node.call.immutable:
            also[OOPS] = flow_id
        result, message = _message(node, also)
        result._set_flow(flow_id, number, is_waiting=bool(node.parents) or number == len(plan.nodes))
        results.append(result)
        sent = message.arguments
        parts.append((number, ",".join(map(str, node.followers)), len(node.parents), len(sent), *sent))
    links = [node.followers for node in plan.nodes]
    made = FlowResult(flow_id, plan.using, results[: len(links)], links, plan.ends)
    made.rescue = results[-1] if on_error is not None else None
    ttls = [node.call.task.options.result_ttl for node in nodes]
    return Prepared(made, _calls(made, parts, ttls), plan.database)


def _message(node: Node, also: dict[str, Any]) -> tuple[TaskResult, Message]:
    call = node.call
    try:
        made = sending.prepare(call.task, call.args, call.kwargs, body_options=also, gets_result=wanted(also))
    except (TypeError, ValueError) as exc:
        raise type(exc)(f"{call.task.name}: {exc}") from None
    return made


def _calls(made: FlowResult, parts: list[tuple[Any, ...]], ttls: list[Any]) -> list[Call]:
    ttl_ms = max(to_ms(ttl, "result_ttl") for ttl in ttls)
    chunks = list(_chunks(parts))
    return [
        ENQUEUE_FLOW(
            base=base_key(),
            flow_id=made.id,
            tasks=len(made.results),
            last=int(some is chunks[-1]),
            ttl_ms=ttl_ms,
            failed_ttl_ms=to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl"),
            on_error=len(made.results) if made.rescue else "",
            result_of=arguments.encode(made.ends),
            nodes=[part for node in some for part in node],
        )
        for some in chunks
    ]


def _chunks(parts: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """The tasks in parts of bounded number and size: the server does nothing else while it accepts one."""
    some: list[tuple[Any, ...]] = []
    size = 0
    for part in parts:
        some.append(part)
        size += sum(len(field) for field in part if isinstance(field, bytes))
        if len(some) >= CHUNK or size >= CHUNK_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def plant(prepared: Prepared) -> Flow[None]:
    """Send a flow: up to 500 tasks in a round trip, and none begins before the last part has arrived."""
    made, results = prepared.result, prepared.results
    for number, call in enumerate(prepared.calls):
        accepted_us = yield call
        if not accepted_us:
            raise TaskQueueError(f"Flow {made.id} was not accepted: more than an hour passed while it was sent.")
        for result in results[number * CHUNK : (number + 1) * CHUNK]:
            result._set_accepted(accepted_us, TaskOptions() if result.state == "waiting" else result.task.options)


def send(prepared: Prepared) -> None:
    """Send a flow, and tell receivers of its tasks."""
    run(connections.client(prepared.result.using), plant(prepared))
    for result in prepared.results:
        signals.send(signals.task_enqueued, result)
    sending.run_test_hook()


async def asend(prepared: Prepared) -> None:
    """See `send`."""
    await arun(connections.aclient(prepared.result.using), plant(prepared))
    for result in prepared.results:
        await signals.asend(signals.task_enqueued, result)
    await sending.arun_test_hook()
