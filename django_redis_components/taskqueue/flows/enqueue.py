"""Enqueueing a flow: from its graph to the calls that write it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from django.db import transaction
from redis.exceptions import RedisError

from django_redis_components.core import serialization
from django_redis_components.core.chunks import chunks
from django_redis_components.core.protocol import Call, Flow
from django_redis_components.core.settings import conf
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import outbox
from django_redis_components.taskqueue.enqueue import prepare, store_in_outbox
from django_redis_components.taskqueue.exceptions import InvalidTask, TaskQueueError
from django_redis_components.taskqueue.fields import Field, FlowField
from django_redis_components.taskqueue.flows.graph import PARTS_GONE, FlowGraph, FlowNode
from django_redis_components.taskqueue.flows.parents import (
    BY_REFERENCE,
    FIRST_ERROR,
    FLOW,
    GIVEN,
    PARENTS,
    SUMMARY,
    Shape,
    has_inputs,
    stored_parents,
)
from django_redis_components.taskqueue.flows.result import FlowResult
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.on_commit import call_on_commit
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.replication import Replication, send_replicated
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.routing import OnShard, Steps, arun_steps, next_answering, run_steps, try_each
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.messages import CHUNK_BYTES, TaskMessage
from django_redis_components.taskqueue.store.scripts import CONTINUE_FLOW, ENQUEUE_FLOW

#: Maximum tasks written in one round trip, and those of a flow that is a callback: it is written in one.
CHUNK, MAX_CALLBACK = 250, 400
#: Tasks above which the last part may not have started all, see lua/shared/flow_work.lua.
MAX_STARTED = 250
#: Followers of a task that one script starts or fails: of more, a task has them in chunks of as many.
FOLLOWERS = 100
#: Results of tasks, and the messages that enqueue them.
Messages = list[tuple[TaskResult, TaskMessage]]
#: Maximum tasks of a flow in the outbox, where it is one row.
MAX_STORED = 5_000


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedFlow:
    """A flow to enqueue: its result, and the calls that write it, in order.

    Attributes:
        database: alias of the database whose commit is awaited, if a task sets it.
        uses_outbox: whether it must be stored in the outbox.
        route: the shards of which any may have it, if there are several; empty if only its own may.
        replications: of its tasks, if it is waited for replicas.
    """

    result: FlowResult
    calls: list[Call]
    database: str | None
    uses_outbox: bool
    route: tuple[Shard, ...] = ()
    replications: Sequence[Replication] = ()

    @property
    def results(self) -> list[TaskResult]:
        """The results of all tasks, in order, the callbacks last."""
        return [*self.result.results, *self.result._callbacks]


class _PreparedTasks(NamedTuple):
    """The tasks of a flow as they are sent.

    Attributes:
        results: by number.
        parts: what the script takes for each.
        ttl_ms: how long their results are kept.
    """

    results: dict[int, TaskResult]
    messages: Messages
    parts: list[tuple[Any, ...]]
    ttl_ms: int


class Callbacks(NamedTuple):
    """The callbacks of a flow, in the order of their numbers behind those of its tasks; see `Sendable.enqueue`."""

    on_error: Any = None
    on_complete: Any = None
    on_success: Any = None


def prepare_flow(
    graph: FlowGraph, callbacks: Callbacks, *, on_commit: bool = False, later: Messages | None = None
) -> PreparedFlow:
    """Create the results and the calls of a flow.

    Args:
        on_commit: whether it is enqueued on commit.
        later: the tasks of callbacks that are flows: they need the same shard.
    """
    uses_outbox = on_commit and graph.uses_outbox
    if uses_outbox and len(graph.nodes) > MAX_STORED:
        raise InvalidTask(
            f"The flow has {len(graph.nodes):,} tasks: in the outbox it may have {MAX_STORED:,}."
            " Enqueue a task on commit that enqueues the flow, or use task.using(outbox=False)."
        )
    flow_id = task_records.new_id()
    tasks = _prepare_tasks(graph, callbacks, flow_id)
    results = tasks.results
    shard, route = _shard_of([*tasks.messages, *(later or [])], is_fixed=uses_outbox)
    _set_shard(results.values(), shard)
    links = [node.followers for node in graph.nodes]
    flow = FlowResult(flow_id, shard, list(results.values())[: len(links)], links, graph.ends)
    flow._set_callbacks(results)
    calls = _calls(shard, flow, tasks, flow_id if uses_outbox else "")
    messages = [] if uses_outbox else [*tasks.messages, *(later or [])]
    replications = [each.replication for _, each in messages if each.replication]
    return PreparedFlow(flow, calls, graph.database, uses_outbox, route, replications)


def prepare_callback(graph: FlowGraph) -> tuple[Messages, Call]:
    """Return the tasks of a flow that is a callback, and the call that writes it: it has one part.

    The fields `given` and `callback_of` come last of the arguments of its first task, without their values.

    Raises:
        InvalidTask: it needs several parts.
    """
    flow_id = task_records.new_id()
    tasks = _prepare_tasks(graph, Callbacks(), flow_id, is_callback=True)
    flow = FlowResult(flow_id, tasks.results[0]._shard, list(tasks.results.values()), [], graph.ends)
    calls = _calls(flow._shard, flow, tasks, "", chunk=MAX_CALLBACK)
    if len(calls) > 1:
        raise InvalidTask(
            f"A callback has {len(flow.results):,} tasks of {sum(map(_size_of, tasks.parts)):,} bytes: a callback may"
            f" have {MAX_CALLBACK} tasks of about {CHUNK_BYTES:,} bytes. Let a task be the callback that enqueues it."
        )
    return tasks.messages, calls[0]


def _prepare_tasks(
    graph: FlowGraph, callbacks: Callbacks, flow_id: str, *, is_callback: bool = False
) -> _PreparedTasks:
    """Return the tasks of a flow as they are sent."""
    count = len(graph.nodes)
    numbered = list(enumerate(graph.nodes))
    for number, call in enumerate(callbacks, count):
        if call is not None:
            graph.check(call)
            numbered.append((number, FlowNode(call, None, [], [])))
    results: dict[int, TaskResult] = {}
    prepared: Messages = []
    parts: list[tuple[Any, ...]] = []
    for number, node in numbered:
        metadata: dict[str, Any] = {}
        if node.inputs is not None:
            inputs = stored_parents(node.inputs, lambda parent: results[parent].id)
            metadata = inputs_of(graph, node, inputs, f"{flow_id}/{number}")
        elif number >= count and not node.call.immutable:
            metadata[FIRST_ERROR if number == count else SUMMARY] = flow_id
        elif is_callback and not node.parents and not node.call.immutable:
            metadata[GIVEN] = flow_id
        result, message = message_of(node.call, metadata)
        prepared.append((result, message))
        result._set_flow(flow_id, number, is_waiting=bool(node.parents) or number >= count)
        results[number] = result
        sent = message.arguments
        if number == 0 and graph.tree:  # not a separate argument: rows of the outbox have the format of the call
            sent += (FlowField.tree, graph.tree)
        if number == 0 and is_callback:
            sent += (FlowField.given, "", FlowField.callback_of, "")
        parts.append((number, in_chunks(node.followers), len(node.parents), len(sent), *sent))
    ttls = [node.call.task.options.result_ttl for _, node in numbered]
    return _PreparedTasks(results, prepared, parts, max(to_ms(ttl, "result_ttl") for ttl in ttls))


def inputs_of(graph: FlowGraph, node: FlowNode, inputs: Shape[str], flow_ref: str) -> dict[str, Any]:
    """Return the metadata of a task whose first argument is the results of other tasks."""
    metadata: dict[str, Any] = {PARENTS: inputs}
    if node.call.reference_above is not None:
        metadata[BY_REFERENCE] = node.call.reference_above
    may_fail = any(graph.nodes[parent].call.failure_action != "cancel" for parent in node.parents)
    if may_fail or isinstance(inputs, list):
        metadata[FLOW] = flow_ref
    return metadata


def _shard_of(tasks: Sequence[tuple[TaskResult, TaskMessage]], *, is_fixed: bool) -> tuple[Shard, tuple[Shard, ...]]:
    """Return the shard of a flow, and those of which any may have it instead.

    All its tasks are there, also those of queues whose other tasks are elsewhere. It is the shard of the tasks with a
    limit. If there are none, it is that of the first task, or any of its queue.

    Args:
        is_fixed: whether no other may have it: the row in the outbox names the shard, which alone has its token.

    Raises:
        InvalidTask: two tasks have limits in different shards.
    """
    limited = [result for result, _ in tasks if has_limit(result)]
    for result in limited[1:]:
        if result._shard != limited[0]._shard:
            raise InvalidTask(
                f"{limited[0].name} and {result.name} have limits whose keys are in different shards"
                f" ({limited[0]._shard.name}, {result._shard.name}): the tasks of a flow share one. Let one enqueue the"
                " other, or put their queues in one shard."
            )
    if limited:
        return limited[0]._shard, ()
    result, message = tasks[0]
    if is_fixed and message.route:
        return next_answering(message.route), ()
    return result._shard, message.route


def _set_shard(results: Iterable[TaskResult], shard: Shard) -> None:
    for result in results:
        result._shard = shard


def has_limit(result: TaskResult) -> bool:
    """Return whether a task must be in the shard of its placement key."""
    options = result.task.options
    return options.concurrency is not None or options.rate is not None


def in_chunks(followers: Sequence[int]) -> str:
    """Return the followers of a task as the scripts take them: with commas, in chunks with semicolons between."""
    return ";".join(",".join(map(str, chunk)) for chunk in chunks(followers, FOLLOWERS))


def message_of(call: Any, metadata: dict[str, Any], task_id: str = "") -> tuple[TaskResult, TaskMessage]:
    """Return the result of a call in a flow, and the message that enqueues it.

    Args:
        metadata: sent to the worker beside the arguments.
        task_id: empty for a new one.
    """
    gets_result = has_inputs(metadata)
    try:
        prepared = prepare(
            call.task, call.args, call.kwargs, task_id=task_id, body_options=metadata, gets_result=gets_result
        )
    except (TypeError, ValueError) as exc:
        if type(exc) not in (TypeError, ValueError):
            raise  # a subclass may need other arguments
        name, text = call.task.name, str(exc)
        raise type(exc)(text if f" {name} " in f" {text}" else f"{name}: {text}") from None
    if call.failure_action != "cancel":
        prepared[1].extra += (Field.on_failure, call.failure_action)
    if not call.failure_counts:
        prepared[1].extra += (Field.failure_uncounted, 1)
    return prepared


def _calls(shard: Shard, flow: FlowResult, tasks: _PreparedTasks, row: str, chunk: int = CHUNK) -> list[Call]:
    parts = list(chunked(tasks.parts, chunk))
    return [
        ENQUEUE_FLOW(
            base=shard.base,
            flow_id=flow.id,
            tasks=len(flow.results),
            last=int(some is parts[-1]),
            ttl_ms=tasks.ttl_ms,
            failed_ttl_ms=to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl"),
            on_error=len(flow.results) if flow.on_error_result else "",
            result_of=serialization.encode(flow.ends) if some is parts[-1] else "",
            row=row,
            nodes=[part for node in some for part in node],
        )
        for some in parts
    ]


def _size_of(part: tuple[Any, ...]) -> int:
    return sum(len(field) for field in part if isinstance(field, bytes))


def chunked(parts: list[tuple[Any, ...]], most: int) -> Iterator[list[tuple[Any, ...]]]:
    """Split the tasks into chunks of bounded number and size: the server is blocked while it accepts a chunk."""
    chunk, size = list[tuple[Any, ...]](), 0
    for part in parts:
        chunk.append(part)
        size += _size_of(part)
        if len(chunk) >= most or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def enqueue_flow(prepared: PreparedFlow, first: int = 0) -> Flow[bool]:
    """Write a flow, up to 250 tasks in a round trip. No task starts before the last chunk is written.

    Args:
        first: number of the first chunk that is not written yet.

    Returns:
        Whether this has written it; False if the relay of the outbox has.
    """
    is_own = True
    for number in range(first, len(prepared.calls)):
        is_own = yield from _write_chunk(prepared, number)
    if len(prepared.results) > MAX_STARTED:
        yield from start_tasks(prepared.result._shard, prepared.result.id)
    return is_own


def _write_chunk(prepared: PreparedFlow, number: int) -> Flow[bool]:
    """Write a chunk of a flow; see `enqueue_flow`."""
    flow, call = prepared.result, prepared.calls[number]
    if prepared.replications and call is prepared.calls[-1]:  # replicas that have this part have the others
        [accepted_us] = yield from send_replicated(flow._shard, [call], prepared.replications)
    else:
        accepted_us = yield call
    if not accepted_us:
        raise TaskQueueError(f"Flow {flow.id} was not accepted: Redis no longer has its first parts. {PARTS_GONE}")
    for result in prepared.results[number * CHUNK : (number + 1) * CHUNK]:
        result._set_accepted(abs(accepted_us), TaskOptions() if result.state == "waiting" else result.task.options)
    return bool(accepted_us > 0)


def start_tasks(shard: Shard, flow_id: str) -> Flow[None]:
    """Start the tasks of a flow that was accepted. The poller does what this process does not get done."""
    is_left = 1
    while is_left:
        try:
            is_left = yield CONTINUE_FLOW(base=shard.base, flow_id=flow_id)
        except RedisError:
            return


def _send(prepared: PreparedFlow) -> Steps[None]:
    """Enqueue a flow in one of the shards that may have it: the one that has accepted the first chunk.

    The others cannot have it after that, even if nothing of a later chunk was executed: two shards would have tasks of
    the same ids.
    """
    flow = prepared.result

    def moved(shard: Shard) -> Flow[bool]:
        flow._shard = shard
        _set_shard(prepared.results, shard)
        for call in prepared.calls:
            call.keys = (shard.base,)
        return _write_chunk(prepared, 0)

    attempt = yield from try_each(prepared.route, moved)
    if attempt.error is not None:
        raise attempt.error
    yield OnShard(attempt.shard, enqueue_flow(prepared, first=1))


def send(prepared: PreparedFlow) -> None:
    """Enqueue a flow and send the signals of its tasks."""
    if prepared.route:
        run_steps(_send(prepared))
    else:
        prepared.result._shard.run(enqueue_flow(prepared))
    pipeline.notify_enqueued(prepared.results)


def send_on_commit(prepared: PreparedFlow) -> bool:
    """Enqueue a flow when the surrounding transaction commits; see `taskqueue.enqueue.send_on_commit`."""
    if not prepared.uses_outbox:
        return call_on_commit(partial(send, prepared), prepared.database)
    flow = prepared.result
    rows = [outbox.row_of_flow(flow._shard, flow.id, prepared.calls)]
    alias = store_in_outbox(rows, flow._shard.using, prepared.database)
    if alias is not None:
        transaction.on_commit(partial(_send_stored, prepared, time.monotonic()), using=alias)
    return True


def _send_stored(prepared: PreparedFlow, stored_at: float) -> None:
    if outbox.try_to_send(enqueue_flow(prepared), prepared.result._shard, stored_at):  # else the relay has, or will
        pipeline.notify_enqueued(prepared.results)


async def asend(prepared: PreparedFlow) -> None:
    """See `send`."""
    if prepared.route:
        await arun_steps(_send(prepared))
    else:
        await prepared.result._shard.arun(enqueue_flow(prepared))
    await pipeline.anotify_enqueued(prepared.results)
