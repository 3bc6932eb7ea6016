"""The clock beside the runs of a worker process: it raises soft limits, and reports hard ones to the supervisor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from django_redis_components.taskqueue.exceptions import SoftTimeLimitExceeded
from django_redis_components.taskqueue.options import TimeLimits
from django_redis_components.taskqueue.worker.interruption import Run, ThreadRun


class HardLimit(NamedTuple):
    """When a run must have ended, and what becomes of its task then; as JSON a list.

    Attributes:
        ends_at: by the monotonic clock, which all processes of a host share.
        limit_s, retry_ms: see `timeouts.TimeLimits`.
    """

    token: str
    ends_at: float
    limit_s: float
    retry_ms: int | None


class Watch:
    """Runs with limits. Its thread starts with the first of them; runs without limits never come here."""

    def __init__(self) -> None:
        #: Called, from any thread, when a run with a hard limit has begun: the supervisor must know at once.
        self.on_hard_limit: Callable[[], None] = _nobody
        self._soft: dict[ThreadRun, float] = {}
        self._hard: dict[Run, HardLimit] = {}
        self._changed = threading.Condition()
        self._wake_at = float("inf")
        self._thread: threading.Thread | None = None

    def begin(self, run: Run, limits: TimeLimits) -> None:
        """Note the limits of a run that begins now. Soft ones of coroutines are the event loop's."""
        now = time.monotonic()
        if limits.soft_s is not None and isinstance(run, ThreadRun):
            with self._changed:
                self._soft[run] = now + limits.soft_s
                if self._thread is None:
                    self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
                    self._thread.start()
                elif now + limits.soft_s < self._wake_at:
                    self._changed.notify()
        if limits.hard_s is not None:
            self._hard[run] = HardLimit(run.job.token, now + limits.hard_s, limits.hard_s, limits.retry_ms)
            self.on_hard_limit()

    def end(self, run: Run) -> None:
        """Forget a run that has ended."""
        if isinstance(run, ThreadRun):
            with self._changed:
                self._soft.pop(run, None)
        self._hard.pop(run, None)

    def hard(self) -> dict[str, HardLimit]:
        """The hard limits of the runs that go on, by the task's id."""
        return {run.job.id: limit for run, limit in list(self._hard.items())}

    def _look(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for run in [run for run, ends_at in self._soft.items() if ends_at <= now]:
                    del self._soft[run]
                    run.interrupt(SoftTimeLimitExceeded)
                self._wake_at = min(self._soft.values(), default=float("inf"))
                self._changed.wait(None if self._wake_at == float("inf") else max(0.0, self._wake_at - now))


def _nobody() -> None:
    """Without a supervisor nobody enforces hard limits."""
