"""Fetch from several shards: a `Fetcher` for each, and the rules which one a fetch goes to.

Queues are served in strict order over all shards. Of each shard a process knows a bound: no task is ready in a queue
before it, as of the last reply. A fetch goes to the shard with the lowest bound, and asks for the queues up to the
lowest one of the others. A bound is trusted for `TRUST_S`: so long may a task of an earlier queue wait for one of a
later queue in another shard.

A shard that does not answer is left out, and one thread tries it again. What concerns it stays in its fetcher. All
threads of a process may wait for the one that fetches, so it waits for a second at most, and for less if the shard has
been fast.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from redis.exceptions import RedisError, TimeoutError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import OutageLog, describe_error
from django_redis_components.taskqueue.shard_clients import TIMEOUT_S, prompt_client
from django_redis_components.taskqueue.shards import Shard, shard_of_token, thread_suffix
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.ipc import PrefetchedLeases
from django_redis_components.taskqueue.worker.queue_order import QueueOrder

T = TypeVar("T")

#: Seconds for which a bound is trusted. With 5 ms of work that was fetched before, a task of an earlier queue waits for
#: 20 ms of later queues. A busy process sends at most one empty fetch in this time to each shard.
TRUST_S = 0.015
#: Seconds that a fetch waits for a shard whose replies of late took less than `FAST_S`. Of others see `prompt_client`.
QUICK_S, FAST_S = 0.2, 0.05
#: What remains of the longest reply time after each further reply: the longest of about a hundred counts.
DECAY = 0.98
#: Seconds between two tries to reach a shard that is away: the first ones, and later ones.
FIRST_RETRY_S, MAX_RETRY_S = 0.1, 2.0


def open_fetcher(
    shards: Sequence[Shard],
    worker: str,
    queues: Sequence[str],
    weights: Sequence[int],
    prefetched: PrefetchedLeases | None,
) -> Fetcher | ShardedFetcher:
    """Return what a worker gets its tasks from."""
    if len(shards) == 1:
        [shard] = shards
        return Fetcher(shard, shard.client(), worker, queues, weights=weights, prefetched=prefetched)
    return ShardedFetcher(shards, worker, queues, weights=weights, prefetched=prefetched)


class _ShardOrder(QueueOrder):
    """The first queues of the order: as many as the current thread asks for."""

    def __init__(self, queues: Sequence[str], weights: Sequence[int]) -> None:
        super().__init__(queues, weights)
        self.asked = threading.local()

    def next(self) -> tuple[str, ...]:
        """Return the queues of the next fetch of this thread."""
        return super().next()[: self.asked.count]


class _ShardFetcher(Fetcher):
    """The fetcher of one of several shards.

    Attributes:
        shard: whose tasks it fetches.
        suffix: what the names of its threads end with, and so the tokens of its leases.
        bound: number of queues, in order, in which no task was ready as of `seen_at`.
        turn: the lower, the earlier it is asked, among shards with the same bound.
        is_away: whether it does not answer.
        is_tried: whether a thread tries it again.
        is_quick: whether a fetch waits for `QUICK_S` only.
    """

    def __init__(
        self,
        shard: Shard,
        suffix: str,
        worker: str,
        queues: Sequence[str],
        weights: Sequence[int],
        prefetched: PrefetchedLeases | None,
    ) -> None:
        self._prompt, self._quick = prompt_client(shard), prompt_client(shard, QUICK_S)
        super().__init__(shard, self._prompt, worker, queues, prefetched=prefetched)
        self._order = self._shard_order = _ShardOrder(queues, weights)
        self.shard = shard
        self.suffix = suffix
        self.bound = self.turn = 0
        self.seen_at = 0.0
        self.is_away = self.is_tried = False
        self._longest_s = TIMEOUT_S
        self.outage = OutageLog(logger.warning, logger.info, f"Shard {shard.name}: ")

    @property
    def is_quick(self) -> bool:
        """Whether a fetch waits for `QUICK_S` only."""
        return self._client is self._quick

    def fetch_first(self, thread: str, want: int, queues: int) -> list[Job]:
        """Fetch from the first queues; see `fetch`."""
        self._shard_order.asked.count = queues
        began_at = time.monotonic()
        jobs = self.fetch(thread + self.suffix, want)
        self._longest_s = max(time.monotonic() - began_at, self._longest_s * DECAY)
        self._client = self._quick if self._longest_s < FAST_S else self._prompt
        for job in jobs:
            for each in (job, *job.others):
                each.shard = self.shard
        return jobs

    def note_outage(self, error: Exception) -> None:
        """Log that the shard does not answer."""
        self.outage.failed(f"Shard {self.shard.name}: {describe_error(error)}; the other shards are served.")

    def be_patient(self) -> None:
        """Wait for the next replies as long as for those of a slow shard."""
        self._longest_s, self._client = TIMEOUT_S, self._prompt

    def return_unanswered(self) -> None:
        """Return the jobs of requests without a reply to their queue: the threads may not ask for them for long."""
        for thread in list(self._unanswered):
            self._shard_order.asked.count = 1
            for job in self.fetch(thread, 1):
                self.return_job(job)

    def current_bound(self, now: float, since: float) -> int:
        """Return the bound, or 0 if it is too old, or if a task is due.

        Args:
            since: a bound that was learned after this time counts in any case.
        """
        is_trusted = self.seen_at >= since or (now - self.seen_at <= TRUST_S and not self.has_more())
        return self.bound if is_trusted else 0


class ShardedFetcher:
    """The worker's client of several shards, with the interface of a `Fetcher`."""

    def __init__(
        self,
        shards: Sequence[Shard],
        worker: str,
        queues: Sequence[str],
        *,
        weights: Sequence[int] = (),
        prefetched: PrefetchedLeases | None = None,
    ) -> None:
        """Args: as of `Fetcher`."""
        self._ranks = {queue: rank for rank, queue in enumerate(queues)}
        self._is_strict = not weights
        self._parts = [_ShardFetcher(each, thread_suffix(each), worker, queues, weights, prefetched) for each in shards]
        self._by_shard = {part.shard: part for part in self._parts}
        self._home = self._parts[0]
        self._using = self._home.shard.using
        self._lock = threading.Lock()
        self._turns = 0
        #: The error of the shard that has failed last.
        self._error: BaseException | None = None
        self.mark_others_started = self._home.mark_others_started

    @property
    def leases(self) -> dict[str, str]:
        """See `Fetcher.leases`."""
        return {task_id: token for part in self._parts for task_id, token in part.leases.items()}

    @property
    def replied_at(self) -> float | None:
        """When any shard last replied: the process is healthy while one does."""
        return max((part.replied_at for part in self._parts if part.replied_at is not None), default=None)

    @property
    def on_stored(self) -> Callable[[Job, Ack], object]:
        """See `Fetcher.on_stored`."""
        return self._home.on_stored

    @on_stored.setter
    def on_stored(self, value: Callable[[Job, Ack], object]) -> None:
        for part in self._parts:
            part.on_stored = value

    @property
    def on_unsent(self) -> Callable[[], object]:
        """See `Fetcher.on_unsent`."""
        return self._home.on_unsent

    @on_unsent.setter
    def on_unsent(self, value: Callable[[], object]) -> None:
        for part in self._parts:
            part.on_unsent = value

    def has_leases(self) -> bool:
        """See `Fetcher.has_leases`."""
        return any(part.has_leases() for part in self._parts)

    def settle(self, ack: Ack) -> None:
        """Have an ack sent with the next request to its shard."""
        self._part_of(ack).settle(ack)

    def settle_run(self, job: Job, ack: Ack) -> None:
        """See `Fetcher.settle_run`."""
        self._part_of(ack).settle_run(job, ack)

    def return_job(self, job: Job) -> None:
        """See `Fetcher.return_job`."""
        self._by_shard[shard_of_token(job.token, self._using)].return_job(job)

    def pending_acks(self) -> int:
        """Return the number of acks to send to shards that answer."""
        return sum(part.pending_acks() for part in self._parts if not part.is_away)

    def has_unconfirmed_acks(self) -> bool:
        """See `Fetcher.has_unconfirmed_acks`."""
        return any(part.has_unconfirmed_acks() for part in self._parts)

    def seconds_to_retry(self) -> float | None:
        """See `Fetcher.seconds_to_retry`."""
        times = [seconds for part in self._answering() if (seconds := part.seconds_to_retry()) is not None]
        return min(times, default=None)

    def retry_rejected(self) -> None:
        """See `Fetcher.retry_rejected`."""
        for part in self._answering():
            self._attempt(part, part.retry_rejected)

    def pending_requests(self) -> int:
        """See `Fetcher.pending_requests`."""
        return sum(part.pending_requests() for part in self._parts)

    def seconds_to_due(self) -> float | None:
        """See `Fetcher.seconds_to_due`."""
        times = [seconds for part in self._answering() if (seconds := part.seconds_to_due()) is not None]
        return min(times, default=None)

    def has_more(self) -> bool:
        """Return whether a task is due, or may be: in a shard that does not answer."""
        return any(part.is_away or part.has_more() for part in self._parts)

    def fetch(self, thread: str, want: int) -> list[Job]:
        """Send the pending acks of the shards that are asked, and lease up to `want` jobs of one.

        Raises:
            redis.exceptions.RedisError: no shard answers.
        """
        for part in self._parts:
            if part.is_away and not part.is_tried:
                self._try_again(part)
        jobs = self._fetch(thread, want) if want else []
        for part in [] if want else self._answering():
            if part.pending_acks():
                self._attempt(part, partial(part.fetch, thread + part.suffix, 0))
        if self.pending_acks():  # those of the shards that were not asked
            self.on_unsent()
        if self._error is not None and not self._answering():
            raise self._error
        return jobs

    def has_unanswered(self, thread: str) -> bool:
        """See `Fetcher.has_unanswered`. Shards that do not answer do not count: their leases expire."""
        return any(part.has_unanswered(thread + part.suffix) for part in self._answering())

    def set_queues(self, queues: Sequence[str], weights: Sequence[int] = ()) -> None:
        """See `Fetcher.set_queues`."""
        with self._lock:
            self._ranks = {queue: rank for rank, queue in enumerate(queues)}
            self._is_strict = not weights
            for part in self._parts:
                part.set_queues(queues, weights)
                part.bound, part.seen_at = 0, 0.0

    def note_wakeup(self, shard: Shard) -> None:
        """Note that a task may be ready in this shard: it is asked first."""
        part = self._by_shard[shard]
        with self._lock:
            part.seen_at, part.turn = 0.0, -1

    def is_away(self, shard: Shard) -> bool:
        """Return whether this shard does not answer."""
        return self._by_shard[shard].is_away

    def is_quick(self, shard: Shard) -> bool:
        """Return whether this shard has been fast, so that a fetch waits for it for `QUICK_S` only."""
        return self._by_shard[shard].is_quick

    def _fetch(self, thread: str, want: int) -> list[Job]:
        """Ask one shard after another until one has jobs."""
        empty: set[_ShardFetcher] = set()
        since = time.monotonic()
        while True:
            part, queues = self._choose(empty, since)
            if part is None:
                return []
            jobs = self._attempt(part, partial(part.fetch_first, thread, want, queues))
            if jobs is None:
                continue
            self._note_reply(part, jobs, want, queues)
            if jobs:
                return jobs
            if queues == len(self._ranks):
                empty.add(part)

    def _choose(self, empty: set[_ShardFetcher], since: float) -> tuple[_ShardFetcher | None, int]:
        """Return the shard to ask, and for how many queues; None if all that answer have nothing.

        Each reply without jobs raises the lowest bound, so the fetch ends however slow the replies are.

        Args:
            empty: those that have just returned no task.
            since: when the fetch began.
        """
        with self._lock:
            now, most = time.monotonic(), len(self._ranks)
            bounds = {part: part.current_bound(now, since) for part in self._answering() if part not in empty}
            bounds = {part: bound for part, bound in bounds.items() if bound < most}
            if not bounds:
                return None, 0
            chosen = min(bounds, key=lambda part: (bounds[part], part.turn))
            self._turns += 1
            chosen.turn = self._turns
            others = [bound for part, bound in bounds.items() if part is not chosen]
            return chosen, 1 + min([*others, most - 1]) if self._is_strict else most

    def _note_reply(self, part: _ShardFetcher, jobs: list[Job], want: int, queues: int) -> None:
        with self._lock:
            part.seen_at = time.monotonic()
            if len(jobs) < want:
                part.bound = queues
            elif self._is_strict:
                part.bound = self._ranks.get(jobs[-1].queue, 0)
            else:
                part.bound = 0

    def _attempt(self, part: _ShardFetcher, operation: Callable[[], T]) -> T | None:
        """Use a shard; return None if it does not answer. It is left out until it does."""
        try:
            return operation()
        # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
        except (RedisError, RedisComponentsError) as exc:  # pragma: no cover
            if not (part.is_quick and isinstance(exc, TimeoutError)):  # else it may be slow: the next try tells
                part.note_outage(exc)
            self._error = exc
        part.be_patient()
        part.is_away = True
        self._try_again(part)
        return None

    def _try_again(self, part: _ShardFetcher) -> None:
        """Start the thread that tries a shard again, unless it runs."""
        with self._lock:
            was_tried, part.is_tried = part.is_tried, True
        if was_tried:
            return
        try:
            threading.Thread(target=self._reach_again, args=(part,), name="shard", daemon=True).start()
        except RuntimeError:  # no more threads: the next fetch starts it, or the shard would be left out for ever
            part.is_tried = False

    def _reach_again(self, part: _ShardFetcher) -> None:
        """Try a shard that is away until it answers. The first requests send its acks."""
        pause_s = FIRST_RETRY_S
        while True:
            time.sleep(pause_s)
            pause_s = min(MAX_RETRY_S, 2 * pause_s)
            try:
                part.fetch(f"again{part.suffix}", 0)
                part.return_unanswered()
            except (RedisError, RedisComponentsError) as exc:
                part.note_outage(exc)
                continue
            except BaseException:  # without this thread the shard would be left out for ever
                logger.exception("Shard %s cannot be tried again.", part.shard.name)
                continue
            with self._lock:
                part.is_away, part.is_tried, part.seen_at = False, False, 0.0
            part.outage.succeeded()
            self.on_unsent()
            return

    def _answering(self) -> list[_ShardFetcher]:
        return [part for part in self._parts if not part.is_away]

    def _part_of(self, ack: Ack) -> _ShardFetcher:
        return self._by_shard[shard_of_token(ack.token, self._using)]
