"""Events for the page Live of the dashboard: what happens to tasks, and to callers that wait for locks and semaphores.

Each process keeps at most `MAX_EVENTS` in its memory, and a thread adds them to a stream once a second
(`flushing`); running a task sends no command more. Further events are counted. Arguments and results are never
recorded. The stream is ``<prefix>:live:{events}``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping

from django_redis_components.core import keys
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.observability.flushing import Collector
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable

#: Events that a process records between two transfers, and all worker processes together in a second, about.
MAX_EVENTS = 50
#: Those of them that may be routine: starts and successes. The rest is left to failures, retries and locks.
MAX_ROUTINE = 35
#: Events that the stream keeps, about, and for how long after the last one, in milliseconds.
MAX_KEPT, KEPT_MS = 1_000, 60_000
#: Shortest wait for a lock that is recorded, in seconds.
MIN_WAIT_S = 0.1
#: Characters of each text of an event.
MAX_TEXT = 300
#: Longest time that a transfer waits for a reply, in seconds.
TIMEOUT_S = 0.5
#: Fields of an entry of the stream. All entries of a site have the same, so that the server stores their names once.
FIELDS = (
    "kind", "subject", "name", "task_id", "queue", "source", "error", "message", "duration_us", "left_out", "age_us",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event.

    Attributes:
        kind: what has happened, such as "started", "failed" or "acquired".
        subject: "task", "lock" or "semaphore"; "" for the number of events that were not recorded.
        name: of the task, lock or semaphore.
        task_id, queue: of the task.
        source: id of the worker, or host and process; "" until the event is sent.
        duration_s: how long the task ran, or the caller waited, in seconds; None if unknown.
        error, message: class and text of the task's exception, the text without its variable parts.
        left_out: how many events were not recorded.
        shard: of the task, if the worker serves several; "" otherwise.
    """

    kind: str
    subject: str
    name: str
    task_id: str = ""
    queue: str = ""
    source: str = ""
    duration_s: float | None = None
    error: str = ""
    message: str = ""
    left_out: int = 0
    shard: str = ""


class LockWait:
    """The wait of one `acquire` of a lock or a semaphore.

    Attributes:
        using: the connection.
        started_at: monotonic seconds; 0 before the wait.
        is_acquired: whether the caller has got its lease.
        is_recorded: whether the wait itself was recorded.
    """

    __slots__ = ("_name", "_subject", "is_acquired", "is_recorded", "started_at", "using")

    def __init__(self, using: str, subject: str, name: str) -> None:
        """Args: subject, name: see `LiveEvent`."""
        self.using, self._subject, self._name = using, subject, name
        self.started_at = 0.0
        self.is_acquired = self.is_recorded = False

    def start(self) -> None:
        """Note that the caller waits, unless it has waited before."""
        if not self.started_at:
            self.started_at = time.monotonic()
            RECORDER.start_wait(self)

    def end(self) -> None:
        """Record that the wait has ended, if there was one."""
        if self.started_at:
            RECORDER.end_wait(self)

    def event(self, kind: str, now: float) -> LiveEvent:
        """Return an event about the wait so far."""
        return LiveEvent(kind, self._subject, self._name, duration_s=now - self.started_at)


class Allowance:
    """How many events of a sort this process may still record: its share of what all worker processes record.

    A share of less than one a second is one event in several seconds. Threads take from it without a lock, so that they
    may take one more each.

    Attributes:
        left: how many.
    """

    __slots__ = ("_of_fleet", "_renew_at", "left")

    def __init__(self, of_fleet: int) -> None:
        """Args: of_fleet: how many all processes record in a second."""
        self._of_fleet = self.left = of_fleet
        self._renew_at = 0.0

    def renew(self, now: float, fleet: int) -> bool:
        """Allow the share of a second, once the last one is used up and its time is over; return whether any is left.

        Args:
            fleet: number of worker processes.
        """
        if now >= self._renew_at:
            self.left = max(1, self._of_fleet // fleet)
            self._renew_at = now + fleet / self._of_fleet if fleet > self._of_fleet else now
        return self.left > 0


class LiveRecorder(Collector):
    """Records the events of this process.

    Attributes:
        fleet: number of worker processes, of which this is one.
        source: id of this worker; "": host and process are used.
        is_open: whether a routine event may have room. A worker that runs tens of thousands of tasks a second asks no
            method that they have none.
        leave_out: counts an event that is not recorded.
    """

    name = "live-events"
    logger = guarded_logger("django_redis_components.dashboard")
    warning = "Events cannot be recorded for the page Live: %s"
    fleet = 1

    def reset(self) -> None:
        """See the base class."""
        super().reset()
        #: Monotonic time, connection and event.
        self._events: deque[tuple[float, str, LiveEvent]] = deque()
        #: `next` is atomic, unlike adding to an attribute, and threads that run tasks share no lock.
        self._left_out = itertools.count()
        self._left_out_taken = 0
        self.leave_out = self._left_out.__next__
        self.is_open = True
        self._routine, self._others = Allowance(MAX_ROUTINE), Allowance(MAX_EVENTS)
        self._waits: dict[int, LockWait] = {}
        self.source = ""

    def has_room(self, *, is_routine: bool = False) -> bool:
        """Return whether to `add` an event. Otherwise it is counted, unless no events are recorded at all."""
        if not is_on():
            self.is_open = False  # until the settings change
            return False
        allowance = self._routine if is_routine else self._others
        if allowance.left > 0 and len(self._events) < MAX_EVENTS:
            allowance.left -= 1
            return True
        self.leave_out()
        return False

    def add(self, using: str, event: LiveEvent) -> None:
        """Record an event of a connection, for which there is room."""
        self._events.append((time.monotonic(), using, event))
        self.is_open = self._routine.left > 0 and len(self._events) < MAX_ROUTINE
        self.notify()  # after `is_open`, which the transfer sets again

    def send(self, using: str, event: LiveEvent) -> None:
        """Record an event, and send it from this thread: the process must not start another one."""
        if self.has_room():
            self._events.append((time.monotonic(), using, event))
            self.flush()

    def start_wait(self, wait: LockWait) -> None:
        """Record a wait when it becomes long enough."""
        if is_on():
            self._waits[id(wait)] = wait
            self.notify()

    def end_wait(self, wait: LockWait) -> None:
        """Record that a wait has ended, if it was long enough."""
        now = time.monotonic()
        if self._waits.pop(id(wait), None) and now - wait.started_at >= MIN_WAIT_S and self.has_room():
            self.add(wait.using, wait.event("acquired" if wait.is_acquired else "gave_up", now))

    def take(self) -> Mapping[str, list[Command]]:
        """See the base class."""
        now = time.monotonic()
        events = [*self._taken(), *self._long_waits(now)]
        self._renew_allowances(now)
        if not events:
            return {}
        left_out = self._take_left_out() + len(events[MAX_EVENTS:])
        events = events[:MAX_EVENTS]
        if left_out:
            note = LiveEvent("left_out", "", "", left_out=left_out)
            events += [(now, using, note) for using in {using for _, using, _ in events}]
        source = self.source or f"{socket.gethostname()}:{os.getpid()}"
        requests: dict[str, list[Command]] = {}
        for at, using, event in events:
            requests.setdefault(using, []).append(_request(event, event.source or source, now - at))
        for each in requests.values():
            each.append(Command("PEXPIRE", stream_key(), KEPT_MS))
        return requests

    def timeout_s(self) -> float:
        """See the base class."""
        return TIMEOUT_S

    def _taken(self) -> Iterator[tuple[float, str, LiveEvent]]:
        with contextlib.suppress(IndexError):
            while True:
                yield self._events.popleft()

    def _renew_allowances(self, now: float) -> None:
        self.is_open = self._routine.renew(now, self.fleet)
        if not self._others.renew(now, self.fleet) or not self.is_open:
            self.notify()  # in a second, for the next renewal

    def _take_left_out(self) -> int:
        total = next(self._left_out)
        number, self._left_out_taken = total - self._left_out_taken, total + 1
        return number

    def _long_waits(self, now: float) -> Iterator[tuple[float, str, LiveEvent]]:
        """Return the waits that have become long enough to record."""
        for wait in [wait for wait in list(self._waits.values()) if not wait.is_recorded]:
            if now - wait.started_at >= MIN_WAIT_S:
                wait.is_recorded = True
                yield now, wait.using, wait.event("waiting", now)
            else:
                self.notify()


def is_on() -> bool:
    """Return whether events are recorded. Code that needs the settings reports that they are invalid."""
    try:
        return conf.settings().live_events
    except ConfigurationError:
        return False


def stream_key() -> str:
    """Return the key of the stream."""
    return keys.key("live", "events")


def _request(event: LiveEvent, source: str, age_s: float) -> Command:
    """Return the command that adds an event. The server's clock minus its age gives its time."""
    texts = (event.kind, event.subject, event.name, event.task_id, event.queue, source, event.error, event.message)
    duration_us = "" if event.duration_s is None else round(event.duration_s * 1e6)
    values = [*(encodable(text[:MAX_TEXT]) for text in texts), duration_us, event.left_out, round(age_s * 1e6)]
    fields = [part for field in zip(FIELDS, values, strict=True) for part in field]
    of_shard = ("shard", event.shard) if event.shard else ()  # no entry of a site with one shard has it
    return Command("XADD", stream_key(), "MAXLEN", "~", MAX_KEPT, "*", *fields, *of_shard)


#: The recorder of this process.
RECORDER = LiveRecorder()
