"""What has been fetched and waits for a thread, and the outcomes that wait to be sent; neither waits for long."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.outage_log import OutageLog, describe_error
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.prefetch_amount import AHEAD_S, Pace

logger = logging.getLogger("django_redis_components.taskqueue")

#: Seconds after which jobs in the buffer that nobody takes go back to the queue.
HOARD_S = 0.02
#: Seconds of the process's work that may stand in the buffer. More is there when tasks are slower than those before
#: them were, and goes back to the queue as well: another worker may be idle.
STORE_S = 0.05


class Buffer:
    """Jobs in the order in which they were fetched. All threads take from it; one of its own looks after it."""

    def __init__(self, fetcher: Fetcher, pace: Pace) -> None:
        self._fetcher = fetcher
        self._pace = pace
        self._jobs: deque[Job] = deque()
        self._work = threading.Event()
        fetcher.on_refused = self._work.set
        #: Told while outcomes cannot be sent.
        self.outage = OutageLog(logger.warning, logger.info)

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._look_after, name="flusher", daemon=True).start()

    def wake(self) -> None:
        """Something may wait to be sent."""
        self._work.set()

    def put(self, jobs: Iterable[Job]) -> None:
        """Keep jobs for the next threads."""
        self._jobs.extend(jobs)
        self._work.set()

    def pop(self) -> Job | None:
        """The next job; whatever acks wait then are the flusher's care."""
        try:
            job = self._jobs.popleft()
        except IndexError:
            return None
        if not self._work.is_set() and (self._jobs or self._fetcher.unsent()):
            self._work.set()
        return job

    def give_back(self) -> None:
        """Hand back all, the last job first, so that the first one stands at the front again."""
        with contextlib.suppress(IndexError):
            while True:
                job = self._jobs.pop()
                self._fetcher.settle(Ack(job.id, job.token, "back"))

    def send_acks(self) -> None:
        """Send what waits; if nobody answers it goes on waiting."""
        try:
            while self._fetcher.unsent():
                self._fetcher.fetch("acks", 0)
            self._fetcher.retry_refused()
            if not self._fetcher.undelivered():
                self.outage.succeeded()
        # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
        except (RedisError, RedisComponentsError) as exc:  # pragma: no cover
            self.outage.failed(f"{self._fetcher.unsent()} outcomes wait: {describe_error(exc)}.")
            time.sleep(0.2)

    def _look_after(self) -> None:
        """Send acks that no fetch takes along within 5 ms, and give back what stands here too long."""
        head, since = None, 0.0
        while True:
            self._work.wait(self._fetcher.seconds_to_retry())
            self._work.clear()
            if self._fetcher.seconds_to_retry() == 0.0:
                self.send_acks()
            while self._jobs or self._fetcher.unsent():
                if self._head() is not head:
                    head, since = self._head(), time.monotonic()
                time.sleep(AHEAD_S)
                if self._stands(head, since):
                    self._pace.be_modest()
                    self.give_back()
                elif len(self._jobs) * self._pace.mean_s > STORE_S:
                    self.give_back()
                if self._fetcher.unsent():
                    self.send_acks()

    def _head(self) -> Job | None:
        try:
            return self._jobs[0]
        except IndexError:
            return None

    def _stands(self, job: Job | None, since: float) -> bool:
        """Whether this job is still the next one, after so long. Where threads compute, this one gets its turn late."""
        return job is not None and job is self._head() and time.monotonic() - since > HOARD_S
