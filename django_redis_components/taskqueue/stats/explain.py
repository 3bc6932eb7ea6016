"""Why a task does not run: its state, its place in the queue, and every fact that holds it back, in one read."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of, moment_of_ms
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import TaskResultDoesNotExist
from django_redis_components.taskqueue.fair_share import group_of
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.record import TaskRecord
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import is_final
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.metrics import run_time_of
from django_redis_components.taskqueue.stats.queue_stats import QueuePause, pause_of
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo, worker_info
from django_redis_components.taskqueue.store.scripts import EXPLAIN
from django_redis_components.taskqueue.store.task_records import fields_of

#: Longest value of a record that is read, in bytes: arguments, metadata or return value above it are shown as a size.
MAX_BYTES = 65_536
#: Errors that are read, the latest.
MAX_ERRORS = 10
#: Characters of a task's id above which no task is looked for.
MAX_ID = 200


@dataclasses.dataclass(frozen=True, slots=True)
class OtherTask:
    """Another task that a reason refers to. Name and state are "" if its record was deleted."""

    id: str
    name: str
    state: str


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """A fact that keeps a task from running.

    Attributes:
        code: see `Explanation.reasons`.
        at: when it ends or has begun; see the code.
        count: how many tasks, threads or workers; see the code.
        name: of a queue, limit, worker or person; see the code.
        is_exact: whether the count is exact; else it is about that many.
        tasks: at most 5 of the tasks that hold it back.
    """

    code: str
    at: datetime | None = None
    count: int = 0
    name: str = ""
    is_exact: bool = True
    tasks: tuple[OtherTask, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Explanation:
    """A task at one moment, and what decides whether it runs.

    Attributes:
        at: the server's time.
        record: without values above 64 KiB, whose sizes are in `sizes` by `Field`.
        fields: the stored values of the record, by `Field`.
        place: ready, scheduled, group (waits for a turn of its group), concurrency (waits for the limit), rate, purged,
            trash (it was deleted), the state itself if the task is in the list of its state, or "" if it is in none.
        ahead, higher: tasks that are served before it, and those of a higher priority among them; see `is_exact`.
        due_at: when a scheduled task is due.
        pause: of its queue, or None.
        workers: those of its queue, with and without a recent heartbeat.
        parents, followers: unfinished tasks that it waits for, and tasks that wait for it; at most 5.
        holders: tasks that hold its concurrency limit, at most 5.
        unique_holder: the task that has its unique key, or None.
        facts: the other numbers, as text: see explain.lua.
        versions: of the site's code, by the id of the worker that ran the task; those that are known.
        run_time: of the tasks of its name in its queue, in the last 3 hours.
    """

    at: datetime
    record: TaskRecord[Any]
    fields: Mapping[str, bytes]
    state: str
    place: str
    ahead: int
    higher: int
    is_exact: bool
    due_at: datetime | None
    pause: QueuePause | None
    workers: tuple[WorkerInfo, ...]
    parents: tuple[OtherTask, ...]
    followers: tuple[OtherTask, ...]
    holders: tuple[OtherTask, ...]
    unique_holder: OtherTask | None
    sizes: Mapping[str, int]
    facts: Mapping[str, str]
    versions: Mapping[str, str]
    run_time: Histogram

    @property
    def queue(self) -> str:
        """The name of its queue."""
        return self.text(Field.queue)

    @property
    def group(self) -> str:
        """The group of the option `fair`; "" without one."""
        return group_of(self.text(Field.fair_share))

    @property
    def is_finished(self) -> bool:
        """Whether it has succeeded, failed, expired or been cancelled."""
        return is_final(self.state)

    @property
    def is_deleted(self) -> bool:
        """Whether it was deleted or purged, and can be restored."""
        return self.place in ("purged", "trash")

    @property
    def live_workers(self) -> list[WorkerInfo]:
        """Workers of the queue with a heartbeat within the duration of a lease."""
        lease_s = conf.settings().taskqueue.lease_s
        return [worker for worker in self.workers if worker.heartbeat_age <= lease_s]

    def fact(self, name: str) -> int:
        """Return a number; 0 if it is missing or corrupt."""
        return number_of(self.facts.get(name, ""))

    def text(self, field: str) -> str:
        """Return a field of the record as text, "" without one."""
        return self.fields.get(field, b"").decode(errors="replace")

    @property
    def reasons(self) -> list[Reason]:
        """Why it does not run, the decisive fact first; empty while it runs or after it has finished.

        ==============  ==================================================================================
        deleted         it was deleted or purged, and can be restored
        expired         it expired `at`, before it started
        waiting         for `count` tasks of its flow: `tasks`
        on_error        it runs only if another task of its flow fails
        on_complete     it runs when all tasks of its flow have finished
        on_success      it runs when all tasks of its flow have succeeded
        unregistered    its `name` is registered in no worker
        due, retry      it is due `at`; a retry is number `count`
        rate            the rate limit `name` lets it start `at`, after `count` others
        paused          the queue is paused, by `name`, until `at` or without an end
        no_worker       no live worker serves the queue `name`
        quiet           all `count` workers of the queue fetch nothing more
        concurrency     the concurrency limit `name` is full: held by `tasks`, `count` tasks are ahead
        group_paused    its group `name` is paused
        batch           it waits for further calls of its batch, until `at` at the latest
        turn            it waits for a turn of its group `name`, behind `count` tasks of the group
        behind          `count` tasks are served first
        busy            it is next; all `count` threads are busy
        busy_coroutines  it is next, and a coroutine; all `count` that may run at once do
        next            it is next, and a thread is free
        unknown         it is in no list of its queue
        ==============  ==================================================================================
        """
        return [] if self.state == "running" or (self.is_finished and not self.is_deleted) else [*_reasons(self)]


def explain(shard: Shard, task_id: str) -> Flow[Explanation]:
    """Read a task and why it does not run, in one round trip.

    Raises:
        TaskResultDoesNotExist: no task has this id, or its result has expired.
    """
    reply = []
    if 0 < len(task_id) <= MAX_ID:
        reply = yield EXPLAIN(base=shard.base, id=encodable(task_id), max_bytes=MAX_BYTES, errors=MAX_ERRORS)
    if not reply:
        raise TaskResultDoesNotExist(task_id)
    now_us, values, sizes, errors, facts, members, workers, versions, minutes = reply
    found = _explanation(task_id, int(now_us), fields_of(values), sizes, errors, _facts(facts), members, workers)
    return dataclasses.replace(found, versions=_versions(versions), run_time=run_time_of(minutes[1::2]))


def number_of(value: str | bytes) -> int:
    """Return an integer that a record states; 0 if it is none."""
    try:
        return int(value)
    except ValueError:
        return 0


def _explanation(
    task_id: str,
    now_us: int,
    values: dict[str, bytes],
    sizes: Any,
    errors: Any,
    facts: dict[str, str],
    members: Any,
    workers: Any,
) -> Explanation:
    name = values.get(Field.task_name, b"").decode(errors="replace")
    record: TaskRecord[Any] = TaskRecord(name, task_id, values, errors)
    place, due_ms = facts.get("place", ""), number_of(facts.get("due_ms", ""))
    others, queue = _members(members), values.get(Field.queue, b"").decode(errors="replace")
    return Explanation(
        at=moment_of(now_us),
        record=record,
        fields=values,
        state=_state(values.get(Field.state, b"").decode(errors="replace"), place),
        place=place,
        ahead=number_of(facts.get("ahead", "")),
        higher=number_of(facts.get("higher", "")),
        is_exact=facts.get("is_exact") != "0",
        due_at=moment(due_ms),
        pause=pause_of(facts.get("paused", "").encode()),
        workers=tuple(_workers(workers, queue, now_us)),
        parents=others["parent"],
        followers=others["follower"],
        holders=others["holder"],
        unique_holder=next(iter(others["unique"]), None),
        sizes={name.decode(): size for name, size in pairs_of(sizes)},
        facts=facts,
        versions={},
        run_time=Histogram(()),
    )


def moment(at_ms: int) -> datetime | None:
    """Return a time from milliseconds since the epoch; None for 0 and for a corrupt one."""
    try:
        return moment_of_ms(at_ms) if at_ms > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _state(stored: str, place: str) -> str:
    if stored in ("", "ready", "scheduled"):
        return "scheduled" if place in ("scheduled", "rate") else "ready"
    return stored


def _facts(pairs: list[Any]) -> dict[str, str]:
    return {
        name.decode(): value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        for name, value in pairs_of(pairs)
    }


def _versions(values: list[bytes]) -> dict[str, str]:
    texts = [value.decode(errors="replace") for value in values]
    return dict(pairs_of(texts))


def _members(values: list[bytes]) -> dict[str, tuple[OtherTask, ...]]:
    texts = [value.decode(errors="replace") for value in values]
    rows = list(zip(texts[::4], texts[1::4], texts[2::4], texts[3::4], strict=True))
    return {
        relation: tuple(OtherTask(*row[1:]) for row in rows if row[0] == relation)
        for relation in ("parent", "follower", "holder", "unique")
    }


def _workers(values: list[bytes], queue: str, now_us: int) -> Iterator[WorkerInfo]:
    for worker, seen_ms, report in zip(values[::3], values[1::3], values[2::3], strict=True):
        info = worker_info(worker.decode(errors="replace"), float(seen_ms), report, now_us)
        if queue in info.queues:
            yield info


#: Codes of the callbacks of a flow that wait, in the order of their numbers.
_CALLBACKS = ("on_error", "on_complete", "on_success")


def _reasons(task: Explanation) -> Iterator[Reason]:
    """Yield the reasons; see `Explanation.reasons`."""
    if task.is_deleted:
        yield Reason("deleted")
        return
    if task.fact("has_expired"):
        yield Reason("expired", moment(number_of(task.text(Field.expiry).partition(" ")[0])))
        return
    if task.state == "waiting":
        yield _waiting(task)
    elif task.state == "unregistered":
        yield Reason("unregistered", name=task.record.name)
    elif task.place == "scheduled":
        yield _due(task)
    elif task.place == "rate":
        due_at = moment(number_of(task.text(Field.due_at_ms)))
        yield Reason("rate", due_at, task.ahead + 1, limit_key(task, Field.rate))
    yield from _queue_reasons(task)
    yield from _place_reasons(task)


def _waiting(task: Explanation) -> Reason:
    callback = task.fact("callback")
    if 0 < callback <= len(_CALLBACKS):
        return Reason(_CALLBACKS[callback - 1])
    return Reason("waiting", count=task.fact("open_parents"), tasks=task.parents)


def _due(task: Explanation) -> Reason:
    if task.fact("is_reserved"):
        return Reason("rate", task.due_at, 0, limit_key(task, Field.rate))
    if task.state == "retrying":
        return Reason("retry", task.due_at, number_of(task.text(Field.attempts)))
    return Reason("due", task.due_at)


def _queue_reasons(task: Explanation) -> Iterator[Reason]:
    """Yield what holds back all tasks of the queue."""
    if task.pause:
        yield Reason("paused", task.pause.ends_at, name=task.pause.author)
    live = task.live_workers
    if not live:
        yield Reason("no_worker", name=task.queue)
    elif all(worker.state != "working" for worker in live):
        yield Reason("quiet", count=len(live), name=task.queue)


def _place_reasons(task: Explanation) -> Iterator[Reason]:
    """Yield what the place of a task in its queue tells."""
    if task.place == "concurrency":
        yield Reason("concurrency", count=task.ahead, name=limit_key(task, Field.concurrency), tasks=task.holders)
    elif task.place == "group":
        starts_at = moment(task.fact("batch_start_ms"))
        if task.fact("is_group_paused"):
            yield Reason("group_paused", count=task.ahead, name=task.group)
        elif starts_at is not None and starts_at > task.at:
            yield Reason("batch", starts_at, task.ahead, task.group)
        else:
            yield Reason("turn", count=task.ahead, name=task.group)
    elif task.place == "ready":
        yield _next_in_queue(task)
    elif not task.place and task.state != "waiting":
        yield Reason("unknown")


def _next_in_queue(task: Explanation) -> Reason:
    """Return how far a task is from the head of its queue."""
    if task.ahead:
        return Reason("behind", count=task.ahead, is_exact=task.is_exact)
    live = task.live_workers
    threads = sum(worker.threads for worker in live)
    if threads and sum(worker.busy_threads for worker in live) >= threads:
        return Reason("busy", count=threads)
    coroutines = sum(worker.async_concurrency for worker in live)
    if coroutines and sum(worker.busy_coroutines for worker in live) >= coroutines and _is_coroutine(task):
        return Reason("busy_coroutines", count=coroutines)
    return Reason("next")


def _is_coroutine(task: Explanation) -> bool:
    """Return whether the task is a coroutine function; False if its name is not registered in this process."""
    registered = registry.find(task.record.name)
    return registered is not None and inspect.iscoroutinefunction(registered.func)


def limit_key(task: Explanation, field: str) -> str:
    """Return the key of a limit, from "limit/key" or "interval/tolerance/key"; "" without one."""
    parts = task.text(field).split("/", 1 if field == Field.concurrency else 2)
    return parts[-1] if parts[1:] else ""
