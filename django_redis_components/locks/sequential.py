"""Names without a group: ordinary locks, wherever they lie, tried one after the other.

Not atomic: between two tries somebody else may look. They are tried in the order of their names, and all
that were taken are given back on the first that is held, so nobody holds one while it waits for another,
and nobody waits in a circle.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Iterable, Sequence

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.protocol import Batch, Call, Flow, Sleep
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.lock_scripts import PlainScripts
from django_redis_components.locks.state import LockState, inspect_each, read_deadline

#: Longest pause before the second try, in seconds; each further one doubles, with full jitter.
FIRST_PAUSE_S = 0.01
#: Longest pause between two tries, in seconds: what a free set of locks may stay unused.
LONGEST_PAUSE_S = 0.2


class SequentialLease(Lease):
    """A lease on several locks, each under a number of its own.

    Attributes:
        fences: name to fencing token.
    """

    __slots__ = ("fences",)

    def __init__(self, token: str, deadline: float, fences: dict[str, int]) -> None:
        super().__init__(token, deadline)
        self.fences = fences


class SequentialScripts:
    """The requests of a `MultiLock` without a group."""

    def __init__(self, names: Sequence[str], timeout: Seconds) -> None:
        """Args: names: those of `group.sorted_names`."""
        self.names = tuple(names)
        self.ttl_ms = to_ms(timeout, "timeout")
        self._parts = [PlainScripts(name, timeout) for name in names]

    @property
    def identity(self) -> str:
        """Which names."""
        return "\n".join(part.identity for part in self._parts)

    @property
    def ack_keys(self) -> Sequence[str]:
        """A key beside each lock: each may be on a node of its own."""
        return [mark for part in self._parts for mark in part.ack_keys]

    def acquire(
        self, queue: wait_queue.WaitQueue, wait_limit_s: float, token: str | None, acquisition: Acquisition
    ) -> Flow[bool]:
        """Take all of them; False if another token holds one."""
        deadline = time.monotonic() + wait_limit_s
        pause_s = FIRST_PAUSE_S
        queue.leases.ask(acquisition)
        yield from self._settle(queue)
        mine = wait_queue.new_token() if token is None else token
        try:
            while True:
                lease = yield from self._try_in_time(mine, deadline if wait_limit_s else math.inf)
                if lease is not None:
                    queue.leases.add(lease, acquisition)
                    return True
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                yield Sleep(min(random.uniform(0, pause_s), left_s))
                if time.monotonic() >= deadline:
                    return False
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                if token is None:  # what gave the old one back may have been sent twice, and arrive late
                    mine = wait_queue.new_token()
        except RedisError:
            if not (yield from self._abandon(mine)) and token is None:
                queue.leave_unsettled(mine)
            raise
        except (GeneratorExit, RedisComponentsError):
            raise
        except BaseException:
            yield from self._abandon(mine)
            yield Sleep(wait_queue.IN_FLIGHT_S)  # a request may still be under way
            yield from self._abandon(mine)
            raise

    def read(self, token: str) -> Flow[Lease | None]:
        """The lease that this token holds on all of them, as it is."""
        found = yield from read_deadline(token, self._inspect())
        if found is None:
            return None
        fences = {part.name: state.fencing_token or 0 for part, state in zip(self._parts, found[1], strict=True)}
        return SequentialLease(token, found[0], fences)

    def release(self, token: str) -> Sequence[Call]:
        """Give all of them back."""
        return [call for part in self._parts for call in part.release(token)]

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease on all of them last at least that long from now."""
        return [call for part in self._parts for call in part.extend(token, ttl_ms)]

    def owned(self, token: str) -> Flow[bool]:
        """Whether the server says that this token holds all of them."""
        for part in self._parts:
            if not (yield from part.owned(token)):
                return False
        return True

    def locked(self) -> Flow[bool]:
        """Whether anybody holds one of them."""
        for part in self._parts:
            if (yield from part.locked()):
                return True
        return False

    def inspect(self) -> Flow[dict[str, LockState]]:
        """The state of each name."""
        return inspect_each(self._parts)

    def _inspect(self) -> Flow[Iterable[LockState]]:
        return (yield from self.inspect()).values()

    def _try_in_time(self, token: str, deadline: float) -> Flow[SequentialLease | None]:
        """The lease on all of them, or None: then none is held. A grant that comes after its time is given back."""
        requested_at = time.monotonic()
        fences = yield from self._try(token)
        if fences is None:
            return None
        lease = SequentialLease(token, local_deadline(requested_at, self.ttl_ms), fences)
        if lease.has_expired or time.monotonic() > deadline:
            yield from self._abandon(token)
            return None
        return lease

    def _try(self, token: str) -> Flow[dict[str, int] | None]:
        """Name to number of all of them, or None and nothing held."""
        fences: dict[str, int] = {}
        for at, part in enumerate(self._parts):
            granted, _ = yield part.ask(token, False)
            if not granted:
                if at:
                    yield Batch([taken.abandon(token) for taken in self._parts[:at]])
                return None
            fences[part.name] = granted
        return fences

    def _settle(self, queue: wait_queue.WaitQueue) -> Flow[None]:
        """Give back what an earlier try may have been granted and could not give back."""
        token = queue.unsettled_token()
        if token is None:
            return
        try:
            yield Batch([part.abandon(token) for part in self._parts])
        except BaseException:
            queue.leave_unsettled(token)
            raise

    def _abandon(self, token: str) -> Flow[bool]:
        """Whether all servers have answered."""
        with contextlib.suppress(RedisError):
            replies = yield Batch([part.abandon(token) for part in self._parts], return_exceptions=True)
            return not any(isinstance(reply, Exception) for reply in replies)
        return False
