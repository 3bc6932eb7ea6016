"""The logic of a transaction: attempts, their ends, and what to do about a lost EXEC.

One attempt is WATCH, the site's function, MULTI … EXEC, on one connection. Within the MULTI stands a
marker, a key of this attempt alone, that is watched as well. When the reply to EXEC is lost, one
``SET marker void NX GET`` decides: the marker is there, so it was run; or it is now void, and the EXEC
can never be run any more, wherever it may still be under way, because a key that it watches has changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Generator
from typing import Any

from redis.exceptions import (
    AskError,
    ConnectionError,
    ExecAbortError,
    RedisError,
    ResponseError,
    TimeoutError,
    WatchError,
)

from django_redis_components.core.client.retry import AUTHENTICATION_ERRORS, NOT_EXECUTED_ERRORS
from django_redis_components.core.client.slot_migration import is_migrating, slot_of
from django_redis_components.core.exceptions import Interruption, RedisComponentsError, SlotMigrating
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.protocol import BoundedSlotWait, Command, Read, Sleep
from django_redis_components.locks import Lock
from django_redis_components.transactions.attempt import Body, Held, Send, Watch
from django_redis_components.transactions.exceptions import OutcomeUnknown, TooMuchContention
from django_redis_components.transactions.pipes import other_slot
from django_redis_components.transactions.settings import Plan

#: Milliseconds that a marker lives: longer than anybody asks whether its EXEC was run.
MARKER_TTL_MS = 60_000
#: Seconds of the first pause after a conflict, at most; each further one doubles, with full jitter.
BACKOFF_BASE_S = 0.002
#: Longest pause between two attempts, in seconds.
BACKOFF_CAP_S = 0.25

Steps = Generator[Any, Any, Any]


@dataclasses.dataclass(slots=True)
class _End:
    """How an attempt ended: done with a value, or not, by a conflict or by an error of the moment."""

    is_done: bool
    value: Any = None
    error: RedisError | None = None


_CONFLICT = _End(is_done=False)


class Update:
    """One call of `atomic_update`."""

    def __init__(self, plan: Plan, func: Callable[..., Any]) -> None:
        self._plan = plan
        self._func = func
        self._began_at = time.monotonic()
        self._attempts = 0
        self._lock: Lock | None = None
        #: The lock is released for its owner: a cancelled flow ends in another task, which owns nothing.
        self._acquisition = Acquisition()

    def run(self) -> Steps:
        """Try until it is done or a bound is reached; the value is the function's."""
        conflicts = 0
        try:
            while True:
                if self._lock is None and self._plan.lock_after is not None and conflicts >= self._plan.lock_after:
                    yield from self._take_lock()
                end = yield from self._attempt()
                if end.is_done:
                    return end.value
                self._stop_at_the_bounds(end)
                if is_migrating(end.error):
                    # Refused until the slot has moved, since there is no such key: the client waits for that.
                    yield BoundedSlotWait(self._left_s(), Read("EXISTS", self._plan.new_marker()))
                    continue
                conflicts += 1
                yield Sleep(min(self._pause(conflicts), self._left_s()))
        finally:
            if self._lock is not None and self._acquisition.held():
                # That it is late, or fails, changes nothing about the transaction.
                with contextlib.suppress(RedisComponentsError, RedisError):
                    yield from self._lock._holder.release(self._acquisition.owner)

    def _stop_at_the_bounds(self, end: _End) -> None:
        if self._attempts < self._plan.attempts and self._left_s() > 0:
            return
        if is_migrating(end.error):
            raise SlotMigrating(slot_of(self._plan.keys[0]), self._elapsed_s(), f"(connection {self._plan.using!r})")
        if end.error is not None:
            raise end.error
        used_up = self._attempts >= self._plan.attempts
        why = "all attempts met a change by others" if used_up else "others changed the keys until the deadline"
        raise self._gave_up(why)

    def _gave_up(self, why: str) -> TooMuchContention:
        return TooMuchContention(self._plan.keys, self._attempts, self._elapsed_s(), why)

    def _take_lock(self) -> Steps:
        """Stand in line with the others who have met as many conflicts."""
        self._lock = Lock(
            self._plan.lock_name,
            timeout=max(1.0, self._left_s()),
            blocking_timeout=max(0.001, self._left_s()),
            using=self._plan.using,
        )
        if not (yield from self._lock._holder.acquire(acquisition=self._acquisition)):
            raise self._gave_up("its lock was held by others until the deadline")

    def _attempt(self) -> Steps:
        self._attempts += 1
        marker = self._plan.new_marker()
        try:
            held = yield Watch(self._plan, marker)
        except RedisError as exc:
            if not _is_passing(exc):
                raise
            if is_migrating(exc):
                self._attempts -= 1  # the function was not called, and waiting for a slot uses no attempt
            return _End(is_done=False, error=exc)
        try:
            value = yield Body(self._func, held)
        except WatchError:
            return _watch_lost(held)
        except Interruption:  # the connection may stand in the middle of a reply
            held.close()
            raise
        except Exception:
            yield from _let_go(held)
            raise
        except BaseException:
            held.close()
            raise
        if held.pipe.lost is not None:  # and the function has caught the error
            return _watch_lost(held)
        return (yield from self._commit(held, marker, value))

    def _commit(self, held: Held, marker: str, value: Any) -> Steps:
        writes = held.pipe.wires()
        mark = [("SET", marker, "done", "PX", MARKER_TTL_MS)] if writes else []
        sent_at = time.monotonic()
        try:
            replies = yield Send(held, [("MULTI",), *writes, *mark, ("EXEC",)])
        except RedisError as exc:
            held.close(distrust=True)
            if not _is_lost(exc):
                raise
            if isinstance(exc, NOT_EXECUTED_ERRORS) or not writes:
                return _End(is_done=False, error=exc)
            was_run = yield from self._resolve(marker, sent_at)
            return _End(is_done=True, value=value) if was_run else _CONFLICT
        except BaseException:
            held.close()
            raise
        held.give_back()
        return _judged(replies, value, self._plan)

    def _resolve(self, marker: str, sent_at: float) -> Steps:
        """Whether a lost EXEC was run. If it was not, it never will be."""
        command = Command("SET", marker, "void", "NX", "GET", "PX", MARKER_TTL_MS, retry=True)
        failures = 0
        while True:
            try:
                said = yield BoundedSlotWait(self._left_s(), command)
            except RedisError as exc:
                failures += 1
                if not _is_passing(exc) or self._left_s() <= 0:
                    raise self._unknown(marker) from exc
                yield Sleep(min(self._pause(failures), self._left_s()))
                continue
            if said is None and time.monotonic() - sent_at > MARKER_TTL_MS / 1_000 * 0.9:
                raise self._unknown(marker)  # it may have been there, and expired
            return said == b"done"

    def _unknown(self, marker: str) -> OutcomeUnknown:
        return OutcomeUnknown(self._plan.keys, self._attempts, self._elapsed_s(), marker)

    def _pause(self, failures: int) -> float:
        """With full jitter. Who holds the lock does not wait for those who have met fewer conflicts."""
        longest = BACKOFF_BASE_S if self._lock else min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2 ** min(failures, 16))
        return random.uniform(0, longest)

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_at

    def _left_s(self) -> float:
        return max(0.0, self._plan.deadline_s - self._elapsed_s())


def _watch_lost(held: Held) -> _End:
    """A key has changed, or the connection was lost, or the node of the keys was moving their slot."""
    lost = held.pipe.lost
    held.close(distrust=lost is not None)
    return _End(is_done=False, error=lost) if is_migrating(lost) else _CONFLICT


def _let_go(held: Held) -> Steps:
    """Give the connection back without a transaction; the caller has an error to raise already."""
    if held.pipe.lost is not None:
        held.close()
        return
    try:
        yield Send(held, [("UNWATCH",)])
    except RedisError:
        held.close(distrust=True)
        return
    except BaseException:
        held.close()
        raise
    held.give_back()


def _judged(replies: list[Any], value: Any, plan: Plan) -> _End:
    """How the attempt ended, by the replies from MULTI to EXEC."""
    *queued, executed = replies
    if isinstance(executed, ResponseError):
        error = next((reply for reply in queued if isinstance(reply, RedisError)), executed)
        if isinstance(error, AskError) and error.slot_id != slot_of(plan.keys[0]):
            raise other_slot(error)
        if (isinstance(executed, ExecAbortError) or error is executed) and _is_passing(error):
            return _End(is_done=False, error=error)
        raise error
    if executed is None:
        return _CONFLICT
    for reply in executed:
        if isinstance(reply, RedisError):
            raise reply
    return _End(is_done=True, value=value)


def _is_passing(error: RedisError) -> bool:
    """Whether nothing was run, and may be soon."""
    return isinstance(error, (*NOT_EXECUTED_ERRORS, AskError)) or _is_lost(error)


def _is_lost(error: RedisError) -> bool:
    return isinstance(error, ConnectionError | TimeoutError) and not isinstance(error, AUTHENTICATION_ERRORS)
