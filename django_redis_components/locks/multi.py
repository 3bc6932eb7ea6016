"""The lock of several names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.locks.base import BaseLock
from django_redis_components.locks.group import GroupScripts, sorted_names
from django_redis_components.locks.options import LockOptions
from django_redis_components.locks.sequential import SequentialLease, SequentialScripts
from django_redis_components.locks.state import LockState


class MultiLock(BaseLock):
    """Several names held together: all of them, or none.

    With a `group` the names live in one Cluster slot, and one script takes them all or stands in line for all
    of them, in the order of arrival: no deadlock, and nobody starves. They are names of this group only, which
    a `Lock` of the same name does not know; a `MultiLock` of one name and the same group does.

    Without a group they are the locks that `Lock` knows under these names, taken one after the other in sorted
    order, all given back when one of them is held, and tried again after a jittered pause. That is not atomic,
    costs a round trip for each name, and keeps no order among those who wait.

    All else is as with `Lock`: leases, renewal, `check`, tokens, asyncio twins.

    Args:
        names: 1 to 100; one that is given twice counts once.
        group: 1 to 200 bytes, without control characters and braces.
        timeout: seconds of a lease.
        options: those of `Lock`, but for `fair`.

    Raises:
        TypeError, ValueError: an argument is not of this kind.
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
        calls = SequentialScripts(self.names, timeout) if group is None else GroupScripts(self.names, group, timeout)
        self._calls: GroupScripts | SequentialScripts = calls
        super().__init__(", ".join(self.names), calls, timeout=timeout, **options)

    @property
    def fencing_token(self) -> int | None:
        """The number of this grant, above that of every earlier one of each name; None when nothing was taken.

        Without a group each name has a number of its own, given by a clock of its own, and there is none for
        all of them: None, see `fencing_tokens`.
        """
        return None if self.group is None else super().fencing_token

    @property
    def fencing_tokens(self) -> Mapping[str, int]:
        """Name to number, above that of every earlier grant of this name; empty when nothing was taken."""
        lease = self._holder.leases.current()
        if lease is None:
            return {}
        return dict(lease.fences) if isinstance(lease, SequentialLease) else dict.fromkeys(self.names, lease.grant)

    def inspect(self) -> dict[str, LockState]:
        """Who holds each name, since when, and who waits for it; it changes nothing.

        With a group one script reads all names at one moment. Without one each is read as `Lock.inspect` does.
        """
        return run(client(self._using), self._calls.inspect())

    async def ainspect(self) -> dict[str, LockState]:
        """See `inspect`."""
        return await arun(aclient(self._using), self._calls.inspect())
