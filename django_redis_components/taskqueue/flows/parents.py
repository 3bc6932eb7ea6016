"""The results of parent tasks: the first argument of a task in a flow."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar, Union

from django_redis_components.core import serialization
from django_redis_components.core.chunks import chunks
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.taskqueue.exceptions import ParentsLost
from django_redis_components.taskqueue.fields import ErrorPath, Field, FlowField
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.record import TaskRecord
from django_redis_components.taskqueue.shards import Shard

#: Key in the metadata of a task: ids of its parents, in the shape of the argument. Of many it has their numbers in the
#: flow, see `_in_runs`: the ids alone would keep the server busy for longer than any other script of a flow.
PARENTS = "parents"
#: Parents of which a task has the ids.
MAX_IDS = 5_000
#: Between the numbers of a run. No id has it.
_RUN = ":"
#: Key in the metadata of a task of which a parent may fail, or that receives a list: "flow/number".
FLOW = "flow"
#: In front of the id of a task, in place of its number in that text: a task that was added, whose number is not known.
ADDED = "+"
#: Key in the metadata of a task that receives references: bytes above which a result is passed as one.
BY_REFERENCE = "by_reference"
#: Key in the metadata of an `on_error` task: the flow whose first error is its argument.
FIRST_ERROR = "first_error"
#: Key in the metadata of the other callbacks: the flow that their argument describes.
SUMMARY = "flow_summary"
#: Key in the metadata of the first tasks of a flow that is a callback: the flow whose hash has their argument.
GIVEN = "given"

A = TypeVar("A")
B = TypeVar("B")
#: A value or a list of shapes: of a group, of a group of groups.
Shape = Union[A, list["Shape[A]"]]  # noqa: UP007 - mypy knows recursive aliases in this form only


#: Tasks read in one round trip.
CHUNK = 500
#: In place of the followers in the node of a task that has them in chunks: lua/shared/flow_followers.lua.
IN_CHUNKS = ","


class AddedTask(NamedTuple):
    """A task that a running member has added.

    Attributes:
        member: id of the task behind whose result, in a list of results, `appended` comes; empty: nothing does.
        appended: what comes there: the id of the task, or ids in the shape of the step that was added.
        followers: numbers of the tasks that depend on it; empty if they are in chunks.
        chunks_of: number of the task with which the chunks are stored; empty: they are in `followers`.
    """

    id: str
    member: str
    appended: Shape[str]
    followers: list[int]
    chunks_of: str


#: Why a task has no result, by its state.
_REASONS = {"failed": "failed", "cancelled": "was cancelled", "expired": "expired"}


class MemberFailure(dict[str, Any]):
    """What a task receives in place of the result of a member that has failed and is declared with "continue".

    A dict with `task_id`, `task_name`, `reason` ("failed", "was cancelled", "expired", "was deleted" or "was not run")
    and `error` (None without an exception, else a dict with `exception_class_path`, `message` and `traceback`). It is
    JSON: a task may return it.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class ResultReference:
    """What a step declared with `by_reference` receives in place of a large result.

    Attributes:
        id: of the task that returned it.
        size: bytes of its JSON.
    """

    id: str
    size: int
    _shard: Shard = dataclasses.field(repr=False)

    def get(self) -> Any:
        """Read the result. It is kept until the flow has finished.

        Raises:
            ParentsLost: it is no longer in Redis.
            redis.exceptions.RedisError: Redis did not answer.
        """
        return self._shard.run(self._read())

    async def aget(self) -> Any:
        """See `get`."""
        return await self._shard.arun(self._read())

    def _read(self) -> Flow[Any]:
        value = yield Read("HGET", self._shard.record(self.id), Field.return_value)
        if value is None:
            raise _lost(self.id)
        return unpack(value)


class _Ignored:
    """The place of a member whose failure is ignored."""


_IGNORED = _Ignored()


def flatten(shape: Shape[A]) -> list[A]:
    """Return the values, in order."""
    return [one for each in shape for one in flatten(each)] if isinstance(shape, list) else [shape]


def map_shape(shape: Shape[A], change: Callable[[A], B]) -> Shape[B]:
    """Apply a function to every value, keeping the shape."""
    return [map_shape(each, change) for each in shape] if isinstance(shape, list) else change(shape)


def stored_parents(shape: Shape[int], id_of: Callable[[int], str]) -> Shape[str]:
    """Return what a task stores of its parents, whose numbers are given: see `PARENTS`."""
    is_large = len(flatten(shape)) > MAX_IDS
    return _in_runs(shape) if isinstance(shape, list) and is_large else map_shape(shape, id_of)


def _in_runs(shape: list[Shape[int]]) -> list[Shape[str]]:
    """Return numbers in their shape, with "first:end:step" in place of each run of equal steps in a list."""
    runs: list[Any] = []
    for each in shape:
        last = runs[-1] if runs else None
        if isinstance(each, list):
            runs.append(_in_runs(each))
        elif not isinstance(last, range) or each <= last[-1]:
            runs.append(range(each, each + 1))
        elif len(last) == 1:
            runs[-1] = range(last.start, each + 1, each - last.start)
        elif each == last[-1] + last.step:
            runs[-1] = range(last.start, each + 1, last.step)
        else:
            runs.append(range(each, each + 1))
    return [_RUN.join(map(str, (run.start, run.stop, run.step))) if isinstance(run, range) else run for run in runs]


def has_inputs(metadata: dict[str, Any]) -> bool:
    """Return whether a task has a first argument from other tasks."""
    return PARENTS in metadata or FIRST_ERROR in metadata or SUMMARY in metadata or GIVEN in metadata


def read_inputs(shard: Shard, metadata: dict[str, Any]) -> Any:
    """Return the first argument of a task of a flow in this shard.

    Raises:
        ParentsLost: it is no longer in Redis.
        redis.exceptions.RedisError: Redis did not answer.
    """
    return shard.run(_inputs(shard, metadata))


async def aread_inputs(shard: Shard, metadata: dict[str, Any]) -> Any:
    """See `read_inputs`."""
    return await shard.arun(_inputs(shard, metadata))


def without_ignored(shape: Shape[Any]) -> Any:
    """Leave ignored members out of lists; a single one is None."""
    if isinstance(shape, list):
        return [without_ignored(each) for each in shape if each is not _IGNORED]
    return None if shape is _IGNORED else shape


def value_of(result: TaskRecord[Any]) -> Any:
    """Return the value that a finished task passes on: its return value, or the placeholder for its failure.

    Raises:
        TaskFailed: it did not succeed, and the flow does not continue without it.
    """
    action = result._fields.get(Field.on_failure, b"").decode()
    if not action or result.state == "successful":
        return result.return_value
    reason = _REASONS[result.state]
    if result.errors and result.errors[-1].exception_class_path == ErrorPath.parent_failed:
        reason = "was not run"
    error = dataclasses.asdict(result.errors[-1]) if result.errors else None
    return _failure_of(action, result.id, result.name, reason, error)


def _inputs(shard: Shard, metadata: dict[str, Any]) -> Flow[Any]:
    if PARENTS in metadata:
        return (yield from _values(shard, metadata))
    if SUMMARY in metadata:
        return (yield from _summary(shard, metadata[SUMMARY]))
    if GIVEN in metadata:
        return (yield from _given(shard, metadata[GIVEN]))
    return (yield from _first_error(shard, metadata[FIRST_ERROR]))


def with_added(shape: Shape[A], added: Mapping[Any, list[Any]]) -> Shape[A]:
    """Append what members have added to the lists that have these members."""
    if not isinstance(shape, list):
        return shape
    appended = [one for each in shape if not isinstance(each, list) for one in added.get(each, [])]
    parts: list[Any] = [*shape, *appended]
    return [with_added(each, added) for each in parts]


def parse_followers(text: str) -> list[int]:
    """Parse the numbers of the followers of a task, as a node, or several chunks of them, have them."""
    return [int(follower) for follower in text.replace(";", ",").split(",") if follower]


def read_followers(shard: Shard, flow_id: str, number: int | str) -> Flow[list[int]]:
    """Return the followers that are stored in chunks with a task."""
    followers: list[int] = []
    first, is_left = 0, True
    while is_left:
        names = [f"{FlowField.followers}{number}:{chunk}" for chunk in range(first, first + CHUNK)]
        chunks = yield Read("HMGET", shard.flow(flow_id), *names)
        found = [chunk for chunk in chunks if chunk is not None]
        followers += parse_followers(";".join(chunk.decode() for chunk in found))
        first, is_left = first + CHUNK, len(found) == CHUNK
    return followers


def read_added(shard: Shard, flow_id: str, first: int, number: int) -> Flow[list[AddedTask]]:
    """Return the tasks that running members have added.

    Args:
        first: number of the first of them.
        number: how many they are.
    """
    added: list[AddedTask] = []
    for start in range(first, first + number, CHUNK):
        numbers = range(start, min(start + CHUNK, first + number))
        fields = ("", FlowField.added_by, FlowField.same_followers)
        found = yield Read("HMGET", shard.flow(flow_id), *(f"{field}{each}" for each in numbers for field in fields))
        for each, node, member, owner in zip(numbers, found[::3], found[1::3], found[2::3], strict=True):
            task_id, _, text = node.decode().partition(" ")
            chunks_of = (owner or str(each).encode()).decode() if text == IN_CHUNKS else ""
            member_id, _, ids = (member or b"").decode().partition(" ")
            appended = serialization.decode(ids.encode()) if ids else task_id
            added.append(AddedTask(task_id, member_id, appended, parse_followers(text), chunks_of))
    return added


def _with_added(shard: Shard, parents: Shape[str], flow_ref: str, added: int, tasks: int) -> Flow[Shape[str]]:
    flow_id, _, own = flow_ref.rpartition("/")
    first, end = tasks + 3, tasks + 3 + added
    if own.startswith(ADDED):
        own = yield Read("HGET", shard.flow(flow_id), f"{FlowField.number}{own.removeprefix(ADDED)}")
        first = int(own) + 1  # what was added to its parents came later
    by_member: dict[str, list[Shape[str]]] = {}
    for each in (yield from read_added(shard, flow_id, first, end - first)):
        # Of those with chunks, only the last tasks of a step have a member: their followers are those of the member.
        if each.member and (each.chunks_of or int(own) in each.followers):
            by_member.setdefault(each.member, []).append(each.appended)
    return with_added(parents, by_member)


def _ids_of_runs(shard: Shard, shape: Shape[str], flow_id: str) -> Flow[list[Shape[str]]]:
    """Return the ids of the tasks whose numbers `_in_runs` has written.

    Raises:
        ParentsLost: the flow is no longer in Redis.
    """
    runs = {run: range(*map(int, run.split(_RUN))) for run in flatten(shape)}
    ids: dict[int, str] = {}
    for some in chunks(chain.from_iterable(runs.values()), CHUNK):
        nodes = yield Read("HMGET", shard.flow(flow_id), *some)
        if None in nodes:
            raise _flow_lost(flow_id)
        ids |= {number: node.decode().partition(" ")[0] for number, node in zip(some, nodes, strict=True)}

    def expanded(shape: Shape[str]) -> list[Shape[str]]:
        return [
            one
            for each in shape
            for one in ([expanded(each)] if isinstance(each, list) else map(ids.__getitem__, runs[each]))
        ]

    return expanded(shape)


def _values(shard: Shard, metadata: dict[str, Any]) -> Flow[Any]:
    parents, flow_ref = metadata[PARENTS], metadata.get(FLOW, "")
    flow_id = flow_ref.rpartition("/")[0]
    if isinstance(parents, list) and _RUN in (flatten(parents) or [""])[0]:  # if one is a run, all are
        parents = yield from _ids_of_runs(shard, parents, flow_id)
    if flow_id:
        added, tasks = yield Read("HMGET", shard.flow(flow_id), FlowField.added, FlowField.tasks)
        if added is not None and isinstance(parents, list):
            parents = yield from _with_added(shard, parents, flow_ref, int(added), int(tasks))
    ids = flatten(parents)
    values = yield from _stored_values(shard, ids, metadata.get(BY_REFERENCE))
    if flow_id and (failed := [task_id for task_id in ids if task_id not in values]):
        values |= yield from _failures(shard, flow_id, failed)
    for task_id in ids:
        if task_id not in values:
            raise _lost(task_id)
    return without_ignored(map_shape(parents, values.__getitem__))


def _stored_values(shard: Shard, ids: Sequence[str], above: int | None) -> Flow[dict[str, Any]]:
    """Return the results of those tasks that have one, or references to those with more bytes than `above`."""
    values: dict[str, Any] = {}
    for some in chunks(ids, CHUNK):
        if above is not None:
            sizes = yield Batch([Read("HSTRLEN", shard.record(task_id), Field.return_value) for task_id in some])
            by_id = dict(zip(some, sizes, strict=True))
            values |= {each: ResultReference(each, size, shard) for each, size in by_id.items() if size > above}
            some = [task_id for task_id in some if 0 < by_id[task_id] <= above]
        if some:
            replies = yield Batch([Read("HGET", shard.record(task_id), Field.return_value) for task_id in some])
            found = zip(some, replies, strict=True)
            values |= {task_id: unpack(value) for task_id, value in found if value is not None}
    return values


def _failures(shard: Shard, flow_id: str, ids: Sequence[str]) -> Flow[dict[str, Any]]:
    """Return the placeholders for those of these tasks that have failed and may."""
    failures, *errors = yield Batch(
        [
            Read("HMGET", shard.flow(flow_id), *(f"{FlowField.failure}{task_id}" for task_id in ids)),
            *(Read("LRANGE", f"{shard.record(task_id)}:errors", -1, -1) for task_id in ids),
        ]
    )
    found = {}
    for task_id, failure, error in zip(ids, failures, errors, strict=True):
        if failure is not None:
            action, name, reason = failure.decode().split(" ", 2)
            decoded = serialization.decode(error[0]) if error else None
            found[task_id] = _failure_of(action, task_id, name, reason, decoded)
    return found


def _failure_of(action: str, task_id: str, name: str, reason: str, error: Any) -> MemberFailure | _Ignored:
    if action == "ignore":
        return _IGNORED
    return MemberFailure(task_id=task_id, task_name=name, reason=reason, error=error)


def _lost(task_id: str) -> ParentsLost:
    return ParentsLost(
        f"The result of parent task {task_id} is no longer in Redis."
        " It is kept until the flow has finished: it was evicted or deleted."
    )


def _flow_lost(flow_id: str) -> ParentsLost:
    return ParentsLost(f"Flow {flow_id} is no longer in Redis: it was evicted or deleted.")


def _summary(shard: Shard, flow_id: str) -> Flow[dict[str, Any]]:
    """Return how many tasks a flow has, and how many of them had failed when all had finished."""
    fields = (FlowField.tasks, FlowField.failed_at_end, FlowField.added)
    tasks, failed, added = yield Read("HMGET", shard.flow(flow_id), *fields)
    if tasks is None:
        raise _flow_lost(flow_id)
    failed = int(failed or 0)
    return {
        "flow_id": flow_id,
        "state": "failed" if failed > 0 else "successful",
        "tasks": int(tasks) + int(added or 0),
        "failed": failed,
    }


def _given(shard: Shard, flow_id: str) -> Flow[Any]:
    """Return what the first tasks of a flow get that is a callback."""
    given = yield Read("HGET", shard.flow(flow_id), FlowField.given)
    if given is None:
        raise _flow_lost(flow_id)
    return serialization.decode(given)


def _first_error(shard: Shard, flow_id: str) -> Flow[dict[str, Any]]:
    """Return which task failed first, and how."""
    first_error = yield Read("HGET", shard.flow(flow_id), FlowField.first_error)
    if first_error is None:
        raise ParentsLost(f"The first error of flow {flow_id} is no longer in Redis: it was evicted or deleted.")
    task_id, name, reason = first_error.decode().split(" ", 2)
    errors = yield Read("LRANGE", f"{shard.record(task_id)}:errors", -1, -1)
    error = serialization.decode(errors[0]) if errors else None
    return {"task_id": task_id, "task_name": name, "reason": reason, "error": error}
