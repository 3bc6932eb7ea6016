"""The context of a run: what a task reports while it runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, TypeVar

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.core.protocol import Flow
from django_redis_components.core.slot_waits import slot_wait_limit
from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.exceptions import (
    LeaseLost,
    TaskInterrupted,
    TaskResultDoesNotExist,
)
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.flows.member_flow import MemberFlow
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.iteration import CHUNK_SIZE, Loop, encode_cursor, new_loop, refuse_transaction
from django_redis_components.taskqueue.record import Progress, check_metadata, check_progress, encode_metadata
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import ERROR_OUTCOMES
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.scripts import SAVE_METADATA

T = TypeVar("T")

#: Progress writes that may follow each other without a pause.
BURST = 3
#: Seconds in which one more write is allowed.
REFILL_S = 0.5
#: Seconds that a progress write waits for a Cluster slot that is being migrated; the next write includes it.
SLOT_WAIT_S = 1.0


class TaskContext:
    """One run of a task.

    Attributes:
        task_result: the result, as it was when the run began.
        attempt: the number of this attempt, from 1; runs that raised an exception count, as for `max_attempts`.
        run: the number of this run, from 1; all runs count, also those that were delayed or lost their worker.
    """

    def __init__(self, task_result: TaskResult, job: Job, metadata: dict[str, Any] | None) -> None:
        """
        Args:
            job: the leased task.
            metadata: the stored metadata; None if it could not be read.
        """
        self.task_result = task_result
        self._shard = task_result._shard
        self.attempt, self.run = job.attempts + 1, job.runs + 1
        self._token = job.token
        self._metadata = metadata
        self._saved = dict(metadata or {})
        self._progress = task_result.progress
        self._limiter = WriteLimiter()
        self._is_pending = False
        self._is_lost = False
        self._has_own_progress = False
        self._loops = 0
        #: The current call of `iterate`, and the run that it belongs to.
        self._loop: Loop | None = None
        #: Position of its current item; None outside of the loop.
        self._item: int | str | None = None
        self._run: logs.CurrentRun | None = None
        self._flow: MemberFlow | None = None

    def __repr__(self) -> str:
        return f"<TaskContext {self.task_result.id!r}>"

    @property
    def flow(self) -> MemberFlow:
        """The flow of the task; `flow.add(…)` adds tasks to its group."""
        if self._flow is None:
            self._flow = MemberFlow(self._shard, self.task_result.id, self._token, self._read_flow_ref, self._place)
        return self._flow

    @property
    def metadata(self) -> dict[str, Any]:
        """The task's metadata. Change it and call `save_metadata()`; the next run receives it."""
        if self._metadata is None:
            self._load(self._shard.run(task_records.read(self._shard, self.task_result.id)))
        found: dict[str, Any] = self._metadata or {}
        self._metadata = found
        return found

    def save_metadata(self) -> None:
        """Save `metadata`; `TaskResult.metadata` returns it.

        Raises:
            TypeError, ValueError: it is not JSON, or larger than 64 KiB.
            LeaseLost: the run has lost its lease; the task may be running on another worker.
            redis.exceptions.RedisError: Redis did not answer.
        """
        plain = check_metadata(self.metadata)
        self._set_saved(plain, is_leased=self._shard.run(self._save(plain)))

    async def asave_metadata(self) -> None:
        """See `save_metadata`."""
        plain = check_metadata(self.metadata)
        is_leased = await self._shard.arun(self._save(plain))
        self._set_saved(plain, is_leased=is_leased)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report progress; `TaskResult.progress` returns it.

        It may be called any number of times: about two calls per second are written, and the last one at the latest
        when the run finishes. Errors of Redis are logged and never fail the task.

        Raises:
            TypeError, ValueError: an argument is not accepted.
        """
        self._has_own_progress = True
        if self._set_progress(check_progress(done, total, note)):
            self._flush()

    async def aprogress(self, done: float, total: float | None = None, note: str = "") -> None:
        """See `progress`."""
        self._has_own_progress = True
        if self._set_progress(check_progress(done, total, note)):
            await self._aflush()

    def iterate(
        self,
        source: Iterable[T],
        *,
        key: str | None = None,
        total: float | None = None,
        chunk_size: int = CHUNK_SIZE,
        save_every: int | None = None,
        on_retry: str = "continue",
    ) -> Iterator[T]:
        """Iterate over a queryset or another iterable, so that the next run continues after the last item that is done.

        An item is done when the loop asks for the next one. Its position, the cursor, is written about once a second,
        and at the end of the run. When the worker stops, the loop ends after the current item: the task returns to its
        queue, uses no attempt and continues on another worker. After a worker has died, the items since the last
        written cursor run again.

        The progress is reported too, unless the task calls `progress` itself. Loops are counted in the order of the
        calls; they cannot be nested, nor be within a transaction.

        Args:
            source: a queryset, which is read in the order of `key` in pages, or an iterable, whose order must be the
                same in each run.
            key: name of a unique field of a queryset; None: the primary key.
            total: number of items, for the progress; None: its length, unless it is a queryset.
            chunk_size: rows that one query reads, 1 to 10,000.
            save_every: number of items after which the cursor is written; None: about once a second.
            on_retry: what a retry after an error does: "continue" at the cursor, or "restart" with the first item.

        Yields:
            The items that are not done.

        Raises:
            TypeError, ValueError: an argument is not accepted, or a value of `key` cannot be stored.
            RuntimeError: loops are nested, or a transaction is open.
            LeaseLost: the run has lost its lease; the task may be running on another worker.
        """
        options = (key, total, chunk_size, save_every, on_retry)
        return self._iterate(self._new_loop(source, *options, is_async=False))

    def aiterate(
        self,
        source: Iterable[T] | AsyncIterable[T],
        *,
        key: str | None = None,
        total: float | None = None,
        chunk_size: int = CHUNK_SIZE,
        save_every: int | None = None,
        on_retry: str = "continue",
    ) -> AsyncIterator[T]:
        """See `iterate`; for `async for`. The source may be an async iterable too."""
        options = (key, total, chunk_size, save_every, on_retry)
        return self._aiterate(self._new_loop(source, *options, is_async=True))

    def is_cancelled(self) -> bool:
        """Whether cancellation was requested. Must be called in the function's own thread, or in its coroutine."""
        current = logs.current_run.get(None)
        return current is not None and current.cancel_asked

    def _new_loop(self, source: object, *options: Any, is_async: bool) -> Loop:
        loop = new_loop(self._loops, source, *options, is_async=is_async)
        self._loops += 1
        self._run = logs.current_run.get(None)
        return loop

    def _iterate(self, loop: Loop) -> Iterator[Any]:
        refuse_transaction()
        if self._metadata is None:
            self._shard.run(self._read_cursor())
        if not self._start(loop):
            return
        self._write_cursor()
        self._check_stop()
        try:
            for position, item in loop.source.items(loop.after):
                self._item = position
                yield item
                is_due = self._finish_item(loop, position)
                self._check_stop()
                if is_due:
                    self._write_cursor()
        finally:
            self._end_item(loop)
        self._write_cursor()

    async def _aiterate(self, loop: Loop) -> AsyncIterator[Any]:
        if self._metadata is None:
            await self._shard.arun(self._read_cursor())
        if not self._start(loop):
            return
        await self._awrite_cursor()
        self._check_stop()
        try:
            async for position, item in loop.source.aitems(loop.after):
                self._item = position
                yield item
                is_due = self._finish_item(loop, position)
                self._check_stop()
                if is_due:
                    await self._awrite_cursor()
        finally:
            self._end_item(loop)
        await self._awrite_cursor()

    def _read_cursor(self) -> Flow[None]:
        """Read the record, which could not be read when the run began. Without it the loop must not start."""
        try:
            self._load((yield from task_records.read(self._shard, self.task_result.id)))
        except TaskResultDoesNotExist as exc:
            raise LeaseLost(self.task_result.id) from exc
        except RedisError as exc:
            raise TaskDelayed(f"its cursor cannot be read ({exc})") from exc

    def _start(self, loop: Loop) -> bool:
        """Start a loop at the cursor of an earlier run; return False if that run has finished this loop."""
        cursor = self.task_result.cursor if self._loop is None else None
        if cursor is not None and loop.restarts and self._follows_error():
            cursor, self._is_pending = None, True  # written at once: this run may end before an item is done
        elif cursor is not None and cursor.loop > loop.number:
            return False
        self._loop, self._item = loop, None
        if cursor is not None and cursor.loop == loop.number:
            loop.continue_at(cursor, self.task_result.id)
        return True

    def _follows_error(self) -> bool:
        """Return whether the run before this one has raised an exception, or has reached its hard time limit."""
        runs = [run.outcome for run in self.task_result.timeline if run.finished_at is not None]
        return bool(runs) and runs[-1] in ERROR_OUTCOMES

    def _finish_item(self, loop: Loop, position: int | str) -> bool:
        """Count an item that is done; return whether the cursor is to be written now."""
        if self._loop is not loop:
            self._loop, self._is_pending = loop, True  # a retry must not continue in the inner loop
            raise RuntimeError(
                "iterate() was called within the loop of another iterate(): the cursor has one position. Iterate over"
                " pairs, or enqueue a task for each outer item."
            )
        self._is_pending = True
        return loop.finish_item(position)

    def _end_item(self, loop: Loop) -> None:
        """Leave the last item of a loop. One that was left by `break` may end later, within an item of the next one."""
        if self._loop is loop:
            self._item = None

    def _check_stop(self) -> None:
        if self._run is not None and self._run.stop_asked:
            raise TaskInterrupted

    def _write_cursor(self) -> None:
        self._flush()
        if self._is_lost:
            raise LeaseLost(self.task_result.id)

    async def _awrite_cursor(self) -> None:
        await self._aflush()
        if self._is_lost:
            raise LeaseLost(self.task_result.id)

    def _flush(self) -> None:
        """Write pending progress, and the cursor."""
        if not self._is_pending or self._is_lost:
            return
        try:
            with slot_wait_limit(SLOT_WAIT_S):
                is_leased = self._shard.run(self._save())
        except RedisError as exc:
            self._log_failed_write(exc)
        else:
            self._set_written(is_leased=is_leased)

    async def _aflush(self) -> None:
        """See `_flush`."""
        if not self._is_pending or self._is_lost:
            return
        try:
            with slot_wait_limit(SLOT_WAIT_S):
                is_leased = await self._shard.arun(self._save())
        # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
        except RedisError as exc:  # pragma: no cover
            self._log_failed_write(exc)
        else:
            self._set_written(is_leased=is_leased)

    def _set_progress(self, progress: Progress) -> bool:
        """Set the progress; whether it should be written now."""
        self._progress, self._is_pending = progress, True
        return not self._is_lost and self._limiter.allows()

    def _save(self, metadata: dict[str, Any] | None = None) -> Flow[bool]:
        """Write progress and cursor, with this metadata or that saved last; whether the run still has its lease."""
        if self._metadata is None:  # it could not be read when the run began
            try:
                self._load((yield from task_records.read(self._shard, self.task_result.id)))
            except TaskResultDoesNotExist:  # deleted meanwhile, and the lease with it
                return False
        loop = self._loop
        if loop is not None and not self._has_own_progress:
            self._progress = Progress(loop.done, loop.total)
        encoded = encode_metadata(self._saved if metadata is None else metadata, self._progress)
        cursor = b"" if loop is None else encode_cursor(loop.cursor)
        return (yield from _save(self._shard, self.task_result.id, self._token, encoded, cursor))

    def _place(self) -> str:
        """Return the loop and its current item, the same in each run that gets this item; "" outside of a loop."""
        return "" if self._loop is None or self._item is None else f"{self._loop.number}:{self._item}"

    def _read_flow_ref(self) -> Flow[str]:
        """Return "flow/number" of the task; "" if it is in no flow."""
        if self._metadata is None:  # the record could not be read when the run began
            self._load((yield from task_records.read(self._shard, self.task_result.id)))
        return self.task_result._fields.get(Field.flow_ref, b"").decode()

    def _set_saved(self, metadata: dict[str, Any], *, is_leased: bool) -> None:
        if not is_leased:
            self._is_lost = True
            raise LeaseLost(self.task_result.id)
        self._saved, self._is_pending = metadata, False

    def _set_written(self, *, is_leased: bool) -> None:
        self._is_pending = False
        if not is_leased:
            self._is_lost = True
            logger.warning("The progress of task %s was discarded: the run has lost its lease.", self.task_result.id)

    def _log_failed_write(self, exc: RedisError) -> None:
        logger.warning("The progress of task %s could not be written (%s).", self.task_result.id, exc)

    def _load(self, record: tuple[task_records.Fields, list[bytes]]) -> None:
        self.task_result._load(*record)
        self._metadata = self.task_result.metadata
        self._saved = dict(self._metadata)


class WriteLimiter:
    """A token bucket for writes."""

    def __init__(self) -> None:
        self._tokens = float(BURST)
        self._refilled_at = time.monotonic()

    def allows(self) -> bool:
        """Take a token; whether there was one."""
        now = time.monotonic()
        self._tokens = min(float(BURST), self._tokens + (now - self._refilled_at) / REFILL_S)
        self._refilled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@lru_cache(maxsize=1_024)
def without_context(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its first parameter, the context."""
    without = partial(func, None)
    without.__qualname__ = func.__qualname__  # type: ignore[attr-defined]
    return without


def _save(shard: Shard, task_id: str, token: str, encoded: bytes, cursor: bytes) -> Flow[bool]:
    """Write the metadata and the cursor if the task is still leased under this token; whether it was."""
    is_leased = yield SAVE_METADATA(record=shard.record(task_id), token=token, metadata=encoded, cursor=cursor)
    return bool(is_leased)
