"""A `MultiLock` without a group: the locks that `Lock` has under these names, acquired one after the other.

Not atomic: between two requests another process may acquire one of them. They are acquired in the order of their names,
and all are released when one of them is held, so no caller holds one while it waits for another, and no deadlock is
possible.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Sequence

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition, OwnedLeases
from django_redis_components.core.leasing.scripted_kind import deadline_of
from django_redis_components.core.leasing.wait_queue import (
    IN_FLIGHT_S,
    LATE_FOR_LIMIT,
    LATE_REPLIES,
    WaitQueue,
    late_for_lease,
    new_token,
)
from django_redis_components.core.observability.live_events import LockWait
from django_redis_components.core.protocol import Batch, Call, Flow, Sleep
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.lock import PlainKind
from django_redis_components.locks.state import LockState, read_locks

#: Longest backoff before the second attempt, in seconds; it doubles each time, with full jitter.
FIRST_BACKOFF_S = 0.01
#: Longest backoff between two attempts, in seconds: so long may a free set of locks stay unused.
MAX_BACKOFF_S = 0.2


class SequentialLease(Lease):
    """A lease on several locks, each with its own fencing token.

    Attributes:
        fences: name to fencing token.
    """

    def __init__(self, token: str, deadline_at: float, fences: dict[str, int]) -> None:
        super().__init__(token, deadline_at)
        self.fences = fences


class SequentialKind:
    """The kind of a `MultiLock` without a group: several of `Lock`."""

    def __init__(self, names: Sequence[str], timeout: Seconds) -> None:
        """Args: names: those of `group.sorted_names`."""
        self.ttl_ms = to_ms(timeout, "timeout")
        self.names = names
        self._locks = [PlainKind(name, timeout) for name in names]

    @property
    def identity(self) -> str:
        """The names."""
        return "\n".join(lock.identity for lock in self._locks)

    @property
    def ack_keys(self) -> Sequence[str]:
        """A key for each lock, which may be on different nodes."""
        return [key for lock in self._locks for key in lock.ack_keys]

    def parts(self) -> Sequence[PlainKind]:
        """Return each lock."""
        return self._locks

    def release(self, token: str, author: str | None = None) -> Sequence[Call]:
        """Release all of them."""
        return [call for lock in self._locks for call in lock.release(token, author)]

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease on all of them last at least that long from now."""
        return [call for lock in self._locks for call in lock.extend(token, ttl_ms)]

    def read(self, token: str) -> Flow[Lease | None]:
        """Return the lease that this token has on all of them, as it is."""
        requested_at = time.monotonic()
        found = yield Batch([lock.read_call(token) for lock in self._locks])
        if not all(found):
            return None
        deadline_at = min(deadline_of(requested_at, left_ms) for left_ms, _ in found)
        fences = [number for _, number in found]
        return SequentialLease(token, deadline_at, dict(zip(self.names, fences, strict=True)))

    def locked(self) -> Flow[bool]:
        """Return whether any token holds one of them."""
        for lock in self._locks:
            if (yield from lock.locked()):
                return True
        return False

    def inspect(self) -> Flow[dict[str, LockState]]:
        """Read the state of each name."""
        return read_locks(self._locks, self.names)


class SequentialQueue(WaitQueue):
    """Acquires the locks one by one. There is no queue on the server: waiters poll."""

    def __init__(self, kind: SequentialKind, leases: OwnedLeases, subject: tuple[str, str, str]) -> None:
        self.leases = leases
        self._subject = subject
        self._parts = kind.parts()
        self._ttl_ms = kind.ttl_ms
        self._unsettled = []

    def acquire(self, wait_limit_s: float, acquisition: Acquisition, token: str | None = None) -> Flow[bool]:
        """Acquire all of them (True); False if another token holds one until `wait_limit_s` have passed.

        It is also False after `LATE_REPLIES` grants that arrived after the end of the lease.
        """
        deadline_at = time.monotonic() + wait_limit_s
        backoff_s, late_grants = FIRST_BACKOFF_S, 0
        self.leases.record_request(acquisition)
        yield from self._settle()
        mine = new_token() if token is None else token
        wait = LockWait(*self._subject)
        try:
            while True:
                lease = yield from self._try_in_time(mine, deadline_at if wait_limit_s else math.inf, acquisition)
                if lease is not None:
                    self.leases.add(lease, acquisition)
                    wait.is_acquired = True
                    return True
                left_s = deadline_at - time.monotonic()
                late_grants = late_grants + 1 if acquisition.late_for else 0
                if left_s <= 0 or late_grants == LATE_REPLIES:
                    return False
                wait.start()
                yield Sleep(min(random.uniform(0, backoff_s), left_s))
                if time.monotonic() >= deadline_at:
                    return False
                backoff_s = min(2 * backoff_s, MAX_BACKOFF_S)
                if token is None:  # the request that has released the old one may have been sent twice, and arrive late
                    mine = new_token()
        except RedisError:
            if not (yield from self._abandon(mine)) and token is None:
                self.keep_unsettled(mine)
            raise
        except (GeneratorExit, RedisComponentsError):
            raise
        except BaseException:
            yield from self._abandon(mine)
            yield Sleep(IN_FLIGHT_S)
            yield from self._abandon(mine)
            raise
        finally:
            wait.end()

    def _try_in_time(self, token: str, deadline_at: float, acquisition: Acquisition) -> Flow[SequentialLease | None]:
        """Return the lease on all of them, or None and hold none. A grant that arrives late is released."""
        acquisition.late_for = ""
        requested_at = time.monotonic()
        fences = yield from self._try(token)
        if fences is None:
            return None
        lease = SequentialLease(token, local_deadline(requested_at, self._ttl_ms), fences)
        if lease.has_expired:
            acquisition.late_for = late_for_lease(self._ttl_ms)
        elif time.monotonic() > deadline_at:
            acquisition.late_for = LATE_FOR_LIMIT
        else:
            return lease
        yield from self._abandon(token)
        return None

    def _try(self, token: str) -> Flow[dict[str, int] | None]:
        """Return name to fencing token of all of them, or None and hold none."""
        fences: dict[str, int] = {}
        for index, part in enumerate(self._parts):
            granted, *_ = yield part.acquire(token, False)
            if not granted:
                if index:
                    yield Batch([acquired.abandon(token) for acquired in self._parts[:index]])
                return None
            fences[part.name] = granted
        return fences

    def _settle(self) -> Flow[None]:
        """Release what an earlier request may have been granted and could not release."""
        token = self.pop_unsettled()
        if token is None:
            return
        try:
            yield Batch([part.abandon(token) for part in self._parts])
        except BaseException:
            self.keep_unsettled(token)
            raise

    def _abandon(self, token: str) -> Flow[bool]:
        """Release all of them; True if all servers have answered."""
        with contextlib.suppress(RedisError):
            replies = yield Batch([part.abandon(token) for part in self._parts], return_exceptions=True)
            return not any(isinstance(reply, Exception) for reply in replies)
        return False
