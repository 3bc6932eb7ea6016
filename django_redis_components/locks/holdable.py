"""What every lock of this room can do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

from django_redis_components.core import turns
from django_redis_components.core.care import care_for
from django_redis_components.core.connections import aclient, client
from django_redis_components.core.leases import Lost
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds, check_flag, to_ms
from django_redis_components.locks.calls import Calls
from django_redis_components.locks.exceptions import LockLost, LockNotOwned
from django_redis_components.locks.holder import Holder
from django_redis_components.locks.options import Terms, replicas


class Holdable:
    """The methods that `Lock`, `MultiLock` and the two sides of a `ReadWriteLock` share.

    Attributes:
        name: what it is called in errors; of several names, all of them.
    """

    def __init__(
        self,
        name: str,
        calls: Calls,
        *,
        timeout: Seconds = 30.0,
        renew: bool = False,
        max_lease: Seconds | None = None,
        blocking: bool = True,
        blocking_timeout: Seconds | None = None,
        reentrant: bool = False,
        min_replicas: int = 0,
        on_lost: Callable[[Any], object] | None = None,
        using: str = "default",
    ) -> None:
        self.name = name
        care = care_for(self, "lock", using, timeout, renew, max_lease, on_lost)
        patience_s = turns.patience(blocking, blocking_timeout)
        terms = Terms(blocking, patience_s, check_flag(reentrant, "reentrant"), replicas(min_replicas), using)
        self._holder = Holder(name, calls, terms, care)
        self._using = using

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def acquire(
        self,
        *,
        blocking: bool | None = None,
        blocking_timeout: Seconds | None = None,
        token: str | None = None,
    ) -> bool:
        """Take the lock.

        Args:
            blocking: whether to wait; None as the object was told.
            blocking_timeout: seconds to wait at most; None as the object was told.
            token: take it under this token. The token of the present holder takes over its lease, for a
                process that goes on with another's work.

        Returns:
            True if it is ours now, False if somebody else has it.

        Raises:
            NotEnoughReplicas: fewer than `min_replicas` have the grant; it was given back.
        """
        return run(client(self._using), self._holder.acquire(blocking, blocking_timeout, token))

    async def aacquire(
        self,
        *,
        blocking: bool | None = None,
        blocking_timeout: Seconds | None = None,
        token: str | None = None,
    ) -> bool:
        """See `acquire`. A cancelled task leaves the line, or hands on what it was just given."""
        return await arun(aclient(self._using), self._holder.acquire(blocking, blocking_timeout, token))

    def release(self) -> None:
        """Give the lock back; the first in line has it at once.

        Raises:
            LockNotOwned: we do not hold it: it was not taken, it expired, or somebody else has it by now.
                Nothing is released then.
        """
        run(client(self._using), self._holder.release())

    async def arelease(self) -> None:
        """See `release`. A cancelled task has released the lock all the same."""
        await arun(aclient(self._using), self._holder.release())

    def extend(self, seconds: Seconds) -> bool:
        """Make the lease last at least so long from now; it is never shortened. Returns True.

        Raises:
            LockNotOwned: we do not hold it any more.
        """
        return run(client(self._using), self._holder.extend(to_ms(seconds, "seconds")))

    async def aextend(self, seconds: Seconds) -> bool:
        """See `extend`."""
        return await arun(aclient(self._using), self._holder.extend(to_ms(seconds, "seconds")))

    def reacquire(self) -> bool:
        """Make the lease last for its full `timeout` again. See `extend`."""
        return run(client(self._using), self._holder.extend(self._holder.ttl_ms))

    async def areacquire(self) -> bool:
        """See `reacquire`."""
        return await arun(aclient(self._using), self._holder.extend(self._holder.ttl_ms))

    def owned(self) -> bool:
        """Whether the server says that we hold the lock."""
        return run(client(self._using), self._holder.owned())

    async def aowned(self) -> bool:
        """See `owned`."""
        return await arun(aclient(self._using), self._holder.owned())

    def locked(self) -> bool:
        """Whether anybody holds the lock."""
        return run(client(self._using), self._holder.locked())

    async def alocked(self) -> bool:
        """See `locked`."""
        return await arun(aclient(self._using), self._holder.locked())

    def check(self) -> None:
        """Go on only while the lock is surely ours. Asks nobody.

        Raises:
            LockLost: the lease has ended.
            LockNotOwned: the lock was not taken, or was given back, be it in vain.
        """
        lease = self._holder.held()
        if lease.returning:
            raise LockNotOwned(self.name, "may be free already: no answer came when it was released")
        if lease.is_lost:
            raise LockLost(self.name, "is lost: its lease ended while the work went on")

    def remaining(self) -> float:
        """Seconds for which the lock is surely ours; 0.0 without a lease. Asks nobody."""
        lease = self._holder.leases.current()
        return lease.remaining_s if lease else 0.0

    @property
    def token(self) -> str | None:
        """What the lock's key holds while it is ours; None when it was not taken."""
        lease = self._holder.leases.current()
        return lease.token if lease else None

    @property
    def fencing_token(self) -> int | None:
        """The number of this grant, above that of every earlier one; None when it was not taken."""
        lease = self._holder.leases.current()
        return lease.grant if lease else None

    @property
    def lost(self) -> threading.Event:
        """Set from the moment the lease is lost, also when nobody looks at it: it goes by the clock."""
        lease = self._holder.leases.current() or self._holder.leases.newest
        return lease.lost if lease else Lost()

    def __enter__(self) -> Self:
        run(client(self._using), self._holder.enter())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        run(client(self._using), self._holder.leave(error))

    async def __aenter__(self) -> Self:
        await arun(aclient(self._using), self._holder.enter())
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        await arun(aclient(self._using), self._holder.leave(error))
