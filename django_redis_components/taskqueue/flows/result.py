"""The result of a flow: its tasks, their states, and cancellation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.chunks import chunks
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import FlowDoesNotExist, TaskResultDoesNotExist
from django_redis_components.taskqueue.fields import Field, FlowField
from django_redis_components.taskqueue.flows.parents import (
    IN_CHUNKS,
    Shape,
    flatten,
    map_shape,
    parse_followers,
    read_added,
    read_followers,
    value_of,
    with_added,
    without_ignored,
)
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shard_clients import arun_over, run_over
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.store import task_control, task_records

#: Maximum tasks read or cancelled in one round trip.
CHUNK = 500


class FlowResult:
    """The result of an enqueued flow. Each method has an asyncio twin.

    Attributes:
        id: the flow's id.
        results: the results of its tasks, in topological order; `refresh` reads them again.
        links: for each task the numbers of the tasks that depend on it; a number is a place in `results`.
        ends: numbers of the tasks whose results are the result of the flow: one, or a list.
        on_error_result, on_complete_result, on_success_result: the results of the callbacks, each None without one.
    """

    def __init__(
        self,
        flow_id: str,
        shard: Shard,
        results: Sequence[TaskResult],
        links: Sequence[Sequence[int]],
        ends: Shape[int],
    ) -> None:
        self.id = flow_id
        self._shard = shard
        self.results = list(results)
        self.on_error_result: TaskResult | None = None
        self.on_complete_result: TaskResult | None = None
        self.on_success_result: TaskResult | None = None
        self.links = list(links)
        #: Tasks that the flow was enqueued with.
        self._count = len(self.results)
        self.ends = ends
        #: The steps that it was made of, see `flows.tree`; None if none is nested, and before it is read.
        self._tree: bytes | None = None
        #: Id of the flow whose callback it is; "" if it is none, and before it is read.
        self._callback_of = ""

    def __repr__(self) -> str:
        return f"<FlowResult {self.id} of {len(self.results)} tasks>"

    @property
    def using(self) -> str:
        """Alias of the connection."""
        return self._shard.using

    @property
    def last(self) -> TaskResult:
        """The result of the last task; of a group without a callback, of its last member."""
        return self.results[flatten(self.ends)[-1]]

    @property
    def is_finished(self) -> bool:
        """Whether all tasks had finished at the last read."""
        return all(result.is_finished for result in self.results)

    def children(self, task_id: str) -> list[TaskResult]:
        """The results of the tasks that depend on this one."""
        return [self.results[number] for number in self.links[self._number(task_id)]]

    def parents(self, task_id: str) -> list[TaskResult]:
        """The results of the tasks that this one depends on."""
        number = self._number(task_id)
        return [self.results[index] for index, followers in enumerate(self.links) if number in followers]

    def refresh(self) -> None:
        """Read the tasks again. Tasks whose records have expired are unchanged."""
        self._shard.run(self._refresh())

    async def arefresh(self) -> None:
        """See `refresh`."""
        await self._shard.arun(self._refresh())

    def get(self, timeout: Seconds | None = None) -> Any:
        """Wait for the last task and return its value; for a group without a callback, the list of values.

        Args:
            timeout: maximum seconds to wait; None: no limit.

        Raises:
            WaitTimeout: it did not finish in time.
            TaskFailed: it failed, or did not run because a parent failed.
            TaskResultDoesNotExist: the result has expired.
        """
        return self._shard.run(self._wait(timeout))

    async def aget(self, timeout: Seconds | None = None) -> Any:  # noqa: ASYNC109 - the twin of get()
        """See `get`."""
        return await self._shard.arun(self._wait(timeout))

    def cancel(self, *, force_after: Seconds | None = None) -> int:
        """Cancel tasks that have not started, the last first, and request running ones to end; see `TaskResult.cancel`.

        Args:
            force_after: see `TaskResult.cancel`.

        Returns the number of tasks that were cancelled or requested to end.
        """
        return self._shard.run(self._cancel(force_after))

    async def acancel(self, *, force_after: Seconds | None = None) -> int:
        """See `cancel`."""
        return await self._shard.arun(self._cancel(force_after))

    def _number(self, task_id: str) -> int:
        for number, result in enumerate(self.results):
            if result.id == task_id:
                return number
        raise TaskResultDoesNotExist(task_id)

    @property
    def _callbacks(self) -> list[TaskResult]:
        found = (self.on_error_result, self.on_complete_result, self.on_success_result)
        return [each for each in found if each is not None]

    def _set_callbacks(self, results: Mapping[int, TaskResult]) -> None:
        """Set the results of the callbacks, by their numbers."""
        number = self._count
        self.on_error_result = results.get(number)
        self.on_complete_result, self.on_success_result = results.get(number + 1), results.get(number + 2)

    def _read_added(self) -> Flow[None]:
        """Read the tasks that running members have added since the last read."""
        known = len(self.results)
        added = yield Read("HGET", self._shard.flow(self.id), FlowField.added)
        new = self._count + int(added or 0) - known
        if new <= 0:
            return
        found = yield from read_added(self._shard, self.id, known + 3, new)
        records = yield from task_records.read_many(self._shard, [each.id for each in found])
        by_member: dict[int, list[Shape[int]]] = {}
        stored: dict[str, list[int]] = {}
        for each, record in zip(found, records, strict=True):
            self.results.append(_result(each.id, self._shard, record))
            if each.chunks_of and each.chunks_of not in stored:
                followers = yield from read_followers(self._shard, self.id, each.chunks_of)
                stored[each.chunks_of] = [self._place(number) for number in followers]
            self.links.append(stored.get(each.chunks_of) or [self._place(number) for number in each.followers])
        places = {result.id: place for place, result in enumerate(self.results)}
        for each in found:
            if each.member and not each.followers and not each.chunks_of:
                by_member.setdefault(places[each.member], []).append(map_shape(each.appended, places.__getitem__))
        self.ends = with_added(self.ends, by_member)

    def _place(self, number: int) -> int:
        """Return the place in `results` of a task with a number: between are the numbers of the callbacks."""
        return number if number < self._count else number - 3

    def _refresh(self) -> Flow[None]:
        yield from self._read_added()
        results = [*self.results, *self._callbacks]
        found = yield from task_records.read_many(self._shard, [result.id for result in results])
        for result, read in zip(results, found, strict=True):
            if read is not None:
                result._load(*read)

    def _wait(self, timeout: Seconds | None) -> Flow[Any]:
        allowed_s = None if timeout is None else to_seconds(timeout, "timeout", zero=True)
        deadline = time.monotonic() + (allowed_s or 0.0)
        values: dict[int, Any] = {}
        while left := [number for number in flatten(self.ends) if number not in values]:
            for number in left:
                left_s = None if allowed_s is None else max(0.0, deadline - time.monotonic())
                result = self.results[number]
                result._load(*(yield from task_records.wait(self._shard, result.id, left_s)))
                values[number] = value_of(result)
            if isinstance(self.ends, list):  # else nothing can be added
                yield from self._read_added()
        return without_ignored(map_shape(self.ends, values.__getitem__))

    def _cancel(self, force_after: Seconds | None) -> Flow[int]:
        for callback in filter(None, (self.on_error_result, self.on_success_result)):  # not counted. on_complete runs
            yield task_control.cancel_call(self._shard, callback.id, "")
        yield from self._read_added()
        force_ms = task_control.force_ms(force_after)
        ordered = [*reversed(self.results[: self._count]), *reversed(self.results[self._count :])]
        cancelled = 0
        while ordered:
            calls = [task_control.cancel_call(self._shard, result.id, force_ms) for result in ordered]
            for some in chunks(calls, CHUNK):
                replies = yield Batch(some)
                cancelled += sum(reply > 0 for reply in replies)
            known = len(self.results)
            yield from self._read_added()  # a member may have added tasks before it was requested to end
            ordered = list(reversed(self.results[known:]))
        return cancelled


def get_flow(flow_id: str, *, using: str = "default") -> FlowResult:
    """Return the result of a flow by its id (`FlowResult.id`, `TaskResult.flow_id`).

    Raises:
        FlowDoesNotExist: no flow has this id, or it has expired.
    """
    return run_over(using, _read(using, flow_id))


async def aget_flow(flow_id: str, *, using: str = "default") -> FlowResult:
    """See `get_flow`."""
    return await arun_over(using, _read(using, flow_id))


_FOUND = (FlowField.tasks, FlowField.result_of, FlowField.tree, FlowField.callback_of)


def _find(using: str, flow_id: str) -> Flow[tuple[Shard, list[bytes]]]:
    """Return the shard that has a flow, and the fields `_FOUND`."""
    shards = shards_of(using)
    reads = [Read("HMGET", shard.flow(flow_id), *_FOUND) for shard in shards]
    replies = yield Batch(reads, return_exceptions=True)
    errors = [reply for reply in replies if isinstance(reply, Exception)]
    for shard, reply in zip(shards, replies, strict=True):
        if reply not in errors and reply[0] is not None:
            return shard, reply
    if errors:
        raise errors[0]
    raise FlowDoesNotExist(flow_id)


def _read(using: str, flow_id: str) -> Flow[FlowResult]:
    shard, (tasks, result_of, tree, callback_of) = yield from _find(using, flow_id)
    count = int(tasks)
    key = shard.flow(flow_id)
    nodes: list[bytes | None] = []
    for start in range(0, count + 3, CHUNK):
        nodes += yield Read("HMGET", key, *range(start, min(start + CHUNK, count + 3)))
    lines = {number: node.decode().partition(" ") for number, node in enumerate(nodes) if node is not None}
    found = yield from task_records.read_many(shard, [task_id for task_id, _, _ in lines.values()])
    results = {
        number: _result(lines[number][0], shard, each)
        for number, each in zip(lines, found, strict=True)
        if each or number < count
    }
    members = [number for number in lines if number < count]
    links = [parse_followers(lines[number][2]) for number in members]
    for place, number in enumerate(members):
        if lines[number][2] == IN_CHUNKS:
            links[place] = yield from read_followers(shard, flow_id, number)
    flow = FlowResult(flow_id, shard, [results[number] for number in members], links, serialization.decode(result_of))
    flow._tree, flow._callback_of = tree, (callback_of or b"").decode(errors="replace")
    flow._set_callbacks(results)
    yield from flow._read_added()
    return flow


def _result(task_id: str, shard: Shard, stored: tuple[task_records.Fields, list[bytes]] | None) -> TaskResult:
    """Return the result of a task; a deleted task counts as cancelled."""
    fields, failures = stored or ({Field.task_name: b"", Field.state: b"cancelled"}, [])
    name = fields[Field.task_name].decode()
    return TaskResult(registry.find(name), name, task_id, shard, fields, failures)
