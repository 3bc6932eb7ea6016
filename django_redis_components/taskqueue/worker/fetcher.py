"""Fetch jobs and settle acks in one round trip, repeated safely after a lost reply.

Each thread has its own request numbers. A number is used until its request is answered: a request
whose reply was lost returns the same jobs again, so no lease is left without a worker.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from redis.exceptions import OutOfMemoryError, RedisError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import failpoints, forks, log_handler
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import is_error_reply
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import REQUEUED
from django_redis_components.taskqueue.store.finished import finished_bounds
from django_redis_components.taskqueue.store.job import Ack, Job, ack_args, parse_batches
from django_redis_components.taskqueue.store.scripts import FETCH
from django_redis_components.taskqueue.worker.ipc import PrefetchedLeases
from django_redis_components.taskqueue.worker.queue_order import QueueOrder
from django_redis_components.taskqueue.worker.rejected_acks import (
    LARGE_BYTES,
    RejectedAcks,
    is_caused_by,
    may_close_connection,
)

#: Acks settled by one call, and bytes of their payloads; the others are sent with the next call.
MAX_ACKS, MAX_ACK_BYTES = 500, 1_048_576


class Fetcher:
    """The worker's client of `fetch.lua`, shared by its threads.

    Attributes:
        settle: have an ack sent with the next request.
        replied_at: when Redis last replied, on the monotonic clock; None before the first reply.
    """

    def __init__(
        self,
        shard: Shard,
        client: SyncClient,
        worker: str,
        queues: Sequence[str],
        *,
        weights: Sequence[int] = (),
        prefetched: PrefetchedLeases | None = None,
    ) -> None:
        """
        Args:
            shard: whose tasks it fetches.
            client: of that shard.
            worker: the worker's id.
            weights: see `QueueOrder`.
            prefetched: where leases are noted whose task has not started.
        """
        settings = conf.settings().taskqueue
        self._shard, self._client, self._worker = shard, client, worker
        self._pid = forks.process_id()
        self._order = QueueOrder(queues, weights)
        self._lease_ms = to_ms(settings.lease_s, "lease")
        self._failed_limit = settings.failed_limit
        self._finished_bounds = finished_bounds()
        self._base = shard.base
        self._acks: deque[Ack] = deque()
        self.settle = self._acks.append
        self._rejected = RejectedAcks()
        #: Ids of the threads whose current request has acks, or whose next one may.
        self._sending: set[int] = set()
        #: The error reply that concerned all acks, until one is accepted.
        self._error: BaseException | None = None
        self._requests: dict[str, int] = {}
        self._due_at = 0.0
        #: Our monotonic clock minus the server's clock, in seconds.
        self._offset_s = math.inf
        self._fetching: set[str] = set()
        #: Names of the threads whose last request for jobs had no reply.
        self._unanswered: set[str] = set()
        self._prefetched = prefetched
        #: By task id and token: a task may be leased again before its former lease is removed. Threads share it without
        #: a lock, which would cost a tenth of the throughput: each step on a dict or set is atomic in CPython.
        self._leases: dict[tuple[str, str], None] = {}
        #: Jobs with `on_stored`, and what is called with them when Redis has stored their outcomes.
        self._expecting: dict[tuple[str, str], Job] = {}
        self.on_stored: Callable[[Job, Ack], object] = _call_on_stored
        #: Called when acks could not be sent, and must be sent again: by a request, or by `retry_rejected`.
        self.on_unsent: Callable[[], object] = lambda: None
        self.replied_at: float | None = None

    @property
    def leases(self) -> dict[str, str]:
        """The leases of this process, token by task id. Of two leases of a task it is the newer one."""
        return dict(list(self._leases))

    def has_leases(self) -> bool:
        """Return whether this process has leases; cheaper than `leases`, which is a copy."""
        return bool(self._leases)

    def settle_run(self, job: Job, ack: Ack) -> None:
        """Have the ack of a run sent with the next request. When Redis has stored it, `on_stored` is called."""
        if job.on_stored is not None:
            self._expecting[ack.id, ack.token] = job
        self.settle(ack)

    def return_job(self, job: Job) -> None:
        """Return a job that has not started to its queue, with the next request."""
        for other in reversed(job.others):  # the first one is at the head again
            self.settle(Ack(other.id, other.token, REQUEUED))
        self.settle(Ack(job.id, job.token, REQUEUED))

    def mark_others_started(self, job: Job) -> None:
        """Note that the other tasks of a batch start, too: they run in the same thread."""
        if self._prefetched is not None:
            for other in job.others:
                self._prefetched.remove(other.id, other.token)

    def pending_acks(self) -> int:
        """Return the number of acks to send."""
        return len(self._acks)

    def has_unconfirmed_acks(self) -> bool:
        """Return whether acks are to be sent or not yet answered, without those rejected individually.

        Threads move acks between the two places meanwhile: either order alone could miss them.
        """
        return bool(self._sending or self._acks or self._sending)

    def seconds_to_retry(self) -> float | None:
        """Return the seconds until a rejected ack is sent again; None without any."""
        return self._rejected.seconds_to_next()

    def retry_rejected(self) -> None:
        """Send again, one by one, the rejected acks whose backoff is over.

        Raises:
            redis.exceptions.RedisError: no reply, or an error that concerns all acks.
        """
        due = deque(self._rejected.pop_due())
        try:
            while due:
                # If the server rejects small writes too, the size of the ack is not the reason.
                self._client.execute(Command("SET", self._shard.key(Key.reply, "probe"), "1", "PX", 1_000, retry=True))
                self._settle_alone(due[0], is_reachable=True)
                due.popleft()
        except BaseException:
            for ack in due:
                self._rejected.postpone(ack)
            self.on_unsent()
            raise

    def pending_requests(self) -> int:
        """Return the number of unanswered requests for jobs: their leases are not in `leases` yet."""
        return len(self._fetching)

    def has_unanswered(self, thread: str) -> bool:
        """Return whether the last request of a thread had no reply: only its next request gets the jobs of that one."""
        return thread in self._unanswered

    def set_queues(self, queues: Sequence[str], weights: Sequence[int] = ()) -> None:
        """Fetch from these queues from now on; see `QueueOrder`."""
        self._order.set(queues, weights)

    def seconds_to_due(self) -> float | None:
        """Return the seconds until the next scheduled task of the queues is due, as of the last reply; None if none."""
        return self._due_at - time.monotonic() if self._due_at else None

    def has_more(self) -> bool:
        """Return whether a scheduled task is due, or the last request stopped before it had examined the queues."""
        due_s = self.seconds_to_due()
        return due_s is not None and due_s <= 0

    def fetch(self, thread: str, want: int) -> list[Job]:
        """Send the pending acks, and lease up to `want` jobs.

        Raises:
            redis.exceptions.RedisError: no reply. The acks and the request number are kept for the next call.
        """
        forks.exit_in_child(self._pid)
        if want:
            self._fetching.add(thread)
        try:
            jobs = self._fetch(thread, want)
        except BaseException:
            if want:
                self._unanswered.add(thread)
            raise
        finally:
            self._fetching.discard(thread)
        if self._unanswered and want:
            self._unanswered.discard(thread)
        return jobs

    def _fetch(self, thread: str, want: int) -> list[Job]:
        acks = self._take_acks()
        if want and not acks and self._error is not None and self.has_unconfirmed_acks():
            raise self._error  # the outcome of another job could not be sent either
        sent_at = time.monotonic()
        reply = None
        try:
            if acks:
                log_handler.format_successes()
                failpoints.reach("before_ack")
            reply = self._request(thread, want, acks)
        except BaseException as exc:  # not only Redis errors: the lease of a lost ack would be renewed for ever
            if not acks or not is_error_reply(exc):
                self._return_acks(self._postpone_suspects(acks, exc))
                raise
            self._settle_after_error(exc, acks)
        finally:
            self._sending.discard(threading.get_ident())
        if reply is None:
            return self._fetch(thread, want) if want else []
        done, rows, due_ms, now_us = reply
        self._requests[thread] = self._requests.get(thread, 0) + 1
        self.replied_at = time.monotonic()
        self._confirm(acks, done)
        if want:
            self._update_clock(sent_at - now_us / 1e6, self.replied_at - now_us / 1e6)
            self._due_at = due_ms / 1_000 + self._offset_s if due_ms else 0.0
        try:
            jobs = [Job.parse(row, now_us) for row in rows]
        except ValueError:  # a row of a batch has one item more than the others: these pay nothing for it
            jobs = self._parse_batches(rows, now_us)
        return self._add_leases(jobs)

    def _parse_batches(self, rows: Sequence[Any], now_us: int) -> list[Job]:
        """Return the jobs of a reply that has batches, and add the leases of all but the first task of each."""
        jobs = parse_batches(rows, now_us)
        self._leases.update(dict.fromkeys([(other.id, other.token) for job in jobs for other in job.others]))
        if self._prefetched is not None:
            for other in [other for job in jobs[1:] for other in job.others]:
                self._prefetched.add(other.id, other.token)
        return jobs

    def _add_leases(self, jobs: list[Job]) -> list[Job]:
        self._leases.update(dict.fromkeys([(job.id, job.token) for job in jobs]))
        if self._prefetched is not None:
            for job in jobs[1:]:  # the first one starts at once
                self._prefetched.add(job.id, job.token)
        if jobs:
            failpoints.reach("after_fetch")
        return jobs

    def _request(self, thread: str, want: int, acks: Sequence[Ack]) -> Any:
        queues = self._order.next() if want else ()
        return self._client.execute(
            FETCH(
                base=self._base,
                worker=self._worker,
                thread=thread,
                request=self._requests.get(thread, 0),
                lease_ms=self._lease_ms,
                want=want,
                failed_limit=self._failed_limit,
                queues=len(queues),
                rest=[*queues, *ack_args(acks)],
                **self._finished_bounds,
            )
        )

    def _settle_after_error(self, exc: BaseException, acks: Iterable[Ack]) -> None:
        """Find the acks that caused the error reply to a request; settle the others.

        Raises:
            redis.exceptions.RedisError: none of them is the cause. They are kept for the next request.
        """
        unsettled = deque(acks)
        if isinstance(exc, OutOfMemoryError):
            for ack in [ack for ack in unsettled if len(ack.payload) > LARGE_BYTES]:
                unsettled.remove(ack)
                self._rejected.postpone_large(ack)
                self.on_unsent()
        while unsettled:
            try:
                self._settle_alone(unsettled[0])
            except BaseException as error:
                self._return_acks(unsettled)
                self._error = error if is_error_reply(error) else None
                raise
            unsettled.popleft()

    def _postpone_suspects(self, acks: Iterable[Ack], exc: BaseException) -> list[Ack]:
        """Keep the acks apart for which the server may have closed the connection; return the others."""
        suspects = [ack for ack in acks if may_close_connection(ack, exc)]
        for ack in suspects:
            self._rejected.postpone(ack)
            self.on_unsent()
        return [ack for ack in acks if ack not in suspects]

    def _settle_alone(self, ack: Ack, *, is_reachable: bool = False) -> None:
        """Send one ack, and keep it for a retry if it causes an error reply.

        Args:
            is_reachable: the server has just replied, so it closes the connection because of the ack.
        """
        try:
            done = self._request("alone", 0, [ack])[0]
        except RedisError as exc:
            if not (is_caused_by(ack, exc) or (is_reachable and may_close_connection(ack, exc))):
                raise
            if self._rejected.add(ack, exc):
                self.on_unsent()
            else:
                self._remove_lease(ack)
        else:
            self.replied_at = time.monotonic()
            self._rejected.remove(ack)
            self._confirm([ack], done)

    def _update_clock(self, least_s: float, most_s: float) -> None:
        """Bound the offset by the times of request and reply. A late reply alone would make timers late."""
        self._offset_s = min(max(self._offset_s, least_s), most_s)

    def _take_acks(self) -> list[Ack]:
        """Take the acks of the next request. Threads take concurrently, so the deque may become empty meanwhile."""
        thread = threading.get_ident()
        self._sending.add(thread)  # before: an ack that is in neither place would look confirmed
        acks: list[Ack] = []
        with contextlib.suppress(IndexError):
            size = 0
            while len(acks) < MAX_ACKS and size < MAX_ACK_BYTES:
                acks.append(self._acks.popleft())
                size += len(acks[-1].payload)
        if not acks:
            self._sending.discard(thread)
        return acks

    def _return_acks(self, acks: Sequence[Ack]) -> None:
        """Put acks back that were not sent. Their thread may end now, and another one has seen that none is pending."""
        self._acks.extendleft(reversed(acks))
        if acks:
            self.on_unsent()

    def _remove_lease(self, ack: Ack) -> None:
        """Stop the renewal of the lease of an ack that is not sent again."""
        self._expecting.pop((ack.id, ack.token), None)
        self._leases.pop((ack.id, ack.token), None)

    def _confirm(self, acks: Sequence[Ack], done: Sequence[int]) -> None:
        if acks:
            self._error = None
        for ack, applied in zip(acks, done, strict=True):
            self._leases.pop((ack.id, ack.token), None)
            if self._expecting:
                job = self._expecting.pop((ack.id, ack.token), None)
                if job is not None and applied:
                    self.on_stored(job, ack)
            if ack.outcome == REQUEUED:
                if self._prefetched is not None:
                    self._prefetched.remove(ack.id, ack.token)
            elif not applied:
                message = "The outcome (%s) of task %s was discarded: its lease had expired."
                logger.warning(message, ack.outcome, ack.id, extra={"task_id": ack.id})


def _call_on_stored(job: Job, ack: Ack) -> None:
    """Call `on_stored` at once, in the thread that has got the reply."""
    if job.on_stored is not None:
        job.on_stored(ack)
