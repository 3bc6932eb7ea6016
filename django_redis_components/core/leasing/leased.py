"""The base of locks and semaphores: the methods that every object with leases has."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from typing import Any, NoReturn, SupportsIndex

from asgiref.sync import markcoroutinefunction

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.context_managers import LeaseContextManager
from django_redis_components.core.leasing.flows import LeaseFlows
from django_redis_components.core.leasing.lease import LostEvent
from django_redis_components.core.leasing.owner import current_owner
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import Seconds, to_ms


class Leased(LeaseContextManager):
    """An object that grants leases to threads and tasks. A lease belongs to the thread or task that acquired it.

    Methods without a request (`check`, `remaining`, `token`, `lost`) go by the clock of this process. All others have
    an asyncio twin with an ``a`` before its name, which is a plain function that returns a coroutine: the caller is
    looked up when it is called, not in the task that runs it.

    Attributes:
        name: identifies it in errors; of several names, all of them.
        using: our connection alias.
        flows: the operations as flows, for callers that run them within a flow of their own.
    """

    flows: LeaseFlows

    def __init__(self, name: str, flows: LeaseFlows, using: str) -> None:
        self.name = name
        self.using = using
        self.flows = flows

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse to be pickled or copied: a copy would have the leases of threads and tasks that did not acquire it."""
        raise TypeError(
            f"{self!r} cannot be pickled or copied: its leases belong to threads and tasks of this process. Create"
            " another object of this name there; adopt(token) continues a lease."
        )

    def release(self) -> None:
        """Release what this thread or task acquired last. The first waiter gets it at once.

        Raises:
            LockNotOwned, PermitNotOwned: this thread or task owns nothing, or the lease has expired. Nothing is
                released then.
        """
        run(client(self.using), self.flows.release())

    @markcoroutinefunction
    def arelease(self) -> Coroutine[Any, Any, None]:
        """See `release`. It is completed even if the task is cancelled."""
        return self._arun(self.flows.release(current_owner()))

    def adopt(self, token: str) -> None:
        """Take over the lease that has this token, for as long as it lasts. Reads only: no new lease begins.

        Use it to continue another process's, thread's or task's work. From now on the caller owns the lease, and no
        other owner of this object does.

        Raises:
            LockNotOwned, PermitNotOwned: no lease has this token.
        """
        run(client(self.using), self.flows.adopt(token, current_owner()))

    @markcoroutinefunction
    def aadopt(self, token: str) -> Coroutine[Any, Any, None]:
        """See `adopt`."""
        return self._arun(self.flows.adopt(token, current_owner()))

    def extend(self, seconds: Seconds) -> bool:
        """Make the lease last at least `seconds` from now; it is never shortened. Returns True.

        Raises:
            LockNotOwned, PermitNotOwned: the caller owns nothing, or the lease has expired.
        """
        return run(client(self.using), self.flows.extend(to_ms(seconds, "seconds")))

    @markcoroutinefunction
    def aextend(self, seconds: Seconds) -> Coroutine[Any, Any, bool]:
        """See `extend`."""
        return self._arun(self.flows.extend(to_ms(seconds, "seconds"), current_owner()))

    def reacquire(self) -> bool:
        """Make the lease last for its full `timeout` again. See `extend`."""
        return run(client(self.using), self.flows.extend(self.flows.ttl_ms))

    @markcoroutinefunction
    def areacquire(self) -> Coroutine[Any, Any, bool]:
        """See `reacquire`."""
        return self._arun(self.flows.extend(self.flows.ttl_ms, current_owner()))

    def owned(self) -> bool:
        """Ask the server whether the caller still owns its lease."""
        return run(client(self.using), self.flows.owned())

    @markcoroutinefunction
    def aowned(self) -> Coroutine[Any, Any, bool]:
        """See `owned`."""
        return self._arun(self.flows.owned(current_owner()))

    def locked(self) -> bool:
        """Ask the server whether it is held: whether `acquire` would have to wait."""
        return run(client(self.using), self.flows.locked())

    async def alocked(self) -> bool:
        """See `locked`."""
        return await arun(aclient(self.using), self.flows.locked())

    def check(self) -> None:
        """Raise unless the caller's lease is valid for certain. Sends no request.

        Raises:
            LockLost, PermitLost: the lease has expired.
            LockNotOwned, PermitNotOwned: nothing was acquired, or it was released, or the reply to a release was lost.
        """
        self.flows.check()

    def remaining(self) -> float:
        """Return the seconds for which the lease is valid for certain; 0.0 without one. Sends no request."""
        lease = self.flows.leases.current()
        return lease.remaining_s if lease else 0.0

    @property
    def token(self) -> str | None:
        """What identifies the caller's lease on the server; None without one."""
        lease = self.flows.leases.current()
        return lease.token if lease else None

    @property
    def lost(self) -> threading.Event:
        """An event that is set from the moment the lease is lost, by the clock: no request is needed."""
        lease = self.flows.leases.current() or self.flows.leases.newest
        return lease.lost if lease else LostEvent()

    async def _arun(self, flow: Flow[Any]) -> Any:
        return await arun(aclient(self.using), flow)
