"""What a running task does with its flow: it adds tasks, chains and groups to its group."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from django_redis_components.core import serialization
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.taskqueue.exceptions import GroupNotOpen, InvalidTask, LeaseLost, TaskQueueError
from django_redis_components.taskqueue.fields import Field, FlowField
from django_redis_components.taskqueue.flows.enqueue import (
    chunked,
    has_limit,
    in_chunks,
    inputs_of,
    message_of,
    start_tasks,
)
from django_redis_components.taskqueue.flows.graph import MAX_TASKS, PARTS_GONE, FlowGraph
from django_redis_components.taskqueue.flows.parents import (
    ADDED,
    IN_CHUNKS,
    PARENTS,
    flatten,
    map_shape,
    parse_followers,
)
from django_redis_components.taskqueue.flows.signature import Signature, Step
from django_redis_components.taskqueue.json_codec import pack, unpack
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.messages import CHUNK, CHUNK_BYTES, TaskMessage
from django_redis_components.taskqueue.store.scripts import ADD_TO_FLOW, STAGE_ADDED
from django_redis_components.taskqueue.store.task_records import ID_BYTES

_REASONS = {
    -2: "its flow was evicted or deleted, or the task is a callback.",
    -3: "a task after the group has started or was cancelled, or the task itself was cancelled.",
    -4: f"the flow would have more than {MAX_TASKS:,} tasks.",
    -5: "it had failed before, and the tasks after it, more than 100, do not wait for it any more.",
}


#: Tasks that one call of the script adds, with their records of up to about 1 MB. More are stored first, and added by
#: a call that has only their ids: see lua/flows/stage_added.lua.
MAX_ADDED = 150
#: Tasks that are stored in one round trip, of up to about 1 MB.
MAX_STAGED = 250
#: Arguments of a task by which it is added when it was stored before.
_STAGED = 6


class AddedNode(NamedTuple):
    """A task of a step that is added.

    Attributes:
        place: in the step.
        followers: places of the tasks that depend on it; None: those that depend on the member.
        parents: how many tasks of the step it waits for.
        appended: see lua/flows/add_to_flow.lua.
    """

    result: TaskResult
    message: TaskMessage
    place: int
    followers: list[int] | None
    parents: int
    appended: str


class MemberFlow:
    """The flow of a running task, `TaskContext.flow`.

    Attributes:
        id: the flow's id; None if the task is not part of a flow.
    """

    def __init__(
        self, shard: Shard, task_id: str, token: str, read_ref: Callable[[], Flow[str]], place: Callable[[], str]
    ) -> None:
        """
        Args:
            read_ref: returns "flow/number" of the task; "" without a flow.
            place: returns the current item of a loop that later runs continue; "" outside of one.
        """
        self._shard = shard
        self._task_id = task_id
        self._token = token
        self._read_ref = read_ref
        self._place = place
        #: How often the run has added equal calls outside of loops, and how often for the current item of a loop.
        self._calls: Counter[str] = Counter()
        self._calls_of_item: tuple[str, Counter[str]] = "", Counter()

    def __repr__(self) -> str:
        return f"<MemberFlow of task {self._task_id!r}>"

    @property
    def id(self) -> str | None:
        """The flow's id; None if the task is not part of a flow."""
        return self._shard.run(self._read_ref()).rpartition("/")[0] or None

    def add(self, *steps: Step) -> list[TaskResult]:
        """Add steps to the group of the running task: tasks, chains and groups.

        They start at once, and all steps after this task wait for them, too. Where the next step receives the list of
        the group's results, theirs are at the end of it, each in its shape. A step that an earlier run of this task has
        added is not added again: steps with the same tasks and arguments are the same, and of equal ones in one run,
        or for one item of `iterate`, each counts.

        Args:
            steps: `task.s(…)`, `task.si(…)`, `chain(…)` and `group(…)`; their first tasks receive no result. Up to 500
                tasks are added at once, those of a step always.

        Returns the results of the tasks, in order, those of each chain and group included.

        Raises:
            GroupNotOpen: the task is in no group of a flow, or the group is complete.
            LeaseLost: the run has lost its lease; the task may be running on another worker.
            InvalidTask: a step is none or has more than 500 tasks; a task is unique or has another connection, or its
                limit is in another shard.
            TypeError, ValueError: the arguments of a call are not accepted.
            redis.exceptions.RedisError: Redis did not answer.
        """
        results = self._shard.run(self._add(steps))
        pipeline.notify_enqueued(results)
        return results

    async def aadd(self, *steps: Step) -> list[TaskResult]:
        """See `add`."""
        results = await self._shard.arun(self._add(steps))
        await pipeline.anotify_enqueued(results)
        return results

    def _add(self, steps: Sequence[Step]) -> Flow[list[TaskResult]]:
        if not steps:
            return []
        graphs = self._graphs_of(steps)
        flow_id, _, number = (yield from self._read_ref()).rpartition("/")
        if not flow_id:
            raise GroupNotOpen(self._task_id, "it is not part of a flow. Use enqueue().")
        yield from self._check_group(flow_id, number)
        prepared = [self._prepared(step, graph, flow_id) for step, graph in zip(steps, graphs, strict=True)]
        for some in _parts(prepared):
            accepted_us, *numbers = yield from self._send(flow_id, some)
            for node, added in zip(some, numbers, strict=True):
                node.result._set_flow(flow_id, added, is_waiting=node.parents > 0)
                options = TaskOptions() if node.parents else node.result.task.options
                node.result._set_accepted(accepted_us, options)
        return [node.result for nodes in prepared for node in nodes]

    def _graphs_of(self, steps: Sequence[Step]) -> list[FlowGraph]:
        for number, step in enumerate(steps):
            if not isinstance(step, Step):
                raise InvalidTask(
                    f"flow.add: step {number} is {short_repr(step)}; expected task.s(…), task.si(…), chain(…) or"
                    " group(…)."
                )
        graphs = [FlowGraph(step) for step in steps]
        for number, graph in enumerate(graphs):
            graphs[0].check(*[node.call for node in graph.nodes])
            if len(graph.nodes) > CHUNK:
                raise InvalidTask(
                    f"flow.add: step {number} has {len(graph.nodes):,} tasks; a chain or group that is added may have"
                    f" {CHUNK}. Add several."
                )
        if graphs[0].using != self._shard.using:
            raise InvalidTask(
                f"flow.add: {graphs[0].nodes[0].call.task.name} uses connection {graphs[0].using!r}, and the flow uses"
                f" {self._shard.using!r}: the tasks of a flow must share one."
            )
        return graphs

    def _check_group(self, flow_id: str, number: str) -> Flow[None]:
        """Raise GroupNotOpen unless what follows receives a list that the results can be added to."""
        key, owner_field = self._shard.flow(flow_id), f"{FlowField.same_followers}{number}"
        node, result_of, owner = yield Read("HMGET", key, number, FlowField.result_of, owner_field)
        if node is None or result_of is None:
            raise GroupNotOpen(self._task_id, _REASONS[-2])
        text = node.decode().partition(" ")[2]
        if text == IN_CHUNKS:
            chunk = yield Read("HGET", key, f"{FlowField.followers}{(owner or number.encode()).decode()}:0")
            text = self._found(chunk)
        followers = parse_followers(text)
        if followers:
            line = yield Read("HGET", key, followers[0])
            body = yield Read("HGET", self._shard.record(self._found(line).split(" ")[0]), Field.body)
            shape = _parents_of(body)
        else:
            shape = serialization.decode(result_of)
        if not isinstance(shape, list):
            raise GroupNotOpen(self._task_id, "it is a step of a chain, and not a member of a group.")

    def _found(self, field: bytes | None) -> str:
        """Return a field of the flow as text; raise GroupNotOpen if the flow was evicted since the last read."""
        if field is None:
            raise GroupNotOpen(self._task_id, _REASONS[-2])
        return field.decode()

    def _prepared(self, step: Step, graph: FlowGraph, flow_id: str) -> list[AddedNode]:
        """Return the tasks of a step."""
        source = self._source_of(step)
        is_call = isinstance(step, Signature)
        ids = [_id_from(source if is_call else f"{source} {place}") for place in range(len(graph.nodes))]
        ends = flatten(graph.ends)
        results = map_shape(graph.ends, lambda end: ids[end])
        shape = serialization.encode(results).decode() if isinstance(results, list) else ""
        nodes = []
        for place, node in enumerate(graph.nodes):
            metadata = {}
            if node.inputs is not None:
                inputs = map_shape(node.inputs, lambda parent: ids[parent])
                metadata = inputs_of(graph, node, inputs, f"{flow_id}/{ADDED}{ids[place]}")
            result, message = message_of(node.call, metadata, ids[place])
            self._check_limit(result)
            result._shard = self._shard
            followers = node.followers or None  # the last tasks of the step have none in it
            appended = shape if place == ends[0] else "-"
            nodes.append(AddedNode(result, message, place, followers, len(node.parents), appended))
        return nodes

    def _check_limit(self, result: TaskResult) -> None:
        if has_limit(result) and result._shard != self._shard:
            raise InvalidTask(
                f"flow.add: the limit of {result.name} is in the shard {result._shard.name}, and the flow in"
                f" {self._shard.name}. Use enqueue()."
            )

    def _source_of(self, step: Step) -> str:
        """Return what the ids of a step are made from: the same in each run of the task.

        A run that continues a loop repeats the calls outside of it, but not those of the items that are done.
        """
        digest = hashlib.sha256(serialization.encode(_identity(step))).hexdigest()
        place, calls = self._place(), self._calls
        if place:
            if self._calls_of_item[0] != place:
                self._calls_of_item = place, Counter()
            calls = self._calls_of_item[1]
        calls[digest] += 1
        source = f"{self._task_id} {digest} {calls[digest]}"
        return f"{source} {place}" if place else source

    def _send(self, flow_id: str, nodes: Sequence[AddedNode]) -> Flow[list[int]]:
        is_staged = len(nodes) > MAX_ADDED or sum(node.message.size for node in nodes) > CHUNK_BYTES
        if is_staged:
            yield from self._stage(nodes)
        reply = yield ADD_TO_FLOW(
            base=self._shard.base,
            id=self._task_id,
            token=self._token,
            max_tasks=MAX_TASKS,
            nodes=[part for index, node in enumerate(nodes) for part in _sent(node, index - node.place, is_staged)],
        )
        if reply[0] == -1:
            raise LeaseLost(self._task_id)
        if reply[0] == -6:
            raise TaskQueueError(
                f"Task {self._task_id} has added nothing to its group: "
                f"Redis no longer has the records of the new tasks. {PARTS_GONE}"
            )
        if reply[0] < 0:
            raise GroupNotOpen(self._task_id, _REASONS[reply[0]])
        if is_staged:
            yield from start_tasks(self._shard, flow_id)
        return list(reply)

    def _stage(self, nodes: Sequence[AddedNode]) -> Flow[None]:
        """Store the records of tasks, so that the script that adds them is quick."""
        messages = [(len(sent), *sent) for sent in (node.message.arguments for node in nodes)]
        for chunk in chunked(messages, MAX_STAGED):
            tasks = [part for sent in chunk for part in sent]
            if (yield STAGE_ADDED(base=self._shard.base, id=self._task_id, token=self._token, tasks=tasks)) < 0:
                raise LeaseLost(self._task_id)


def _parts(steps: Sequence[list[AddedNode]]) -> Iterator[list[AddedNode]]:
    """Yield the tasks of several steps, those of each in one part, up to 500 and about 1 MB in each part."""
    part: list[AddedNode] = []
    size = 0
    for nodes in steps:
        if part and (len(part) + len(nodes) > CHUNK or size >= CHUNK_BYTES):
            yield part
            part, size = [], 0
        part = part + nodes
        size += sum(node.message.size for node in nodes)
    yield part


def _sent(node: AddedNode, first: int, is_staged: bool) -> tuple[Any, ...]:
    """Return what the script takes for a task; `first`: place of the first task of its step in the call."""
    followers = "*" if node.followers is None else in_chunks([first + place for place in node.followers])
    sent = node.message.arguments[: _STAGED if is_staged else None]
    return (followers, node.parents, node.appended, len(sent), *sent)


def _identity(step: Any) -> Any:
    """Return what makes two steps the same, as JSON values."""
    if isinstance(step, Signature):
        return [step.task.name, *_with_sorted_keys([pack(step.args, "args"), pack(step.kwargs, "kwargs")])]
    return {step.kind: [_identity(each) for each in step.steps]}


def _id_from(source: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(source.encode()).digest()[:ID_BYTES]).decode().replace("-", "_")


def _with_sorted_keys(value: Any) -> Any:
    """Return JSON values with the keys of each dict in order: equal arguments are the same call."""
    if isinstance(value, dict):
        return {key: _with_sorted_keys(value[key]) for key in sorted(value)}
    return [_with_sorted_keys(each) for each in value] if isinstance(value, list | tuple) else value


def _parents_of(body: bytes | None) -> Any:
    """Return the tasks whose results a task receives; an empty list if it receives none."""
    return dict(*unpack(body)[2:]).get(PARENTS, []) if body else []
