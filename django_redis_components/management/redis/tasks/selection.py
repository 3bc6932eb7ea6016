"""Which tasks a command finds or changes: those of these ids, or those that match filters in queues and states."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime

from django_redis_components.core.chunks import chunks
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.units import aware
from django_redis_components.dashboard.queues.task_query import json_text, needle_of
from django_redis_components.dashboard.task_search.counts import read_counts
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.stats import fingerprint
from django_redis_components.taskqueue.stats.queue_stats import read_depths
from django_redis_components.taskqueue.store.control import CHUNK
from django_redis_components.taskqueue.store.scan import BUDGET, Filters, ScannedTask, scan_tasks

#: Most tasks that one command changes: their ids are 20 MB.
MAX_SELECTED = 200_000


@dataclasses.dataclass(frozen=True, slots=True)
class FoundTask:
    """A task that was found."""

    queue: str
    state: str
    task: ScannedTask


def filters_of(
    *,
    name: str = "",
    text: str = "",
    error: str = "",
    anywhere: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> Filters:
    """Return filters from what was typed.

    Args:
        text: part of the arguments.
        error: part of the last error, or a fingerprint.
        anywhere: part of the name, the arguments or the last error.
    """
    is_group = fingerprint.PATTERN.fullmatch(error) is not None
    return Filters(
        name=name,
        text=needle_of(text),
        error="" if is_group else json_text(error),
        fingerprint=error if is_group else "",
        begin_ms=_ms(since),
        end_ms=_ms(until),
        any_text=json_text(anywhere),
        any_body=needle_of(anywhere),
    )


class Search:
    """Looks for tasks that match, in one state and queue after the other.

    Attributes:
        queues: names of the queues that are searched.
        total: how many tasks they have in these states.
        searched: how many tasks were looked at so far.
    """

    def __init__(self, shard: Shard, queue: str, states: Sequence[str], filters: Filters) -> None:
        depths = shard.run(read_depths(shard, *([queue] if queue else [])))
        self._shard, self._filters = shard, filters
        counts = shard.run(read_counts(shard, depths, states))
        self._parts = [(state, name) for state, name, _ in counts]
        self.queues = sorted(depth.name for depth in depths)
        self.total = sum(count for _, _, count in counts)
        self.searched = 0

    def matches(self, limit: int, budget: int | None = None, *, ids_only: bool = False) -> Iterator[FoundTask]:
        """Yield up to `limit` tasks; looks at up to `budget` tasks, or at all."""
        for state, queue in self._parts:
            cursor, has_more = "", True
            while has_more and limit > 0 and (budget is None or self.searched < budget):
                scan = self._shard.run(
                    scan_tasks(
                        self._shard,
                        queue,
                        state,
                        self._filters,
                        cursor=cursor,
                        limit=min(limit, CHUNK),
                        budget=BUDGET if budget is None else min(BUDGET, budget - self.searched),
                        mode="ids" if ids_only else "rows",
                    )
                )
                self.searched += scan.scanned
                cursor, has_more = scan.last, scan.has_more
                for task in scan.tasks:
                    limit -= 1
                    yield FoundTask(queue, state, task)


@dataclasses.dataclass(slots=True)
class Selected:
    """The tasks of a change in one shard.

    Attributes:
        ids: by queue.
        until_us: the server's time: tasks that have entered their queue, or the state, since are not changed.
    """

    ids: dict[str, list[str]]
    until_us: int

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return sum(map(len, self.ids.values()))

    @property
    def until_ms(self) -> str:
        """The server's time in milliseconds, as scripts of failed tasks take it."""
        return f"{self.until_us // 1_000}.{self.until_us % 1_000:03}"


@dataclasses.dataclass(slots=True)
class TaskSelection:
    """The tasks of a change, by shard.

    Attributes:
        asked: how many ids were given; 0 for filters.
        is_cut: whether more tasks match.
    """

    parts: dict[Shard, Selected] = dataclasses.field(default_factory=dict)
    asked: int = 0
    is_cut: bool = False

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return sum(part.count for part in self.parts.values())

    @property
    def queues(self) -> set[str]:
        """The names of their queues."""
        return {queue for part in self.parts.values() for queue in part.ids}


def select_ids(using: str, ids: Sequence[str]) -> TaskSelection:
    """Return tasks by id, by their shards and queues; those without a record are left out."""
    unique = list(dict.fromkeys(ids))
    selection = TaskSelection(asked=len(unique))
    for shard in shards_of(using):
        at_us, queues = shard.run(_read_queues(shard, unique))
        selected = selection.parts[shard] = Selected({}, at_us)
        for task_id, queue in zip(unique, queues, strict=True):
            if queue is not None:
                selected.ids.setdefault(queue, []).append(task_id)
    return selection


def select_matching(using: str, queue: str, state: str, filters: Filters) -> TaskSelection:
    """Return the tasks that match now, by their shards and queues."""
    selection = TaskSelection()
    for shard in shards_of(using):
        at_us, _ = shard.run(_read_queues(shard, []))
        selected = selection.parts[shard] = Selected({}, at_us)
        limit = MAX_SELECTED - selection.count
        for match in Search(shard, queue, [state], filters).matches(limit + 1, ids_only=True):
            selected.ids.setdefault(match.queue, []).append(match.task.record.id)
        if selection.count > MAX_SELECTED:
            selection.is_cut = True
            selected.ids[next(reversed(selected.ids))].pop()
    return selection


def _read_queues(shard: Shard, ids: Sequence[str]) -> Flow[tuple[int, list[str | None]]]:
    """Return the server's time in microseconds, and the queue of each task; None without a record."""
    queues: list[str | None] = []
    time = yield Read("TIME", key=shard.base)
    for some in chunks(ids, CHUNK):
        reads = [Read("HMGET", shard.record(task_id), Field.queue) for task_id in some]
        replies = yield Batch(reads, return_exceptions=True)  # an id may name another key of a task: WRONGTYPE
        for reply in replies:
            if isinstance(reply, Exception) and not str(reply).startswith("WRONGTYPE"):
                raise reply
            queue = None if isinstance(reply, Exception) else reply[0]
            queues.append(queue.decode() if queue else None)
    return int(time[0]) * 1_000_000 + int(time[1]), queues


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else int(aware(moment).timestamp() * 1_000)
