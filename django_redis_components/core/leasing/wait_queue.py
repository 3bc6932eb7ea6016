"""FIFO waiting, shared by locks and semaphores.

Waiters are queued in Redis (``lua/shared/wait_queue.lua``). `release` grants to the first waiter with a short lease,
the hand-off (`HANDOFF_MS`), and writes that waiter's wakeup key. The waiter's next `acquire` accepts the hand-off,
which extends the lease to the full timeout. The grant is stored state and the wakeup only a hint: after a lost wakeup,
a timeout or a cancellation the next `acquire` still finds the grant.

A waiter whose process ended has no connection that could read its wakeup. The release is followed by `confirm`, which
then wakes another waiter through a wakeup key that all waiters share. That waiter has those behind it probed, revokes
the hand-off, and passes over all that did not answer. A waiter whose process hangs reads its wakeup and sends nothing:
its hand-off expires, and the waiters that were silent for as long are passed over with it. All of them keep their
tickets.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Sequence

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.core.arguments import check_flag, short_repr
from django_redis_components.core.client.retry import AUTHENTICATION_ERRORS, NOT_EXECUTED_ERRORS
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leasing.calls import BoundedCall, IdempotentCall, ReleaseCall
from django_redis_components.core.leasing.kind import QueuedKind
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition, OwnedLeases
from django_redis_components.core.observability.live_events import LockWait
from django_redis_components.core.protocol import BlockingPop, BoundedSlotWait, Call, Flow, Sleep, Wait
from django_redis_components.core.units import Seconds, to_seconds

#: Milliseconds that a waiter has to accept a hand-off. Hanging waiters delay the others by this long in total; one that
#: is slower loses its turn. The scripts derive all their times from it.
HANDOFF_MS = 2_000
#: Hand-off times of silence after which a waiter is offered nothing and is not listed; it keeps its place.
LIVENESS_HANDOFFS = 3
#: Seconds after which a request that was in flight when its caller was interrupted has arrived or never will.
IN_FLIGHT_S = 0.1
#: Longest wait of a cancelled caller for a Cluster slot that is being migrated, in seconds. Its place and its hand-off
#: expire anyway.
ABANDON_S = HANDOFF_MS / 1_000
#: Seconds that the reply to the first request may take although `blocking_timeout` is shorter: a free lock can be
#: acquired with any timeout.
GRACE_S = 0.005
#: Seconds past the time limit after which a wait that ends this late met a server that hangs. Nothing more is sent: it
#: would take another socket timeout. The place and a hand-off expire, and the next request uses the same token.
MAX_OVERRUN_S = 0.5
#: Replies in succession that may arrive after the lease that they grant has expired; then `acquire` returns False, and
#: a `with` block names the reason.
LATE_REPLIES = 3
#: What had passed when a grant arrived after the time limit of its caller; see `Acquisition.late_for`.
LATE_FOR_LIMIT = "the time limit of the wait"
#: What a release replies when it has handed off while others wait, so that `confirm` must follow.
HANDED_OFF = 2


def liveness_ms() -> int:
    """Return the milliseconds of silence after which a waiter does not count."""
    return LIVENESS_HANDOFFS * HANDOFF_MS


def late_for_lease(ttl_ms: int) -> str:
    """Return what had passed when a grant arrived after the end of its lease; see `Acquisition.late_for`."""
    return f"the lease of {ttl_ms / 1_000:g} s had expired"


def wait_limit(blocking: bool, blocking_timeout: Seconds | None) -> float:
    """Return the seconds to wait: 0 for one request, infinity without a limit.

    Raises:
        TypeError: `blocking` is not a bool, or `blocking_timeout` not a duration.
        ValueError: `blocking_timeout` is negative, or given without `blocking`.
    """
    if check_flag(blocking, "blocking"):
        return math.inf if blocking_timeout is None else to_seconds(blocking_timeout, "blocking_timeout", zero=True)
    if blocking_timeout is not None:
        raise ValueError(f"blocking_timeout={short_repr(blocking_timeout)} requires blocking=True.")
    return 0.0


class WaitQueue:
    """Acquires and releases the leases of one object."""

    def __init__(self, kind: QueuedKind, leases: OwnedLeases, subject: tuple[str, str, str]) -> None:
        """
        Args:
            leases: those of the object.
            subject: connection, "lock" or "semaphore", and name, for the dashboard.
        """
        self.leases = leases
        self._kind = kind
        self._subject = subject
        #: Process and token of requests that ended in an error. The server may have granted them, so the next request
        #: uses one of these tokens.
        self._unsettled: list[tuple[int, str]] = []

    def acquire(self, wait_limit_s: float, acquisition: Acquisition, token: str | None = None) -> Flow[bool]:
        """Request until granted (True), or until `wait_limit_s` have passed (False); with 0 send one request.

        A grant whose reply arrives after the limit is abandoned. One whose lease has expired by then is requested
        again.

        Args:
            wait_limit_s: seconds; see `wait_limit`.
            acquisition: the caller; it receives the lease.
            token: token of the lease; None creates one.
        """
        kind, permits = self._kind, acquisition.permits
        suffix = kind.suffix if permits == 1 else kind.suffix_of(permits)
        if token is not None:
            mine = with_suffix(token, suffix)
        else:
            mine = (self._unsettled and self.pop_unsettled(suffix)) or os.urandom(16).hex() + suffix
        attempt = _Attempt(kind, mine, wait_limit_s, self._subject)
        self.leases.record_request(acquisition)
        try:
            lease = yield from attempt.lease(acquisition)
            if lease is None:
                if attempt.met_hung_server and token is None:
                    self.keep_unsettled(mine)
                return False
            self.leases.add(lease, acquisition)
            return True
        except RedisError:
            if token is None:
                self.keep_unsettled(mine)
            raise
        except (GeneratorExit, RedisComponentsError):
            raise
        except BaseException:
            yield from attempt.abandon_after_interruption()
            raise
        finally:
            if attempt.lock_wait is not None:
                attempt.end_wait(attempt.lock_wait, is_acquired=acquisition.lease is not None)

    def release(self, calls: Sequence[Call], lease: Lease) -> Flow[bool]:
        """Release a lease; True if it was valid on all nodes until now.

        After a connection error the lease is kept, so that the release can be repeated. A repetition finds nothing when
        an earlier request was executed and only its reply was lost. While the lease cannot have expired, no other
        process can have ended it: then the release counts as done.
        """
        started, was_valid, confirmations = False, True, []
        try:
            for call in calls:
                try:
                    reply = yield call
                except (ConnectionError, TimeoutError) as exc:
                    reply = yield from _repeat(call, lease, exc)
                started, was_valid = True, bool(reply) and was_valid
                if reply == HANDED_OFF and isinstance(call, ReleaseCall):
                    confirmations.append(call.confirm)
        except (RedisError, RedisComponentsError):
            lease.release_unknown |= started
            raise
        except BaseException as exc:
            self.leases.remove(lease)
            if not isinstance(exc, GeneratorExit):
                for call in calls:
                    with contextlib.suppress(RedisError):
                        yield _idempotent(call)
            raise
        done = was_valid or (lease.release_unknown and not lease.has_expired)
        self.leases.remove(lease, lost=not done)
        for confirm in confirmations:
            with contextlib.suppress(RedisError):  # without it the waiters find out later
                yield confirm
        return done

    def keep_unsettled(self, token: str) -> None:
        """Remember a token that the server may have granted, for the next request."""
        self._unsettled.append((os.getpid(), token))

    def pop_unsettled(self, suffix: str = "") -> str | None:
        """Remove and return a token that the server may have granted; None when there is none."""
        for entry in self._unsettled[:]:
            if entry[0] == os.getpid() and entry[1].endswith(suffix):
                with contextlib.suppress(ValueError):  # another thread was faster
                    self._unsettled.remove(entry)
                    return entry[1]
        return None


class _Attempt:
    """One `acquire` in progress: its token, its time limit, and the blocking command that wakes it.

    Attributes:
        token: of the lease.
        requested_at: monotonic time at which the last request was sent.
        met_hung_server: whether the last wait ended so late that its place was not abandoned.
        lock_wait: the wait, for the dashboard; None before it.
    """

    # Defaults of the class: each request makes an object, and setting an attribute takes time.
    met_hung_server = False
    lock_wait: LockWait | None = None
    _pop: BlockingPop | None = None
    #: Whether no request is in flight that may still create a place or a grant. Not known for a waiter that is
    #: interrupted while it requests again.
    _is_settled = True

    def __init__(self, kind: QueuedKind, token: str, wait_limit_s: float, subject: tuple[str, str, str]) -> None:
        self.token = token
        self.requested_at = time.monotonic()
        self._kind = kind
        self._subject = subject
        self._limit_s = wait_limit_s
        self._is_bounded = 0 < wait_limit_s < math.inf
        self._deadline_at = self.requested_at + wait_limit_s

    def lease(self, acquisition: Acquisition) -> Flow[Lease | None]:
        """Request, wait and request again; return the lease if it was granted in time and has not expired."""
        kind, grants = self._kind, 0
        while grants < LATE_REPLIES:
            self.requested_at = time.monotonic()
            call = kind.acquire(self.token, self._limit_s > 0)
            reply: Sequence[int] = yield self._bounded(call) if self._is_bounded else call
            self._is_settled = True
            if reply[0] > 0:
                lease = Lease(self.token, local_deadline(self.requested_at, kind.ttl_ms), reply[0])
                now = time.monotonic()
                if self._is_bounded and now > max(self._deadline_at, self._deadline_at - self._limit_s + GRACE_S):
                    acquisition.late_for = LATE_FOR_LIMIT
                    break
                if now < lease.deadline_at:
                    return lease
                grants += 1
                acquisition.late_for = late_for_lease(kind.ttl_ms)
            elif reply[0] or not self._limit_s or (yield from self._is_over_after_wait(reply[1])):
                acquisition.late_for = ""
                kind.refuse(acquisition, reply)
                return None
            else:
                grants = 0
        yield from self.abandon()
        return None

    def _is_over_after_wait(self, ask_again_ms: int) -> Flow[bool]:
        """Wait until a wakeup, or until the next request is due. Return whether the time limit has passed."""
        left_s = self._deadline_at - time.monotonic()
        if left_s > 0:
            self._start_wait()
            yield Wait(self._wakeups(), min(ask_again_ms / 1_000, left_s))
            self._is_settled = False
        overrun_s = time.monotonic() - self._deadline_at
        self.met_hung_server = overrun_s > MAX_OVERRUN_S
        if overrun_s >= 0 and not self.met_hung_server:
            yield from self.abandon()
        return overrun_s >= 0

    def abandon(self) -> Flow[None]:
        """Leave the queue, and release what was granted."""
        self.close()  # before others are woken, because it might read their wakeup
        yield self._bounded(self._kind.abandon(self.token), IN_FLIGHT_S)

    def abandon_after_interruption(self) -> Flow[None]:
        """Leave nothing behind after a cancellation, not even by a request that is still in flight."""
        self.close()
        with contextlib.suppress(RedisError):
            if (yield BoundedSlotWait(ABANDON_S, self._kind.abandon(self.token))) and self._is_settled:
                return
            yield Sleep(IN_FLIGHT_S)
            yield BoundedSlotWait(ABANDON_S, self._kind.abandon(self.token))

    def close(self) -> None:
        """End the blocking command."""
        if self._pop is not None:
            self._pop.close()

    def end_wait(self, wait: LockWait, *, is_acquired: bool) -> None:
        """End the blocking command, and record the wait for the dashboard."""
        self.close()
        wait.is_acquired = is_acquired
        wait.end()

    def _start_wait(self) -> None:
        if self.lock_wait is None:
            self.lock_wait = LockWait(*self._subject)
            self.lock_wait.start()

    def _wakeups(self) -> BlockingPop:
        if self._pop is None:
            base = self._kind.base
            self._pop = BlockingPop((f"{base}:wakeup:{self.token}", f"{base}:wakeup"))
        return self._pop

    def _bounded(self, call: Call, after_s: float = 0.0) -> Call | BoundedSlotWait:
        """Return the call, not to be sent again after the time limit, also not while a Cluster slot is migrated."""
        if not self._is_bounded:
            return call
        give_up_at = self._deadline_at + after_s
        bounded = BoundedCall(call.script, call.keys, call.args, give_up_at)
        return BoundedSlotWait(give_up_at - time.monotonic(), bounded)


def new_token() -> str:
    """Return a new random token."""
    return os.urandom(16).hex()


def with_suffix(token: str, suffix: str) -> str:
    """Return the token, with the suffix if it does not end in it already."""
    return token if token.endswith(suffix) else token + suffix


def send_releases(calls: Sequence[Call]) -> Flow[int]:
    """Send releases one by one, each with what must follow it, and return how many released something."""
    released = 0
    for call in calls:
        reply = yield call
        if reply == HANDED_OFF and isinstance(call, ReleaseCall):
            yield call.confirm
        released += bool(reply)
    return released


def _repeat(call: Call, lease: Lease, error: RedisError) -> Flow[object]:
    """Repeat a release whose first reply was lost, and return its reply."""
    if isinstance(error, (*AUTHENTICATION_ERRORS, *NOT_EXECUTED_ERRORS)):
        raise error  # nothing was executed
    lease.release_unknown = True
    return (yield _idempotent(call))


def _idempotent(call: Call) -> IdempotentCall:
    return IdempotentCall(call.script, call.keys, call.args)
