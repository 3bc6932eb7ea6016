"""Take jobs and settle acks in one round trip, safely repeated after a lost reply.

Each thread is a lane with request numbers of its own. A number is used until it is answered, so
that a request whose reply was lost gets the same jobs again instead of leaving them leased to
nobody.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from redis.exceptions import OutOfMemoryError, RedisError

from django_redis_components.core import conf, failpoints
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.outage_log import is_error_reply
from django_redis_components.core.protocol import Command
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.store.scripts import FETCH
from django_redis_components.taskqueue.worker.prefetched import Unbegun
from django_redis_components.taskqueue.worker.queue_order import Turns
from django_redis_components.taskqueue.worker.rejected_acks import LARGE_BYTES, RefusedOutcomes, is_at_fault

logger = logging.getLogger("django_redis_components.taskqueue")

#: Acks settled by one call, and bytes of theirs after which the next go with another; more wait for the next call.
MAX_ACKS, MAX_ACK_BYTES = 500, 1_048_576


class Fetcher:
    """The worker's side of `fetch.lua`, shared by its threads.

    Attributes:
        held: leases that this process holds, task id to token; the supervisor renews them.
        heard_at: when Redis last answered, by the monotonic clock; None before the first time.
    """

    def __init__(
        self,
        client: SyncClient,
        worker: str,
        queues: Sequence[str],
        *,
        weights: Sequence[int] = (),
        unbegun: Unbegun | None = None,
    ) -> None:
        """Make one for a worker.

        Args:
            weights: see `turns.Turns`.
            unbegun: where leases are noted whose task has not begun.
        """
        settings = conf.settings().taskqueue
        self._client = client
        self._worker = worker
        self._pid = forks.process_id()
        self._turns = Turns(queues, weights)
        self._lease_ms = to_ms(settings.lease_s, "lease")
        self._failed_limit = settings.failed_limit
        self._base = base_key()
        self._acks: deque[Ack] = deque()
        self._refused = RefusedOutcomes()
        #: Outcomes under way, by lane; and the last error that concerned all outcomes, until some have arrived.
        self._sending: dict[str, int] = {}
        #: Held while acks move from one to the other: an ack that neither counts would look delivered.
        self._counting = threading.Lock()
        self._refusal: BaseException | None = None
        self._requests: dict[str, int] = {}
        self._due_at = 0.0
        #: What is added to the server's time to have that of our monotonic clock, in seconds.
        self._offset_s = math.inf
        self._asking: set[str] = set()
        self._unbegun = unbegun
        #: Called when an outcome was set aside that `retry_refused` must send.
        self.on_refused: Callable[[], None] = _do_nothing
        self.held: dict[str, str] = {}
        self.heard_at: float | None = None

    def settle(self, ack: Ack) -> None:
        """Have an ack sent with the next call."""
        self._acks.append(ack)

    def begin(self, job: Job) -> None:
        """Note that the task begins now."""
        if self._unbegun is not None:
            self._unbegun.discard(job.id, job.token)
            self._unbegun.count_running(1)

    def end(self) -> None:
        """Note that a task has ended."""
        if self._unbegun is not None:
            self._unbegun.count_running(-1)

    def unsent(self) -> int:
        """Acks that wait to be sent."""
        return len(self._acks)

    def undelivered(self) -> int:
        """Acks that wait to be sent, or are under way; without those that were refused alone."""
        with self._counting:
            return len(self._acks) + sum(list(self._sending.values()))

    def seconds_to_retry(self) -> float | None:
        """Seconds until an outcome that was refused is tried again; None without any."""
        return self._refused.seconds_to_next()

    def retry_refused(self) -> None:
        """Send the outcomes again that were refused, each alone, as far as their pauses are over.

        Raises:
            redis.exceptions.RedisError: no answer, or one that concerns all outcomes.
        """
        due = deque(self._refused.take_due())
        try:
            while due:
                # Whether the server takes small writes: else the outcome's size is not the reason.
                self._client.execute(Command("SET", f"{self._base}:op:probe", "1", "PX", 1_000, retry=True))
                self._settle_alone(due[0])
                due.popleft()
        except BaseException:
            for each in due:
                self._refused.wait(each)
            raise

    def asking(self) -> int:
        """How many requests for jobs are under way: what they bring is not in `held` yet."""
        return len(self._asking)

    def seconds_to_due(self) -> float | None:
        """Seconds until the next due task of our queues, as far as the last call knew; None if none."""
        return self._due_at - time.monotonic() if self._due_at else None

    def has_more(self) -> bool:
        """Whether something has fallen due, or the last call had too much to pass over to look at all."""
        due_s = self.seconds_to_due()
        return due_s is not None and due_s <= 0

    def fetch(self, lane: str, want: int) -> list[Job]:
        """Send the acks that wait, and lease up to `want` jobs.

        Raises:
            redis.exceptions.RedisError: no answer. Acks and request number are kept for the next call.
        """
        forks.exit_in_child(self._pid)
        if want:
            self._asking.add(lane)
        try:
            return self._fetch(lane, want)
        finally:
            self._asking.discard(lane)

    def _fetch(self, lane: str, want: int) -> list[Job]:
        with self._counting:
            acks = self._take_acks()
            self._sending[lane] = len(acks)
        if want and not acks and self._refusal is not None and self.undelivered():
            raise self._refusal  # what more is run has an outcome too, which cannot be sent either
        sent_at = time.monotonic()
        try:
            if acks:
                failpoints.reach("before_ack")
            done, rows, due_ms, now_us = self._call(lane, want, acks)
        except BaseException as exc:  # not only Redis' own: the lease of an outcome that is lost is renewed for ever
            if not acks or not is_error_reply(exc):
                self._acks.extendleft(reversed(acks))
                raise
            self._settle_after(exc, acks)
            return self._fetch(lane, want) if want else []
        finally:
            self._sending.pop(lane, None)
        self._requests[lane] = self._requests.get(lane, 0) + 1
        self.heard_at = time.monotonic()
        self._forget(acks, done)
        if want:
            self._set_clock(sent_at - now_us / 1e6, self.heard_at - now_us / 1e6)
            self._due_at = due_ms / 1_000 + self._offset_s if due_ms else 0.0
        jobs = [Job.parse(row, now_us) for row in rows]
        self.held.update((job.id, job.token) for job in jobs)
        if self._unbegun is not None:
            for job in jobs[1:]:  # the first one begins at once
                self._unbegun.add(job.id, job.token)
        if jobs:
            failpoints.reach("after_fetch")
        return jobs

    def _call(self, lane: str, want: int, acks: Sequence[Ack]) -> Any:
        queues = self._turns.order() if want else ()
        return self._client.execute(
            FETCH(
                base=self._base,
                worker=self._worker,
                fetch_slot=lane,
                request=self._requests.get(lane, 0),
                lease_ms=self._lease_ms,
                want=want,
                failed_limit=self._failed_limit,
                queues=len(queues),
                rest=[*queues, *[part for ack in acks for part in ack]],
            )
        )

    def _settle_after(self, exc: BaseException, acks: Iterable[Ack]) -> None:
        """Find out which of the acks of a refused call is the reason; the others pass.

        Raises:
            redis.exceptions.RedisError: the reason is none of them. They are kept for the next call.
        """
        waiting = deque(acks)
        if isinstance(exc, OutOfMemoryError):
            for ack in [ack for ack in waiting if len(ack.payload) > LARGE_BYTES]:
                waiting.remove(ack)
                self._refused.set_aside(ack)
                self.on_refused()
        while waiting:
            try:
                self._settle_alone(waiting[0])
            except BaseException as error:
                self._acks.extendleft(reversed(waiting))
                self._refusal = error if is_error_reply(error) else None
                raise
            waiting.popleft()

    def _settle_alone(self, ack: Ack) -> None:
        """Send one ack; if it is refused for its own fault it is set aside."""
        try:
            done = self._call("alone", 0, [ack])[0]
        except RedisError as exc:
            if not is_at_fault(ack, exc):
                raise
            if self._refused.add(ack, exc):
                self.on_refused()
            else:
                self._release(ack)
        else:
            self.heard_at = time.monotonic()
            self._refused.forget(ack)
            self._forget([ack], done)

    def _set_clock(self, least_s: float, most_s: float) -> None:
        """The server looked at its clock between request and reply: a late reply alone would make the timers late."""
        self._offset_s = min(max(self._offset_s, least_s), most_s)

    def _take_acks(self) -> list[Ack]:
        """Threads take from the same end: what one has counted, another may have taken."""
        acks: list[Ack] = []
        with contextlib.suppress(IndexError):
            size = 0
            while len(acks) < MAX_ACKS and size < MAX_ACK_BYTES:
                acks.append(self._acks.popleft())
                size += len(acks[-1].payload)
        return acks

    def _release(self, ack: Ack) -> None:
        """Have the lease of an ack renewed no more."""
        if self.held.get(ack.id) == ack.token:
            del self.held[ack.id]

    def _forget(self, acks: Sequence[Ack], done: Sequence[int]) -> None:
        if acks:
            self._refusal = None
        for ack, applied in zip(acks, done, strict=True):
            self._release(ack)
            if ack.outcome == "back" and self._unbegun is not None:
                self._unbegun.discard(ack.id, ack.token)
            if not applied and ack.outcome != "back":
                logger.warning(
                    "The outcome (%s) of task %s came after its lease was lost, and was not taken.",
                    ack.outcome,
                    ack.id,
                    extra={"task_id": ack.id},
                )


def _do_nothing() -> None:
    """Where nobody waits for refused outcomes."""
