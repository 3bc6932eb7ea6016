"""The lock of several names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.wait_queue import WaitQueue
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.locks.base import BaseLock, LockOptions
from django_redis_components.locks.group import GroupKind, sorted_names
from django_redis_components.locks.sequential import SequentialKind, SequentialLease, SequentialQueue
from django_redis_components.locks.state import LockState


class MultiLock(BaseLock):
    """Several names held together: all of them, or none.

    With a `group` the names are in one Cluster slot. One script acquires all of them or joins the queues of all, in
    FIFO order: no deadlock and no starvation. The names belong to this group: a `Lock` of the same name is another
    lock; a `MultiLock` of one name in the same group is the same.

    Without a group they are the locks that `Lock` has under these names. They are acquired one by one in sorted order,
    all released when one of them is held, and tried again after a jittered pause. That is not atomic, costs a round
    trip per name, and serves waiters in no order.

    Everything else is as with `Lock`: leases, renewal, `check`, tokens, asyncio twins.

    Args:
        names: 1 to 100; duplicates count once.
        group: 1 to 200 bytes, without control characters and braces.
        timeout: seconds of a lease.
        options: those of `Lock`, except `fair`.

    Raises:
        TypeError, ValueError: an argument has a wrong type or value.
    """

    def __init__(
        self,
        *names: str,
        group: str | None = None,
        timeout: Seconds = 30.0,
        **options: Unpack[LockOptions],
    ) -> None:
        self.names = sorted_names(names)
        self.group = group
        kind = SequentialKind(self.names, timeout) if group is None else GroupKind(self.names, group, timeout)
        queue_class = SequentialQueue if group is None else WaitQueue
        super().__init__(", ".join(self.names), kind, queue_class=queue_class, timeout=timeout, **options)

    @property
    def fencing_token(self) -> int | None:
        """The number of this grant, above that of every earlier grant of each name; None without a lease.

        Without a group each name has its own number, from the clock of its node. Then it is None: see
        `fencing_tokens`.
        """
        return None if self.group is None else super().fencing_token

    @property
    def fencing_tokens(self) -> Mapping[str, int]:
        """Name to number, above that of every earlier grant of this name; empty without a lease."""
        lease = self.flows.leases.current()
        if lease is None:
            return {}
        return dict(lease.fences) if isinstance(lease, SequentialLease) else dict.fromkeys(self.names, lease.grant)

    def inspect(self) -> dict[str, LockState]:
        """Read the holder and the waiters of each name. Changes nothing.

        With a group one script reads all names at one moment. Without one each name is read as by `Lock.inspect`.
        """
        return run(client(self.using), self.flows.kind.inspect())

    async def ainspect(self) -> dict[str, LockState]:
        """See `inspect`."""
        return await arun(aclient(self.using), self.flows.kind.inspect())
