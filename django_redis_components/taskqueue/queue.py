"""`Queue`: depths, metrics and errors of a queue, and the operations on all of its tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_choice, check_int, short_repr
from django_redis_components.core.protocol import Flow
from django_redis_components.core.text import encodable
from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.options import check_queue
from django_redis_components.taskqueue.result import TaskResult, due_of
from django_redis_components.taskqueue.shard_clients import arun_over, over, run_over
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.stats import errors, metrics, queue_stats
from django_redis_components.taskqueue.stats.errors import ErrorGroup
from django_redis_components.taskqueue.stats.groups import MAX_GROUPS, GroupInfo, GroupList, read_groups
from django_redis_components.taskqueue.stats.merging import merged_errors, merged_groups, merged_info, merged_metrics
from django_redis_components.taskqueue.stats.metrics import Metrics
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo
from django_redis_components.taskqueue.store import control, pending_tasks
from django_redis_components.taskqueue.store.task_control import force_ms

S = TypeVar("S")
T = TypeVar("T")

#: Maximum number of tasks on one page of `tasks`.
MAX_PAGE = 1_000
#: Largest offset that a Lua number represents exactly.
MAX_OFFSET = 2**53 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Purge:
    """A completed purge. `Queue.restore(purge)` restores its tasks, for 24 hours.

    Attributes:
        queue: the queue's name.
        id: the purge's id.
        count: how many tasks were removed.
        waiting: how many tasks were kept because they wait for other tasks of their flows.
    """

    queue: str
    id: str
    count: int
    waiting: int = 0


class Queue:
    """A queue by name. Creating one sends nothing to Redis. Each method has an async twin (``ainfo``).

    With several shards the figures are sums, and an operation applies in all of them, because tasks of an earlier route
    may be anywhere. If some do not answer, an operation raises `PartlyDone`; repeating it completes it.

    Attributes:
        name: the queue's name.
        using: alias of the connection.
    """

    def __init__(self, name: str, *, using: str = "default") -> None:
        self.name = keys.validate_name(name, "queue name")
        check_queue(name)
        self.using = using
        self._shards = shards_of(using)

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    def info(self) -> QueueInfo:
        """Return the number of tasks in each state, and whether the queue is paused, in one round trip."""
        return self._run(self._info())

    async def ainfo(self) -> QueueInfo:
        """See `info`."""
        return await self._arun(self._info())

    def metrics(self, minutes: int = 60) -> Metrics:
        """Return metrics per minute, for the queue and by task name, in one round trip.

        Args:
            minutes: 1 to 180, the current one included.
        """
        return self._run(self._minutes(minutes))

    async def ametrics(self, minutes: int = 60) -> Metrics:
        """See `metrics`."""
        return await self._arun(self._minutes(minutes))

    def history(self, hours: int = 24) -> Metrics:
        """Return metrics per hour of the server's clock (UTC). The last minute or two may be missing.

        Args:
            hours: 1 to 336 (14 days), the current one included.
        """
        return self._run(self._hours(hours))

    async def ahistory(self, hours: int = 24) -> Metrics:
        """See `history`."""
        return await self._arun(self._hours(hours))

    def errors(self, *, limit: int = 50) -> list[ErrorGroup]:
        """Return the error groups of its tasks, newest first. A group is kept for FAILED_TTL after its last error.

        Args:
            limit: 1 to 100 groups.
        """
        return self._run(self._errors(limit))

    async def aerrors(self, *, limit: int = 50) -> list[ErrorGroup]:
        """See `errors`."""
        return await self._arun(self._errors(limit))

    def pause(self, reason: str = "", *, author: str = "", until: datetime | Seconds | None = None) -> None:
        """Stop workers from fetching its tasks. Running tasks continue, and new tasks are accepted.

        Args:
            reason, author: shown on the dashboard.
            until: when the queue resumes by itself: a datetime, or seconds or a timedelta from now; None: never.

        Raises:
            ValueError, TypeError: `until` is not a time in the future.
        """
        self._run(self._any_of(control.pause, reason, author, until))

    async def apause(self, reason: str = "", *, author: str = "", until: datetime | Seconds | None = None) -> None:
        """See `pause`."""
        await self._arun(self._any_of(control.pause, reason, author, until))

    def resume(self) -> bool:
        """Let workers fetch its tasks again. Returns whether it was paused."""
        return self._run(self._any_of(control.resume))

    async def aresume(self) -> bool:
        """See `resume`."""
        return await self._arun(self._any_of(control.resume))

    def groups(self, *, limit: int = 50) -> list[GroupInfo]:
        """Return the groups of the option `fair` that have most ready tasks, and all paused ones.

        Of more than 500 groups small ones may be missing.

        Args:
            limit: 1 to 200 groups; paused ones come on top.
        """
        return self._run(self._groups(limit)).groups

    async def agroups(self, *, limit: int = 50) -> list[GroupInfo]:
        """See `groups`."""
        return (await self._arun(self._groups(limit))).groups

    def pause_group(self, group: str, reason: str = "", *, author: str = "") -> None:
        """Stop workers from starting tasks of a group until it is resumed. Running tasks continue.

        Args:
            group: the text that the option `fair` makes of the arguments.
            reason, author: shown on the dashboard.

        Raises:
            ValueError: it is not the name of a group, or 200 groups of the queue are paused.
        """
        self._run(self._any_of(control.pause_group, group, reason, author))

    async def apause_group(self, group: str, reason: str = "", *, author: str = "") -> None:
        """See `pause_group`."""
        await self._arun(self._any_of(control.pause_group, group, reason, author))

    def resume_group(self, group: str) -> bool:
        """Let workers start tasks of a group again. Returns whether it was paused."""
        return self._run(self._any_of(control.resume_group, group))

    async def aresume_group(self, group: str) -> bool:
        """See `resume_group`."""
        return await self._arun(self._any_of(control.resume_group, group))

    def purge(self) -> Purge:
        """Remove all pending tasks, scheduled ones included, in one step. `restore` reverts it for 24 hours.

        Tasks that wait for other tasks of their flows are kept.
        """
        return self._run(self._purge())

    async def apurge(self) -> Purge:
        """See `purge`."""
        return await self._arun(self._purge())

    def restore(self, purge: Purge | str) -> int:
        """Restore the tasks of a purge, given as a `Purge` or its id, ahead of tasks enqueued since.

        Returns:
            How many tasks; 0 if they were restored before, if 24 hours have passed, or for another queue's purge.
        """
        return self._run(self._sum(control.restore, _purge_id(purge)))

    async def arestore(self, purge: Purge | str) -> int:
        """See `restore`."""
        return await self._arun(self._sum(control.restore, _purge_id(purge)))

    def retry_failed(self, ids: Sequence[str] | None = None) -> int:
        """Retry these failed tasks, or all that have failed until now. Returns how many."""
        return self._run(self._sum(control.retry_failed, ids))

    async def aretry_failed(self, ids: Sequence[str] | None = None) -> int:
        """See `retry_failed`."""
        return await self._arun(self._sum(control.retry_failed, ids))

    def delete_failed(self, ids: Sequence[str] | None = None) -> int:
        """Delete these failed tasks, or all that have failed until now. Returns how many."""
        return self._run(self._sum(control.delete_tasks, "failed", ids))

    async def adelete_failed(self, ids: Sequence[str] | None = None) -> int:
        """See `delete_failed`."""
        return await self._arun(self._sum(control.delete_tasks, "failed", ids))

    def delete_unregistered(self, ids: Sequence[str] | None = None) -> int:
        """Delete these tasks with unregistered names, or all of them. Returns how many."""
        return self._run(self._sum(control.delete_tasks, "unregistered", ids))

    async def adelete_unregistered(self, ids: Sequence[str] | None = None) -> int:
        """See `delete_unregistered`."""
        return await self._arun(self._sum(control.delete_tasks, "unregistered", ids))

    def reschedule(self, ids: Sequence[str], run_after: datetime | Seconds) -> int:
        """Change when those of these tasks are due that are ready or scheduled. Returns how many.

        Tasks that wait for their next attempt, or for a limit, are among them. An expiry stays as it is.

        Args:
            run_after: a datetime, or seconds or a timedelta from now.

        Raises:
            InvalidTask: `run_after` is not a valid time.
        """
        return self._run(self._sum(pending_tasks.reschedule_tasks, ids, due_of(run_after)))

    async def areschedule(self, ids: Sequence[str], run_after: datetime | Seconds) -> int:
        """See `reschedule`."""
        return await self._arun(self._sum(pending_tasks.reschedule_tasks, ids, due_of(run_after)))

    def run_now(self, ids: Sequence[str]) -> int:
        """Make those of these tasks due at once that are scheduled. Returns how many."""
        return self._run(self._sum(pending_tasks.reschedule_tasks, ids, ""))

    async def arun_now(self, ids: Sequence[str]) -> int:
        """See `run_now`."""
        return await self._arun(self._sum(pending_tasks.reschedule_tasks, ids, ""))

    def move(self, ids: Sequence[str], *, to: str) -> int:
        """Move those of these tasks to another queue that are pending. Returns how many.

        Each keeps its state, its due time, its priority, its unique key, its limits and its place in its flow.
        Unregistered tasks are ready there. A moved task comes after those that were in the other queue.

        Args:
            to: name of the other queue.

        Raises:
            ValueError: `to` is this queue, or not a name of a queue.
            UnknownQueue: the site declares its queues, and `to` is not one of them.
        """
        return self._run(self._move(ids, to))

    async def amove(self, ids: Sequence[str], *, to: str) -> int:
        """See `move`."""
        return await self._arun(self._move(ids, to))

    def cancel(self, ids: Sequence[str], *, force_after: Seconds | None = None) -> int:
        """Cancel those of these tasks that have not finished. Returns how many.

        Running ones are asked to stop, and counted at once; see `TaskResult.cancel`.

        Args:
            force_after: seconds until the process of a run that does not stop is killed. None:
                TASKQUEUE["CANCEL_GRACE"].
        """
        return self._run(self._sum(pending_tasks.cancel_tasks, ids, force_ms(force_after)))

    async def acancel(self, ids: Sequence[str], *, force_after: Seconds | None = None) -> int:
        """See `cancel`."""
        return await self._arun(self._sum(pending_tasks.cancel_tasks, ids, force_ms(force_after)))

    def tasks(self, state: str, *, limit: int = 50, offset: int = 0) -> list[TaskResult]:
        """List one page of the tasks in a state, in the order in which they run or have failed.

        Until it is refreshed, a result has only the last of its errors. Pending tasks that were cancelled or have
        expired are left out, so a page may be shorter than its limit.

        Finished tasks (successful, cancelled, expired) are listed newest first: the newest KEEP_FINISHED of each
        state, for FINISHED_TTL. If the result of one has expired, its name and times are known, and its arguments
        if they are at most 256 bytes of JSON; to read others, or its return value, raises `TaskResultDoesNotExist`.

        With several shards the order is that of the times, and ready tasks, of which each shard has an order of its
        own, are listed in turn. The ids of all tasks before the page are read, too.

        Args:
            state: ready, scheduled, waiting (for other tasks of a flow), running, failed, unregistered, successful,
                cancelled or expired.
            limit: 1 to 1000 tasks.
            offset: how many tasks to skip; positions change while workers fetch.
        """
        return self._run(self._page(state, limit, offset))

    async def atasks(self, state: str, *, limit: int = 50, offset: int = 0) -> list[TaskResult]:
        """See `tasks`."""
        return await self._arun(self._page(state, limit, offset))

    def _move(self, ids: Sequence[str], to: str) -> Flow[int]:
        target = get_queue(to, using=self.using).name
        if target == self.name:
            raise ValueError(f"to={to!r}: expected another queue than the one of the tasks.")
        return self._sum(pending_tasks.move_tasks, ids, target)

    def _info(self) -> Flow[QueueInfo]:
        return self._of_all(lambda shard: queue_stats.read_depths(shard, self.name), merged_info)

    def _purge(self) -> Flow[Purge]:
        trash = control.new_op()
        counts = yield from self._in_all(control.purge, trash)
        return Purge(self.name, trash, sum(count for _, count, _ in counts), sum(waiting for *_, waiting in counts))

    def _minutes(self, count: int) -> Flow[Metrics]:
        check_int(count, "minutes", 1, metrics.MAX_MINUTES)
        return self._of_all(lambda shard: metrics.read_minutes(shard, self.name, count), merged_metrics)

    def _hours(self, count: int) -> Flow[Metrics]:
        check_int(count, "hours", 1, metrics.MAX_HOURS)
        return self._of_all(lambda shard: metrics.read_hours(shard, self.name, count), merged_metrics)

    def _errors(self, limit: int) -> Flow[list[ErrorGroup]]:
        check_int(limit, "limit", 1, errors.MAX_ERRORS)
        found = self._of_all(lambda shard: errors.read_errors(shard, self.name, limit), merged_errors)
        return (yield from found)[:limit]

    def _groups(self, limit: int) -> Flow[GroupList]:
        check_int(limit, "limit", 1, MAX_GROUPS)
        return self._of_all(lambda shard: read_groups(shard, self.name, limit), partial(merged_groups, limit=limit))

    def _page(self, state: str, limit: int, offset: int) -> Flow[list[TaskResult]]:
        check_choice(state, "state", control.LISTED)
        check_int(limit, "limit", 1, MAX_PAGE)
        check_int(offset, "offset", 0, MAX_OFFSET)
        rows = yield from control.list_tasks_over(self._shards, self.name, state, limit, offset)
        return [_result_of(shard, row) for shard, row in rows]

    def _of_all(self, flow_of: Callable[[Shard], Flow[S]], merge: Callable[[list[S]], T]) -> Flow[T]:
        """Read from all shards, and merge what they have."""
        return merge((yield from over(self._shards, flow_of)))

    def _in_all(self, change: Callable[..., Flow[T]], *args: Any) -> Flow[list[T]]:
        """Perform an operation in all shards.

        Raises:
            PartlyDone: some shards have failed.
        """
        return over(self._shards, lambda shard: change(shard, self.name, *args), changes=True)

    def _sum(self, change: Callable[..., Flow[int]], *args: Any) -> Flow[int]:
        return sum((yield from self._in_all(change, *args)))

    def _any_of(self, change: Callable[..., Flow[Any]], *args: Any) -> Flow[bool]:
        return any((yield from self._in_all(change, *args)))

    def _run(self, flow: Flow[T]) -> T:
        return run_over(self.using, flow)

    async def _arun(self, flow: Flow[T]) -> T:
        return await arun_over(self.using, flow)


def _result_of(shard: Shard, row: control.Row) -> TaskResult:
    task_id, fields, failures = row
    name = fields[Field.task_name].decode()
    return TaskResult(registry.find(name), name, task_id, shard, fields, failures)


def get_queue(name: str, *, using: str = "default") -> Queue:
    """Return the queue of this name.

    Raises:
        ValueError: the name is not accepted.
        UnknownQueue: the site declares its queues, and this is not one of them.
    """
    return Queue(name, using=using)


def _purge_id(purge: Purge | str) -> str:
    if isinstance(purge, Purge | str):
        return purge.id if isinstance(purge, Purge) else encodable(purge)
    raise TypeError(f"purge={short_repr(purge)}: expected the result of purge(), or its id.")
