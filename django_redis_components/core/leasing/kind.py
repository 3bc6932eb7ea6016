"""What distinguishes one kind of lock or semaphore from another, as the rest of this package uses it.

A kind is one Lua file (``<component>/lua/shared/<kind>.lua``), which the scripts of `core.leasing.scripts` include, and
one class with its keys and options: a `ScriptedKind`, or one that combines several of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.protocol import Call, Flow


class LeaseKind(Protocol):
    """The requests about one lock or semaphore.

    Attributes:
        ttl_ms: milliseconds of a lease.
        identity: which lock it is; reentrant objects of one identity share their leases.
        ack_keys: a key for each node that grants, which may be written to have replicas acknowledge the grant.
    """

    ttl_ms: int

    @property
    def identity(self) -> str: ...
    @property
    def ack_keys(self) -> Sequence[str]: ...

    def release(self, token: str, author: str | None = None) -> Sequence[Call]:
        """Return the requests that release the lease; with an author, by force."""
        ...

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Return the requests that make the lease last at least that long from now."""
        ...

    def read(self, token: str) -> Flow[Lease | None]:
        """Return the lease that the server has under this token; None without one. Writes nothing."""
        ...

    def locked(self) -> Flow[bool]:
        """Return whether `acquire` would have to wait."""
        ...

    def inspect(self) -> Flow[Any]:
        """Return the state: holders and waiters. Writes nothing."""
        ...

    def parts(self) -> Sequence[Any]:
        """Return the `ScriptedKind` of each object that has its own holder: of several names, one for each."""
        ...


class QueuedKind(LeaseKind, Protocol):
    """A kind whose waiters are queued on the server.

    Attributes:
        base: the key whose ``:wakeup`` and ``:wakeup:<token>`` lists wake waiters.
        suffix: the text that each token ends in.
    """

    suffix: str

    @property
    def base(self) -> str: ...

    def suffix_of(self, permits: int) -> str:
        """Return the text that the token of a request for this number of permits ends in."""
        ...

    def acquire(self, token: str, wait: bool) -> Call:
        """Return the request for a lease. Reply: [grant or code, milliseconds to wait, limit]."""
        ...

    def abandon(self, token: str) -> Call:
        """Return the request that gives up place and grant. Reply 0: it had neither."""
        ...

    def refuse(self, acquisition: Acquisition, reply: Sequence[int]) -> None:
        """Handle a final refusal. May raise an error of this package."""
        ...
