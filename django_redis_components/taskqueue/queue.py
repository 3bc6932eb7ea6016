"""`get_queue(name)`: what can be asked of a queue as a whole, and done to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.options import check_queue, check_whole
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.stats import errors, metrics
from django_redis_components.taskqueue.stats import overview as inspect
from django_redis_components.taskqueue.stats.errors import ErrorGroup
from django_redis_components.taskqueue.stats.metrics import Metrics
from django_redis_components.taskqueue.store import queues as control

T = TypeVar("T")

#: Most tasks that one page of `jobs` has.
MAX_PAGE = 1_000
#: Largest offset that Lua's numbers carry exactly.
MAX_OFFSET = 2**53 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Purge:
    """What a purge took away: `Queue.undo_purge(purge)` brings it back for a day.

    Attributes:
        count: how many tasks.
        waiting: how many it has left alone, since they wait for other tasks of their flows.
    """

    queue: str
    id: str
    count: int
    waiting: int = 0


class Queue:
    """A queue by name. Making one asks nothing of Redis. Each method has an asyncio twin (``adepths``)."""

    def __init__(self, name: str, *, using: str = "default") -> None:
        self.name = keys.validate_name(name, "queue name")
        check_queue(name)
        self._using = using

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"

    def depths(self) -> inspect.QueueDepth:
        """How many tasks are in which state, and whether it is paused: one round trip of bounded cost."""
        return self._run(inspect.depths(self.name))[0]

    async def adepths(self) -> inspect.QueueDepth:
        """See `depths`."""
        return (await self._arun(inspect.depths(self.name)))[0]

    def metrics(self, minutes: int = 60) -> Metrics:
        """What it has done in the latest minutes, by task name too: one round trip of bounded cost.

        Args:
            minutes: 1 to 180, the one that has not ended included.
        """
        return self._run(self._minutes(minutes))

    async def ametrics(self, minutes: int = 60) -> Metrics:
        """See `metrics`."""
        return await self._arun(self._minutes(minutes))

    def history(self, hours: int = 24) -> Metrics:
        """What it has done in the latest hours, on the server's clock (UTC). The last minute or two may be missing.

        Args:
            hours: 1 to 336 (14 days), the one that has not ended included.
        """
        return self._run(self._hours(hours))

    async def ahistory(self, hours: int = 24) -> Metrics:
        """See `history`."""
        return await self._arun(self._hours(hours))

    def errors(self, limit: int = 50) -> list[ErrorGroup]:
        """The errors of its tasks, each kind once, newest first. Kept for FAILED_TTL after the last one.

        Args:
            limit: 1 to 100 kinds.
        """
        return self._run(self._errors(limit))

    async def aerrors(self, limit: int = 50) -> list[ErrorGroup]:
        """See `errors`."""
        return await self._arun(self._errors(limit))

    def pause(self, reason: str = "", *, author: str = "", until: datetime | Seconds | None = None) -> None:
        """Fetch nothing more from it; what runs goes on, and tasks are still accepted.

        Args:
            reason, author: shown on the dashboard.
            until: when it resumes by itself: a datetime, or seconds or a timedelta from now; None: never.

        Raises:
            ValueError, TypeError: `until` is no moment to come.
        """
        self._run(control.pause(self.name, reason, author, until))

    async def apause(self, reason: str = "", *, author: str = "", until: datetime | Seconds | None = None) -> None:
        """See `pause`."""
        await self._arun(control.pause(self.name, reason, author, until))

    def resume(self) -> bool:
        """Fetch from it again. Returns whether it was paused."""
        return self._run(control.resume(self.name))

    async def aresume(self) -> bool:
        """See `resume`."""
        return await self._arun(control.resume(self.name))

    def purge(self) -> Purge:
        """Take away all that waits, scheduled tasks included, whatever their number. It can be undone for a day.

        Tasks that wait for others of their flows stay: they come here when those have finished.
        """
        return Purge(self.name, *self._run(control.purge(self.name)))

    async def apurge(self) -> Purge:
        """See `purge`."""
        return Purge(self.name, *await self._arun(control.purge(self.name)))

    def undo_purge(self, purge: Purge | str) -> int:
        """Bring back what a purge (or one by its id) took away, before what has come since.

        Returns how many tasks: 0 if it was undone before, or a day ago, or was not of this queue.
        """
        return self._run(control.undo_purge(self.name, _bin(purge)))

    async def aundo_purge(self, purge: Purge | str) -> int:
        """See `undo_purge`."""
        return await self._arun(control.undo_purge(self.name, _bin(purge)))

    def retry_failed(self, ids: Sequence[str] | None = None) -> int:
        """Let failed tasks run again: these, or all that have failed until now. Returns how many."""
        return self._run(control.requeue(self.name, ids))

    async def aretry_failed(self, ids: Sequence[str] | None = None) -> int:
        """See `retry_failed`."""
        return await self._arun(control.requeue(self.name, ids))

    def delete_failed(self, ids: Sequence[str] | None = None) -> int:
        """Delete failed tasks: these, or all that have failed until now. Returns how many."""
        return self._run(control.discard(self.name, "failed", ids))

    async def adelete_failed(self, ids: Sequence[str] | None = None) -> int:
        """See `delete_failed`."""
        return await self._arun(control.discard(self.name, "failed", ids))

    def delete_parked(self, ids: Sequence[str] | None = None) -> int:
        """Delete parked tasks, whose names no worker knows: these, or all. Returns how many."""
        return self._run(control.discard(self.name, "parked", ids))

    async def adelete_parked(self, ids: Sequence[str] | None = None) -> int:
        """See `delete_parked`."""
        return await self._arun(control.discard(self.name, "parked", ids))

    def jobs(self, state: str, *, limit: int = 50, offset: int = 0) -> list[TaskResult]:
        """One page of the tasks in a state, those first whose turn (or whose failure) comes first.

        Of their failures each has the last one only, until it is refreshed. Tasks that were cancelled or have
        expired are left out, so a page may be shorter than its limit.

        Args:
            state: ready, scheduled, waiting (for other tasks of a flow), running, failed or parked.
            limit: 1 to 1000 tasks.
            offset: how many to pass over; positions move while workers fetch.
        """
        return self._results(self._run(self._page(state, limit, offset)))

    async def ajobs(self, state: str, *, limit: int = 50, offset: int = 0) -> list[TaskResult]:
        """See `jobs`."""
        return self._results(await self._arun(self._page(state, limit, offset)))

    def _minutes(self, count: int) -> Flow[Metrics]:
        check_whole("minutes", count, 1, metrics.MAX_MINUTES)
        return metrics.minutes(self.name, count)

    def _hours(self, count: int) -> Flow[Metrics]:
        check_whole("hours", count, 1, metrics.MAX_HOURS)
        return metrics.hours(self.name, count)

    def _errors(self, limit: int) -> Flow[list[ErrorGroup]]:
        check_whole("limit", limit, 1, errors.MAX_ERRORS)
        return errors.errors(self.name, limit)

    def _page(self, state: str, limit: int, offset: int) -> Flow[list[control.Row]]:
        if state not in control.LISTED:
            raise ValueError(f"state={state!r}: expected one of {', '.join(control.LISTED)}.")
        check_whole("limit", limit, 1, MAX_PAGE)
        check_whole("offset", offset, 0, MAX_OFFSET)
        return control.page(self.name, state, limit, offset)

    def _results(self, rows: list[control.Row]) -> list[TaskResult]:
        results = []
        for task_id, fields, failures in rows:
            name = fields["n"].decode()
            results.append(TaskResult(registry.find(name), name, task_id, self._using, fields, failures))
        return results

    def _run(self, flow: Flow[T]) -> T:
        return run(connections.client(self._using), flow)

    async def _arun(self, flow: Flow[T]) -> T:
        return await arun(connections.aclient(self._using), flow)


def get_queue(name: str, *, using: str = "default") -> Queue:
    """The queue of that name.

    Raises:
        ValueError: the name is not accepted.
        UnknownQueue: the site declares its queues, and this is none of them.
    """
    return Queue(name, using=using)


def _bin(purge: Purge | str) -> str:
    if isinstance(purge, Purge | str):
        return purge.id if isinstance(purge, Purge) else purge
    raise TypeError(f"purge={purge!r}: expected what purge() returned, or its id.")
