"""Bounded reads about queues, workers and the poller, for the dashboard and for `get_queue`."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core import conf, keys
from django_redis_components.core.protocol import Batch, Call, Command, Flow, Read
from django_redis_components.taskqueue.stats import metrics
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.scripts import QUEUE_STATS

logger = logging.getLogger("django_redis_components.taskqueue")

#: Most workers that are read at once.
MAX_WORKERS = 200
#: Minutes of the past that the overview tells of.
OVERVIEW_MINUTES = 60


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """Why, by whom and since when a queue is paused; `until` is None if it does not resume by itself."""

    reason: str
    author: str
    at: datetime
    until: datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class QueueDepth:
    """How many tasks of a queue are in which state.

    Attributes:
        ready: waiting for a worker, those that have fallen due included.
        scheduled: waiting for their time, retries included.
        running: leased to a worker.
        failed: failed for good and kept.
        unregistered: of a name that no worker has known.
        oldest_age_s: how long the oldest task that waits for a worker has waited, in seconds; None if none waits.
        next_due_at: when the next scheduled task falls due; None if none is scheduled.
        paused: the pause, or None.
        limited: how many of the ready and scheduled ones wait for a limit.
        waiting: waiting for other tasks of their flows.
    """

    name: str
    ready: int
    scheduled: int
    running: int
    failed: int
    unregistered: int
    oldest_age_s: float | None
    next_due_at: datetime | None
    paused: Pause | None = None
    limited: int = 0
    waiting: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker process: what it last said of itself, and how long ago, in seconds.

    Attributes:
        state: working, quiet (it fetches nothing more) or leaving (it is being replaced).
    """

    id: str
    seen_s: float
    host: str
    pid: int
    queues: tuple[str, ...]
    threads: int
    busy: int
    finished: int
    started_at: datetime | None
    state: str = "working"


@dataclasses.dataclass(frozen=True, slots=True)
class Overview:
    """All queues, workers and the poller at one moment.

    Attributes:
        poller: id of the active poller, or None.
        eviction_policy: the server's maxmemory-policy; None if it may not be read.
        metrics: what the first 50 queues have done in the last hour, by name.
    """

    at: datetime
    queues: list[QueueDepth]
    workers: list[WorkerInfo]
    poller: str | None
    eviction_policy: str | None
    metrics: dict[str, metrics.Metrics] = dataclasses.field(default_factory=dict)

    @property
    def evicts(self) -> bool:
        """Whether the server may drop tasks when its memory is full."""
        return self.eviction_policy not in (None, "noeviction")


def depths(*names: str) -> Flow[list[QueueDepth]]:
    """Depths of these queues, or of all that are known (200 at most) and those that the settings name."""
    now_us, rows = yield QUEUE_STATS(base=base_key(), known=0, queues=names) if names else _survey()
    return [_depth(row, now_us) for row in _of_queues(rows)]


def overview() -> Flow[Overview]:
    """Everything the dashboard's first page shows of the queue, in two round trips."""
    base = base_key()
    survey, seen, poller, info = yield Batch(
        [
            _survey(),
            Read("ZREVRANGE", f"{base}:workers", 0, MAX_WORKERS - 1, "WITHSCORES"),
            Read("GET", f"{base}:poller"),
            Command("INFO", "memory", key=base, retry=True),
        ],
        return_exceptions=True,
    )
    for reply in (survey, seen, poller):
        if isinstance(reply, RedisError):
            raise reply
    now_us, rows = survey[0], _of_queues(survey[1])
    beats = {worker.decode(): float(ms) for worker, ms in zip(seen[::2], seen[1::2], strict=True)}
    said, done = yield from _more(beats, [row[0] for row in rows[: metrics.MAX_QUEUES]])
    workers = [_worker(worker, beats[worker], text, now_us) for worker, text in zip(beats, said, strict=True)]
    return Overview(
        at=datetime.fromtimestamp(now_us / 1e6, UTC),
        queues=[_depth(row, now_us) for row in rows],
        workers=workers,
        poller=poller.decode() if poller else None,
        eviction_policy=policy_of(info),
        metrics=done,
    )


def _of_queues(rows: list[Any]) -> list[Any]:
    """The rows whose name a queue can have. Another client may have written any member into the index."""
    found = []
    for row in rows:
        try:
            keys.validate_name(row[0].decode())
        except ValueError:
            logger.warning("Skipped a corrupt member of the index of queues: %r", row[0][:100])
        else:
            found.append(row)
    return found


def _survey() -> Call:
    """All queues. Those of the settings are there before their first task."""
    return QUEUE_STATS(base=base_key(), known=1, queues=conf.settings().taskqueue.queues or ())


def _more(workers: Collection[str], queues: list[bytes]) -> Flow[tuple[list[bytes | None], dict[str, metrics.Metrics]]]:
    """What these workers say of themselves, and what these queues have done in the last hour."""
    asked: list[Call | Command] = []
    if workers:
        asked.append(Read("MGET", *[f"{base_key()}:worker:{worker}" for worker in workers]))
    if queues:
        asked.append(metrics.measuring(queues, OVERVIEW_MINUTES))
    replies = (yield Batch(asked)) if asked else []
    said = replies[0] if workers else []
    return said, metrics.measured(replies[-1], OVERVIEW_MINUTES) if queues else {}


def policy_of(info: Any) -> str | None:
    """The maxmemory-policy in a reply of INFO memory, or None."""
    if not isinstance(info, bytes):
        return None
    for line in info.decode().splitlines():
        if line.startswith("maxmemory_policy:"):
            return line.partition(":")[2].strip()
    return None


def _depth(row: Any, now_us: int) -> QueueDepth:
    name, ready, scheduled, running, failed, unregistered, oldest_us, due_ms, paused, limited, waiting = row
    return QueueDepth(
        name.decode(),
        ready,
        scheduled,
        running,
        failed,
        unregistered,
        max(0.0, (now_us - oldest_us) / 1e6) if oldest_us else None,
        _moment(due_ms) if due_ms else None,
        pause_of(paused),
        limited,
        waiting,
    )


def pause_of(stored: bytes) -> Pause | None:
    """A pause as it is stored, ``until_ms|since_ms|JSON``; None for an empty one."""
    if not stored:
        return None
    until_ms, since_ms, text = stored.decode().split("|", 2)
    note = json.loads(text)
    until = _moment(int(until_ms)) if int(until_ms) else None
    return Pause(note["reason"], note["author"], _moment(int(since_ms)), until)


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1_000, UTC).replace(microsecond=ms % 1_000 * 1_000)


def _worker(worker: str, beat_ms: float, text: bytes | None, now_us: int) -> WorkerInfo:
    seen_s = max(0.0, now_us / 1e6 - beat_ms / 1e3)
    try:
        return _told(worker, seen_s, json.loads(text or "{}"))
    except (ValueError, TypeError, AttributeError, OverflowError, OSError, RecursionError):
        # Somebody else wrote the key.
        return _told(worker, seen_s, {})


def _told(worker: str, seen_s: float, said: dict[str, Any]) -> WorkerInfo:
    started = said.get("started_at")
    return WorkerInfo(
        id=worker,
        seen_s=seen_s,
        host=str(said.get("host") or worker.partition(":")[0]),
        pid=int(said.get("pid", 0)),
        queues=tuple(map(str, said.get("queues", ()))),
        threads=int(said.get("threads", 0)),
        busy=int(said.get("busy", 0)),
        finished=int(said.get("finished", 0)),
        started_at=datetime.fromtimestamp(started, UTC) if started else None,
        state=str(said.get("state") or "working"),
    )
