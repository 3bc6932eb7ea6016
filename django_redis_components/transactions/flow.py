"""The logic of a transaction: attempts, their outcomes, and the resolution of a lost EXEC.

One attempt is WATCH, the user's function, MULTI … EXEC, on one connection. The transaction writes a marker: a key of
this attempt alone, which is watched as well. After a lost reply to EXEC, one ``SET marker void NX GET`` decides: if the
marker exists, EXEC was executed; otherwise the marker is void now, and a delayed EXEC fails because a watched key has
changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from redis.exceptions import (
    AskError,
    ExecAbortError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    WatchError,
)

from django_redis_components.core.client.exceptions import SlotMigrating
from django_redis_components.core.client.retry import NOT_EXECUTED_ERRORS, is_connection_loss
from django_redis_components.core.client.slot_migration import is_migrating, slot_of
from django_redis_components.core.exceptions import Interruption, RedisComponentsError
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.protocol import BoundedSlotWait, Command, Read, Sleep
from django_redis_components.transactions.exceptions import OutcomeUnknown, TooMuchContention
from django_redis_components.transactions.options import UpdateOptions
from django_redis_components.transactions.pipes import cross_slot_error
from django_redis_components.transactions.steps import (
    CallFunction,
    OpenWatch,
    SendOnConnection,
    WatchedConnection,
)

if TYPE_CHECKING:
    from django_redis_components.locks import Lock

#: TTL of a marker in milliseconds; longer than any caller waits for the outcome of EXEC.
MARKER_TTL_MS = 60_000
#: Maximum seconds of the first backoff after a conflict. It doubles with each conflict, with full jitter.
BACKOFF_BASE_S = 0.002
#: Maximum seconds between two attempts.
BACKOFF_CAP_S = 0.25

Steps = Generator[Any, Any, Any]


@dataclasses.dataclass(slots=True)
class _Outcome:
    """The outcome of an attempt: done with a value; or not done, because of a conflict or a transient error."""

    is_done: bool
    value: Any = None
    error: RedisError | None = None


_CONFLICT = _Outcome(is_done=False)


class Transaction:
    """One call of `atomic_update`."""

    def __init__(self, options: UpdateOptions, func: Callable[..., Any]) -> None:
        self._options = options
        self._func = func
        self._started_at = time.monotonic()
        self._attempts = 0
        self._lock: Lock | None = None
        #: The owner of the lock. A cancelled flow is closed in another task, which does not own the lock.
        self._acquisition = Acquisition()

    def run(self) -> Steps:
        """Try until an attempt succeeds or a bound is reached; return the function's value."""
        conflicts = 0
        try:
            while True:
                if (
                    self._lock is None
                    and self._options.lock_after is not None
                    and conflicts >= self._options.lock_after
                ):
                    yield from self._acquire_lock()
                outcome = yield from self._attempt()
                if outcome.is_done:
                    return outcome.value
                self._raise_if_exhausted(outcome)
                if is_migrating(outcome.error):
                    # The key does not exist, so the read is rejected until the slot has moved: the client waits.
                    yield BoundedSlotWait(self._left_s(), Read("EXISTS", self._options.new_marker()))
                    continue
                conflicts += 1
                yield Sleep(min(self._backoff_s(conflicts), self._left_s()))
        finally:
            if self._lock is not None and self._acquisition.held():
                # A failed or late release does not change the outcome of the transaction.
                with contextlib.suppress(RedisComponentsError, RedisError):
                    yield from self._lock.flows.release(self._acquisition.owner)

    def _raise_if_exhausted(self, outcome: _Outcome) -> None:
        if self._attempts < self._options.max_attempts and self._left_s() > 0:
            return
        if is_migrating(outcome.error):
            connection = f"(connection {self._options.using!r})"
            raise SlotMigrating(slot_of(self._options.keys[0]), self._elapsed_s(), connection)
        if outcome.error is not None:
            raise outcome.error
        is_used_up = self._attempts >= self._options.max_attempts
        why = "every attempt had a conflict" if is_used_up else "conflicts until the timeout"
        raise self._contention_error(why)

    def _contention_error(self, why: str) -> TooMuchContention:
        return TooMuchContention(self._options.keys, self._attempts, self._elapsed_s(), why)

    def _acquire_lock(self) -> Steps:
        """Acquire the lock that callers with as many conflicts share."""
        from django_redis_components.locks import Lock  # most transactions need none

        self._lock = Lock(
            self._options.lock_name,
            timeout=max(1.0, self._left_s()),
            blocking_timeout=max(0.001, self._left_s()),
            using=self._options.using,
        )
        if not (yield from self._lock.flows.acquire(acquisition=self._acquisition)):
            raise self._contention_error("the lock was not acquired within the timeout")

    def _attempt(self) -> Steps:
        self._attempts += 1
        marker = self._options.new_marker()
        try:
            connection = yield OpenWatch(self._options, marker)
        except RedisError as exc:
            if not _is_transient(exc):
                raise
            if is_migrating(exc):
                self._attempts -= 1  # the function was not called, and waiting for a slot uses no attempt
            return _Outcome(is_done=False, error=exc)
        try:
            value = yield CallFunction(self._func, connection)
        except WatchError:
            return _watch_lost(connection)
        except Interruption:  # a reply may be incomplete
            connection.close()
            raise
        except Exception:
            yield from _unwatch(connection)
            raise
        except BaseException:
            connection.close()
            raise
        if connection.pipe.lost is not None:  # the function caught the error
            return _watch_lost(connection)
        return (yield from self._commit(connection, marker, value))

    def _commit(self, connection: WatchedConnection, marker: str, value: Any) -> Steps:
        writes = connection.pipe.queued_commands()
        mark = [("SET", marker, "done", "PX", MARKER_TTL_MS)] if writes else []
        sent_at = time.monotonic()
        try:
            replies = yield SendOnConnection(connection, [("MULTI",), *writes, *mark, ("EXEC",)])
        except RedisError as exc:
            connection.close(distrust=True)
            if not is_connection_loss(exc):
                raise
            if isinstance(exc, NOT_EXECUTED_ERRORS) or not writes:
                return _Outcome(is_done=False, error=exc)
            was_executed = yield from self._resolve(marker, sent_at)
            return _Outcome(is_done=True, value=value) if was_executed else _CONFLICT
        except BaseException:
            connection.close()
            raise
        if any(isinstance(reply, ReadOnlyError) for reply in replies):
            connection.close()  # a new one may lead to the new primary
        else:
            connection.release()
        return _parse_replies(replies, value, self._options)

    def _resolve(self, marker: str, sent_at: float) -> Steps:
        """Return whether a lost EXEC was executed. If it was not, this prevents its later execution."""
        command = Command("SET", marker, "void", "NX", "GET", "PX", MARKER_TTL_MS, retry=True)
        failures = 0
        while True:
            try:
                marker_value = yield BoundedSlotWait(self._left_s(), command)
            except RedisError as exc:
                failures += 1
                if not _is_transient(exc) or self._left_s() <= 0:
                    raise self._unknown(marker) from exc
                yield Sleep(min(self._backoff_s(failures), self._left_s()))
                continue
            if marker_value is None and time.monotonic() - sent_at > MARKER_TTL_MS / 1_000 * 0.9:
                raise self._unknown(marker)  # the marker may have expired
            return marker_value == b"done"

    def _unknown(self, marker: str) -> OutcomeUnknown:
        return OutcomeUnknown(self._options.keys, self._attempts, self._elapsed_s(), marker)

    def _backoff_s(self, failures: int) -> float:
        """Return a backoff with full jitter. The holder of the lock does not back off for callers without it."""
        max_backoff_s = BACKOFF_BASE_S if self._lock else min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2 ** min(failures, 16))
        return random.uniform(0, max_backoff_s)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started_at

    def _left_s(self) -> float:
        return max(0.0, self._options.timeout_s - self._elapsed_s())


def _watch_lost(connection: WatchedConnection) -> _Outcome:
    """Return the outcome when a key has changed, the connection was lost, or the slot of the keys was moving."""
    lost = connection.pipe.lost
    connection.close(distrust=lost is not None)
    return _Outcome(is_done=False, error=lost) if is_migrating(lost) else _CONFLICT


def _unwatch(connection: WatchedConnection) -> Steps:
    """Release the connection without a transaction; the caller already has an error to raise."""
    if connection.pipe.lost is not None:
        connection.close()
        return
    try:
        yield SendOnConnection(connection, [("UNWATCH",)])
    except RedisError:
        connection.close(distrust=True)
        return
    except BaseException:
        connection.close()
        raise
    connection.release()


def _parse_replies(replies: list[Any], value: Any, options: UpdateOptions) -> _Outcome:
    """Return the outcome by the replies from MULTI to EXEC."""
    *queued, executed = replies
    if isinstance(executed, ResponseError):
        error = next((reply for reply in queued if isinstance(reply, RedisError)), executed)
        if isinstance(error, AskError) and error.slot_id != slot_of(options.keys[0]):
            raise cross_slot_error(error)
        if (isinstance(executed, ExecAbortError) or error is executed) and _is_transient(error):
            return _Outcome(is_done=False, error=error)
        raise error
    if executed is None:
        return _CONFLICT
    for reply in executed:
        if isinstance(reply, RedisError):
            raise reply
    return _Outcome(is_done=True, value=value)


def _is_transient(error: RedisError) -> bool:
    """Return whether nothing was executed and a retry may succeed."""
    return isinstance(error, (*NOT_EXECUTED_ERRORS, AskError)) or is_connection_loss(error)
