"""What a task is told of its own run, and what it tells while it runs: the first argument with `takes_context`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.client.slot_migration import slot_wait_limit
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.taskqueue.exceptions import LeaseLost
from django_redis_components.taskqueue.record import Progress, check_metadata, check_progress, encode_metadata
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.run_observer import current_run
from django_redis_components.taskqueue.store import tasks as store
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.scripts import SAVE_METADATA

logger = logging.getLogger("django_redis_components.taskqueue")

#: Writes of progress that may follow each other at once.
BURST = 3
#: Seconds in which one more may be written.
REFILL_S = 0.5
#: Seconds that progress waits for a Cluster slot that is being moved; what is not written goes with the next.
SLOT_WAIT_S = 1.0


class TaskContext:
    """One run of a task.

    Attributes:
        task_result: the result, as it was when the run began.
        attempt: which run it is, from 1; exceptions and deaths of workers count.
    """

    def __init__(self, task_result: TaskResult, attempt: int, token: str, metadata: dict[str, Any] | None) -> None:
        """
        Args:
            token: of the lease.
            metadata: what stands in Redis; None if it could not be read.
        """
        self.task_result = task_result
        self.attempt = attempt
        self._token = token
        self._metadata = metadata
        self._saved = dict(metadata or {})
        self._progress = task_result.progress
        self._pace = _Pace()
        self._is_pending = False
        self._is_lost = False

    @property
    def metadata(self) -> dict[str, Any]:
        """The task's metadata. Change it, and `save_metadata()`; the next attempt finds it again."""
        if self._metadata is None:
            self._take(run(self._client(), store.read(self.task_result.id)))
        found: dict[str, Any] = self._metadata or {}
        self._metadata = found
        return found

    def save_metadata(self) -> None:
        """Write `metadata`, for others to read as `TaskResult.metadata`.

        Raises:
            TypeError, ValueError: it is not JSON, or larger than 64 KiB.
            LeaseLost: the task is not this worker's any more, and runs again elsewhere, perhaps.
            redis.exceptions.RedisError: Redis did not answer.
        """
        plain = check_metadata(self.metadata)
        self._has_saved(plain, kept=run(self._client(), self._save(plain)))

    async def asave_metadata(self) -> None:
        """See `save_metadata`."""
        plain = check_metadata(self.metadata)
        kept = await arun(connections.aclient(self.task_result.using), self._save(plain))
        self._has_saved(plain, kept=kept)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Tell how far it is, for others to read as `TaskResult.progress`.

        Call it as often as you like: about two a second are written, and the last one when the task
        ends at the latest. It never fails the task: trouble with Redis is logged.

        Raises:
            TypeError, ValueError: an argument is not accepted.
        """
        if self._noted(check_progress(done, total, note)):
            self.flush()

    async def aprogress(self, done: float, total: float | None = None, note: str = "") -> None:
        """See `progress`."""
        if self._noted(check_progress(done, total, note)):
            try:
                with slot_wait_limit(SLOT_WAIT_S):
                    kept = await arun(connections.aclient(self.task_result.using), self._save())
            # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
            except RedisError as exc:  # pragma: no cover
                self._unwritten(exc)
            else:
                self._written(kept=kept)

    def cancelled(self) -> bool:
        """Whether somebody wants the task to end. Ask in the function's own thread, or in its coroutine."""
        current = current_run.get(None)
        return current is not None and current.cancel_asked

    def flush(self) -> None:
        """Write the progress that waits for its turn."""
        if not self._is_pending or self._is_lost:
            return
        try:
            with slot_wait_limit(SLOT_WAIT_S):
                kept = run(self._client(), self._save())
        except RedisError as exc:
            self._unwritten(exc)
        else:
            self._written(kept=kept)

    def _noted(self, progress: Progress) -> bool:
        """Whether it is to be written now."""
        self._progress, self._is_pending = progress, True
        return not self._is_lost and self._pace.allows()

    def _save(self, metadata: dict[str, Any] | None = None) -> Flow[bool]:
        """Write progress and this metadata, or what was saved before."""
        if self._metadata is None:
            self._take((yield from store.read(self.task_result.id)))
        text = encode_metadata(self._saved if metadata is None else metadata, self._progress)
        return (yield from _save(self.task_result.id, self._token, text))

    def _has_saved(self, metadata: dict[str, Any], *, kept: bool) -> None:
        if not kept:
            self._is_lost = True
            raise LeaseLost(self.task_result.id)
        self._saved, self._is_pending = metadata, False

    def _written(self, *, kept: bool) -> None:
        self._is_pending = False
        if not kept:
            self._is_lost = True
            logger.warning("The progress of task %s was not kept: its lease is lost.", self.task_result.id)

    def _unwritten(self, exc: RedisError) -> None:
        logger.warning("The progress of task %s could not be written (%s).", self.task_result.id, exc)

    def _take(self, found: tuple[store.Fields, list[bytes]]) -> None:
        self.task_result._load(*found)
        self._metadata = self.task_result.metadata
        self._saved = dict(self._metadata)

    def _client(self) -> Any:
        return connections.client(self.task_result.using)


def _save(task_id: str, token: str, text: bytes) -> Flow[bool]:
    """Write the metadata field if the task is still leased under this token; whether it was."""
    saved = yield SAVE_METADATA(base=base_key(), id=task_id, token=token, text=text)
    return bool(saved)


@lru_cache(maxsize=1_024)
def without_context(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function as callers call it: the context is there already."""
    called = partial(func, None)
    called.__qualname__ = func.__qualname__  # type: ignore[attr-defined]
    return called


class _Pace:
    """A bucket of writes that refills with time."""

    def __init__(self) -> None:
        self._left = float(BURST)
        self._seen_at = time.monotonic()

    def allows(self) -> bool:
        """Whether one may be written now; it is counted then."""
        now = time.monotonic()
        self._left = min(float(BURST), self._left + (now - self._seen_at) / REFILL_S)
        self._seen_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
