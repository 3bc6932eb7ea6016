"""What a running task does with its flow: it adds tasks to its group."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.taskqueue.exceptions import GroupNotOpen, InvalidTask, LeaseLost
from django_redis_components.taskqueue.fields import Field, FlowField
from django_redis_components.taskqueue.flows.enqueue import has_limit, message_of
from django_redis_components.taskqueue.flows.graph import MAX_TASKS, FlowGraph
from django_redis_components.taskqueue.flows.parents import IN_CHUNKS, PARENTS, parse_followers, read_followers
from django_redis_components.taskqueue.flows.signature import Group, Signature
from django_redis_components.taskqueue.json_codec import pack, unpack
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.messages import TaskMessage, chunks
from django_redis_components.taskqueue.store.scripts import ADD_TO_FLOW
from django_redis_components.taskqueue.store.task_records import ID_BYTES

_REASONS = {
    -2: "its flow was evicted or deleted, or the task is a callback.",
    -3: "a task after the group has started or was cancelled, or the task itself was cancelled.",
    -5: "more than 5,000 tasks wait for the task.",
    -4: f"the flow would have more than {MAX_TASKS:,} tasks.",
}


class MemberFlow:
    """The flow of a running task, `TaskContext.flow`.

    Attributes:
        id: the flow's id; None if the task is not part of a flow.
    """

    def __init__(self, shard: Shard, task_id: str, token: str, read_ref: Callable[[], Flow[str]]) -> None:
        """
        Args:
            read_ref: returns "flow/number" of the task; "" without a flow.
        """
        self._shard = shard
        self._task_id = task_id
        self._token = token
        self._read_ref = read_ref
        #: How often the run has added equal calls.
        self._calls: Counter[str] = Counter()

    @property
    def id(self) -> str | None:
        """The flow's id; None if the task is not part of a flow."""
        return self._shard.run(self._read_ref()).rpartition("/")[0] or None

    def add(self, *calls: Signature) -> list[TaskResult]:
        """Add tasks to the group of the running task.

        They start at once, and what waits for this task waits for them, too. Where the next step receives the list of
        the group's results, theirs are at the end of it. A call that an earlier run of this task has added is not added
        again: calls with the same task and arguments are the same, and of equal calls in one run each counts.

        Args:
            calls: `task.s(…)` or `task.si(…)`; they receive no result. Up to 500 are added in one step.

        Returns the results of the tasks, in order.

        Raises:
            GroupNotOpen: the task is in no group of a flow, or the group is complete.
            LeaseLost: the run has lost its lease; the task may be running on another worker.
            InvalidTask: a call is none, is unique or has another connection, or its limit is in another shard.
            TypeError, ValueError: the arguments of a call are not accepted.
            redis.exceptions.RedisError: Redis did not answer.
        """
        results = self._shard.run(self._add(calls))
        pipeline.notify_enqueued(results)
        return results

    async def aadd(self, *calls: Signature) -> list[TaskResult]:
        """See `add`."""
        results = await self._shard.arun(self._add(calls))
        await pipeline.anotify_enqueued(results)
        return results

    def _add(self, calls: Sequence[Signature]) -> Flow[list[TaskResult]]:
        if not calls:
            return []
        self._check(calls)
        flow_id, _, number = (yield from self._read_ref()).rpartition("/")
        if not flow_id:
            raise GroupNotOpen(self._task_id, "it is not part of a flow. Use enqueue().")
        yield from self._check_group(flow_id, number)
        prepared = list(self._prepared(calls))
        results = {message.id: result for result, message in prepared}
        for some in chunks([message for _, message in prepared]):
            accepted_us, *numbers = yield from self._send(some)
            for message, added in zip(some, numbers, strict=True):
                results[message.id]._set_flow(flow_id, added, is_waiting=False)
                results[message.id]._set_accepted(accepted_us, results[message.id].task.options)
        return list(results.values())

    def _check(self, calls: Sequence[Signature]) -> None:
        for number, call in enumerate(calls):
            if not isinstance(call, Signature):
                raise InvalidTask(f"flow.add: call {number} is {short_repr(call)}; expected task.s(…) or task.si(…).")
        graph = FlowGraph(Group(tuple(calls)))
        if graph.using != self._shard.using:
            raise InvalidTask(
                f"flow.add: {calls[0].task.name} uses connection {graph.using!r}, and the flow uses"
                f" {self._shard.using!r}: the tasks of a flow must share one."
            )

    def _check_group(self, flow_id: str, number: str) -> Flow[None]:
        """Raise GroupNotOpen unless what follows receives a list that the results can be added to."""
        node, result_of = yield Read("HMGET", self._shard.flow(flow_id), number, FlowField.result_of)
        if node is None or result_of is None:
            raise GroupNotOpen(self._task_id, _REASONS[-2])
        text = node.decode().partition(" ")[2]
        followers = parse_followers(text)
        if text == IN_CHUNKS:
            followers = yield from read_followers(self._shard, flow_id, number)
        if followers:
            line = yield Read("HGET", self._shard.flow(flow_id), followers[0])
            body = yield Read("HGET", self._shard.record(line.decode().split(" ")[0]), Field.body)
            shape = _parents_of(body)
        else:
            shape = serialization.decode(result_of)
        if not isinstance(shape, list):
            raise GroupNotOpen(self._task_id, "it is a step of a chain, and not a member of a group.")

    def _prepared(self, calls: Sequence[Signature]) -> Iterator[tuple[TaskResult, TaskMessage]]:
        for call in calls:
            result, message = message_of(call, {}, self._id_of)
            if has_limit(result) and result._shard != self._shard:
                raise InvalidTask(
                    f"flow.add: the limit of {result.name} is in the shard {result._shard.name}, and the flow in"
                    f" {self._shard.name}. Use enqueue()."
                )
            result._shard = self._shard
            yield result, message

    def _id_of(self, call: Signature) -> str:
        """Return the id of a call: the same in each run of the task."""
        arguments = _with_sorted_keys([pack(call.args, "args"), pack(call.kwargs, "kwargs")])
        text = serialization.encode([call.task.name, *arguments])
        digest = hashlib.sha256(text).hexdigest()
        self._calls[digest] += 1
        source = f"{self._task_id} {digest} {self._calls[digest]}".encode()
        return urlsafe_b64encode(hashlib.sha256(source).digest()[:ID_BYTES]).decode().replace("-", "_")

    def _send(self, messages: Sequence[TaskMessage]) -> Flow[list[int]]:
        arguments = [message.arguments for message in messages]
        reply = yield ADD_TO_FLOW(
            base=self._shard.base,
            id=self._task_id,
            token=self._token,
            max_tasks=MAX_TASKS,
            nodes=[part for each in arguments for part in (len(each), *each)],
        )
        if reply[0] == -1:
            raise LeaseLost(self._task_id)
        if reply[0] < 0:
            raise GroupNotOpen(self._task_id, _REASONS[reply[0]])
        return list(reply)


def _with_sorted_keys(value: Any) -> Any:
    """Return JSON values with the keys of each dict in order: equal arguments are the same call."""
    if isinstance(value, dict):
        return {key: _with_sorted_keys(value[key]) for key in sorted(value)}
    return [_with_sorted_keys(each) for each in value] if isinstance(value, list | tuple) else value


def _parents_of(body: bytes | None) -> Any:
    """Return the tasks whose results a task receives; an empty list if it receives none."""
    return dict(*unpack(body)[2:]).get(PARENTS, []) if body else []
