"""FIFO waiting, shared by locks and semaphores.

Waiters are queued in Redis (``lua/shared/wait_queue.lua``). A release grants to the first waiter with a short lease,
the hand-off (`HANDOFF_MS`), and writes that waiter's wakeup list; the waiter's next `acquire` takes the hand-off, which
gets the full lease by that. The grant is stored state and the wakeup a hint: after a lost wakeup, a timeout or a
cancellation the next `acquire` still finds the grant.

A waiter whose process ended has no connection on which its wakeup could be read. The release is followed by `confirm`,
which then wakes another waiter by the list that all of them share; this one has those behind it probed, revokes the
hand-off, and passes over all that did not answer. A waiter whose process hangs reads its wakeup and does not come: its
hand-off ends by itself, and those who were silent for as long are passed over with it. All of them keep their tickets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.core.client.retry import AUTHENTICATION_ERRORS, NOT_EXECUTED_ERRORS
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition, OwnedLeases
from django_redis_components.core.protocol import BlockingPop, BoundedSlotWait, Call, Flow, Sleep, Wait
from django_redis_components.core.units import Seconds, check_flag, to_seconds

#: Milliseconds that a hand-off waits for the waiter to take it. Waiters that hang cost the others this long in all;
#: one that is slower than this loses its turn. The scripts derive all their times from it.
HANDOFF_MS = 2_000
#: Hand-off times of silence after which a waiter is offered nothing and is not shown; it keeps its place.
LIVENESS_HANDOFFS = 3
#: Seconds after which a request that was cut off on its way has surely arrived or never will.
IN_FLIGHT_S = 0.1
#: Seconds that a cancelled caller waits for a Cluster slot that is being moved. Its place and hand-off expire anyway.
ABANDON_S = HANDOFF_MS / 1_000
#: Seconds after which the reply to the first request may arrive although `blocking_timeout` is shorter: a free lock
#: can be taken with any timeout.
GRACE_S = 0.005
#: Replies in succession that may be so late that the lease they grant is over: then the answer is no.
LATE_REPLIES = 3
#: What a release replies when it has handed over and others wait, so that `confirm` is to follow.
HANDED_OFF = 2


def liveness_ms() -> int:
    """Milliseconds of silence after which a waiter does not count."""
    return LIVENESS_HANDOFFS * HANDOFF_MS


def wait_limit(blocking: bool, blocking_timeout: Seconds | None) -> float:
    """Seconds to wait: 0 to ask once, infinity without a limit.

    Raises:
        TypeError: `blocking` is no flag, or the time no duration.
        ValueError: it is negative, or given although nothing is to be waited for.
    """
    if check_flag(blocking, "blocking"):
        return math.inf if blocking_timeout is None else to_seconds(blocking_timeout, "blocking_timeout", zero=True)
    if blocking_timeout is not None:
        raise ValueError(f"blocking_timeout={blocking_timeout!r} needs blocking=True: else nothing is waited for.")
    return 0.0


class IdempotentCall(Call):
    """A call sent again after its reply was lost, as often as needed: an earlier one may have been executed."""

    @property
    def retry(self) -> bool:
        """The caller tells by the lease what the reply of a repetition means."""
        return True


@dataclasses.dataclass(slots=True)
class BoundedCall(Call):
    """A call that is sent again only until a moment, so that it ends one socket timeout after that.

    Attributes:
        give_up_at: monotonic seconds.
    """

    give_up_at: float


@dataclasses.dataclass(slots=True)
class ReleaseCall(Call):
    """A release.

    Attributes:
        confirm: what is to follow when it has handed over.
    """

    confirm: Call


def with_token(token: str, call: Call) -> Call:
    """The same call for a token, which is its first argument.

    What a free lock or permit needs is made once, and then only the token put in: to name eight keys and arguments
    each time costs as much as all the rest that is done for it here.
    """
    args = (token, *call.args[1:])
    if isinstance(call, ReleaseCall):
        return ReleaseCall(call.script, call.keys, args, call.confirm)
    return Call(call.script, call.keys, args)


class WaitQueue:
    """Acquires and releases the leases of one object."""

    def __init__(self, ttl_ms: int) -> None:
        """Args: ttl_ms: milliseconds of a lease."""
        self.leases = OwnedLeases()
        self._ttl_ms = ttl_ms
        #: Process and token of requests that ended in an error: the server may have granted them, so the
        #: next one asks again with one of them.
        self._unsettled: list[tuple[int, str]] = []

    def acquire(
        self,
        base: str,
        acquire: Callable[[str, bool], Call],
        abandon: Callable[[str], Call],
        wait_limit_s: float,
        acquisition: Acquisition,
        *,
        suffix: str = "",
        token: str | None = None,
        refused: Callable[[int, int], object] | None = None,
    ) -> Flow[bool]:
        """Ask until granted (True), or until `wait_limit_s` have passed (False); with 0 ask once.

        A grant whose reply arrives after that is abandoned. One whose lease is over by then is asked for again.

        Args:
            base: the key whose ``:wakeup`` and ``:wakeup:<token>`` lists wake.
            acquire: the call for a token, and whether it waits. The reply: [granted; below 0 never, milliseconds to
                wait, and what `refused` is told].
            abandon: the call that gives up place and grant. 0: it had neither.
            acquisition: who asks, and is told the lease.
            suffix, token: what the lease is to be known by; None makes a token, which ends in the suffix.
            refused: told the first and last number of a refusal; it may raise an error of this package.
        """
        mine = self.next_token(suffix) if token is None else token
        attempt = _Attempt(base, acquire, abandon, mine, wait_limit_s)
        self.leases.ask(acquisition)
        try:
            lease = yield from self._granted(attempt, mine, refused)
            if lease is None:
                return False
            self.leases.add(lease, acquisition)
            return True
        except RedisError:
            if token is None:
                self.leave_unsettled(mine)
            raise
        except (GeneratorExit, RedisComponentsError):
            raise
        except BaseException:
            yield from attempt.abandon_surely()
            raise
        finally:
            attempt.close()

    def release(self, call: Call, lease: Lease) -> Flow[bool]:
        """Release a lease; True when it was ours until now.

        After an error of the connection the lease is kept, so that it may be tried again. A repetition
        finds nothing when an earlier request was executed and only its reply was lost. As long as the lease
        cannot have expired, nobody else can have ended it: this counts as done.
        """
        return self.release_all((call,), lease)

    def release_all(self, calls: Sequence[Call], lease: Lease) -> Flow[bool]:
        """See `release`, for a lease on several things; True when all of them were ours until now."""
        begun, ours, confirmations = False, True, []
        try:
            for call in calls:
                try:
                    reply = yield call
                except (ConnectionError, TimeoutError) as exc:
                    reply = yield from _repeated(call, lease, exc)
                begun, ours = True, bool(reply) and ours
                if reply == HANDED_OFF and isinstance(call, ReleaseCall):
                    confirmations.append(call.confirm)
        except (RedisError, RedisComponentsError):
            lease.release_unknown |= begun
            raise
        except BaseException as exc:
            self.leases.returned(lease)
            if not isinstance(exc, GeneratorExit):
                for call in calls:
                    with contextlib.suppress(RedisError):
                        yield _again(call)
            raise
        done = ours or (lease.release_unknown and not lease.has_expired)
        self.leases.returned(lease, lost=not done)
        for confirm in confirmations:
            with contextlib.suppress(RedisError):  # the waiters look after it themselves, later
                yield confirm
        return done

    def _granted(
        self, attempt: _Attempt, token: str, refused: Callable[[int, int], object] | None
    ) -> Flow[Lease | None]:
        """The lease, if it was granted in time and is not over."""
        for _ in range(LATE_REPLIES):
            reply = yield from attempt.ask()
            if reply[0] <= 0:
                if refused is not None:
                    refused(reply[0], reply[-1])
                return None
            lease = Lease(token, local_deadline(attempt.requested_at, self._ttl_ms), reply[0])
            if attempt.is_late():
                break
            if not lease.has_expired:
                return lease
        yield from attempt.give_up()
        return None

    def leave_unsettled(self, token: str) -> None:
        """The server may have granted something to this token; the next request is to find it."""
        self._unsettled.append((os.getpid(), token))

    def next_token(self, suffix: str = "") -> str:
        """A token for the next request: one of those that are unsettled, or a new one."""
        if not self._unsettled:
            return new_token(suffix)
        return self.unsettled_token(suffix) or new_token(suffix)

    def unsettled_token(self, suffix: str = "") -> str | None:
        """One of the tokens that are unsettled, which is then the caller's to settle; None when there is none."""
        for entry in self._unsettled[:]:
            if entry[0] == os.getpid() and entry[1].endswith(suffix):
                with contextlib.suppress(ValueError):  # another thread may be quicker
                    self._unsettled.remove(entry)
                    return entry[1]
        return None


class _Attempt:
    """One `acquire` under way: its token, its time limit, and the blocking command that wakes it.

    Attributes:
        requested_at: when the last request was sent (monotonic seconds).
    """

    __slots__ = ("_abandon", "_acquire", "_base", "_deadline", "_is_sure", "_limit_s", "_pop", "_token", "requested_at")

    def __init__(
        self,
        base: str,
        acquire: Callable[[str, bool], Call],
        abandon: Callable[[str], Call],
        token: str,
        wait_limit_s: float,
    ) -> None:
        self.requested_at = time.monotonic()
        self._base = base
        self._acquire = acquire
        self._abandon = abandon
        self._token = token
        self._limit_s = wait_limit_s
        self._deadline = self.requested_at + wait_limit_s
        self._pop: BlockingPop | None = None
        #: Whether a place or a grant that is found is all there can be. Not so for a waiter that is cut off while it
        #: asks again.
        self._is_sure = True

    def ask(self) -> Flow[Sequence[int]]:
        """Ask, and wait and ask again, until granted, refused for good, or late. The last reply."""
        while True:
            self.requested_at = time.monotonic()
            reply: Sequence[int] = yield self._bounded(self._acquire(self._token, self._limit_s > 0))
            self._is_sure = True
            if reply[0] or not self._limit_s:
                return reply
            left_s = self._deadline - time.monotonic()
            if left_s > 0:
                yield Wait(self._wakeups(), min(reply[1] / 1_000, left_s))
                self._is_sure = False
            if time.monotonic() >= self._deadline:
                yield from self.give_up()
                return reply

    def is_late(self) -> bool:
        """Whether the time limit has passed. A free lock can be taken with any limit, so it is never below a few ms."""
        if not self._limit_s:
            return False
        return time.monotonic() > max(self._deadline, self._deadline - self._limit_s + GRACE_S)

    def give_up(self) -> Flow[None]:
        """Leave the queue, and give back what was granted."""
        self.close()  # before others are woken, for it might read what is meant for them
        yield self._bounded(self._abandon(self._token), IN_FLIGHT_S)

    def abandon_surely(self) -> Flow[None]:
        """Cancelled or interrupted: leave nothing behind, not even by a request that is still under way."""
        self.close()
        with contextlib.suppress(RedisError):
            if (yield BoundedSlotWait(ABANDON_S, self._abandon(self._token))) and self._is_sure:
                return
            yield Sleep(IN_FLIGHT_S)
            yield BoundedSlotWait(ABANDON_S, self._abandon(self._token))

    def close(self) -> None:
        """End the blocking command."""
        if self._pop is not None:
            self._pop.close()

    def _wakeups(self) -> BlockingPop:
        if self._pop is None:
            self._pop = BlockingPop((f"{self._base}:wakeup:{self._token}", f"{self._base}:wakeup"))
        return self._pop

    def _bounded(self, call: Call, after_s: float = 0.0) -> Call | BoundedSlotWait:
        """The call, not to be sent again once the time limit has passed, also not to a Cluster slot that moves."""
        if not 0 < self._limit_s < math.inf:
            return call
        until = self._deadline + after_s
        return BoundedSlotWait(until - time.monotonic(), BoundedCall(call.script, call.keys, call.args, until))


def new_token(suffix: str = "") -> str:
    """A token that nobody has used."""
    return os.urandom(16).hex() + suffix


def _repeated(call: Call, lease: Lease, error: RedisError) -> Flow[object]:
    """The reply to a release whose first reply was lost."""
    if isinstance(error, (*AUTHENTICATION_ERRORS, *NOT_EXECUTED_ERRORS)):
        raise error  # nothing was executed
    lease.release_unknown = True
    return (yield _again(call))


def _again(call: Call) -> IdempotentCall:
    return IdempotentCall(call.script, call.keys, call.args)
