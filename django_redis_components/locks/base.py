"""What every lock of this room can do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any

from asgiref.sync import markcoroutinefunction

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.context_managers import Blocks
from django_redis_components.core.leasing.lease import LostEvent
from django_redis_components.core.leasing.owner import current_owner
from django_redis_components.core.leasing.renewal_policy import renewal_policy_for
from django_redis_components.core.leasing.wait_queue import wait_limit
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import Seconds, check_flag, to_ms
from django_redis_components.locks.exceptions import LockLost, LockNotOwned
from django_redis_components.locks.flows import Holder
from django_redis_components.locks.lock_scripts import LockScripts
from django_redis_components.locks.options import AcquireOptions, replicas


class BaseLock(Blocks):
    """The methods that `Lock`, `MultiLock` and the two sides of a `ReadWriteLock` share.

    Attributes:
        name: what it is called in errors; of several names, all of them.
    """

    _holder: Holder

    def __init__(
        self,
        name: str,
        calls: LockScripts,
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
        policy = renewal_policy_for(self, "lock", using, timeout, renew, max_lease, on_lost)
        limit_s = wait_limit(blocking, blocking_timeout)
        terms = AcquireOptions(blocking, limit_s, check_flag(reentrant, "reentrant"), replicas(min_replicas), using)
        self._holder = Holder(name, calls, terms, policy)
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
        """Take the lock. It belongs to the calling thread or task; `release` it there.

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

    @markcoroutinefunction
    def aacquire(
        self,
        *,
        blocking: bool | None = None,
        blocking_timeout: Seconds | None = None,
        token: str | None = None,
    ) -> Coroutine[Any, Any, bool]:
        """See `acquire`. A cancelled task leaves the line, or hands on what it was just given."""
        return self._run_async(self._holder.acquire(blocking, blocking_timeout, token))

    def release(self) -> None:
        """Give the lock back; the first in line has it at once.

        Raises:
            LockNotOwned: this thread or task does not hold it: it was not taken here, or it expired. Nothing is
                released then.
        """
        run(client(self._using), self._holder.release())

    @markcoroutinefunction
    def arelease(self) -> Coroutine[Any, Any, None]:
        """See `release`. A cancelled task has released the lock all the same."""
        return self._run_async(self._holder.release(current_owner()))

    def adopt(self, token: str) -> None:
        """Go on under the token of the present holder, for what is left of its lease. Writes nothing.

        It hands a lock over, to another process, thread or task: from now on the caller owns the lease, and
        through this object no other does.

        Raises:
            LockNotOwned: this token does not hold the lock.
        """
        run(client(self._using), self._holder.adopt(token, current_owner()))

    @markcoroutinefunction
    def aadopt(self, token: str) -> Coroutine[Any, Any, None]:
        """See `adopt`."""
        return self._run_async(self._holder.adopt(token, current_owner()))

    def extend(self, seconds: Seconds) -> bool:
        """Make the lease last at least so long from now; it is never shortened. Returns True.

        Raises:
            LockNotOwned: we do not hold it any more.
        """
        return run(client(self._using), self._holder.extend(to_ms(seconds, "seconds")))

    @markcoroutinefunction
    def aextend(self, seconds: Seconds) -> Coroutine[Any, Any, bool]:
        """See `extend`."""
        return self._run_async(self._holder.extend(to_ms(seconds, "seconds"), current_owner()))

    def reacquire(self) -> bool:
        """Make the lease last for its full `timeout` again. See `extend`."""
        return run(client(self._using), self._holder.extend(self._holder.ttl_ms))

    @markcoroutinefunction
    def areacquire(self) -> Coroutine[Any, Any, bool]:
        """See `reacquire`."""
        return self._run_async(self._holder.extend(self._holder.ttl_ms, current_owner()))

    def owned(self) -> bool:
        """Whether the server says that we hold the lock."""
        return run(client(self._using), self._holder.owned())

    @markcoroutinefunction
    def aowned(self) -> Coroutine[Any, Any, bool]:
        """See `owned`."""
        return self._run_async(self._holder.owned(current_owner()))

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
        if lease.release_unknown:
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
        return (lease.grant or None) if lease else None

    @property
    def lost(self) -> threading.Event:
        """Set from the moment the lease is lost, also when nobody looks at it: it goes by the clock."""
        lease = self._holder.leases.current() or self._holder.leases.newest
        return lease.lost if lease else LostEvent()

    async def _run_async(self, flow: Flow[Any]) -> Any:
        return await arun(aclient(self._using), flow)
