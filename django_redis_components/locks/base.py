"""What all locks have beside `Leased`: how they are acquired, fencing tokens, and acknowledgement by replicas."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Unpack

from asgiref.sync import markcoroutinefunction

from django_redis_components.core.arguments import check_int
from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing.flows import LeaseFlows, LeaseOptions
from django_redis_components.core.leasing.kind import LeaseKind
from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.leased import Leased
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.leasing.wait_queue import WaitQueue
from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.replicas import MAX_REPLICAS
from django_redis_components.core.units import Seconds
from django_redis_components.locks import replicas
from django_redis_components.locks.exceptions import LockLost, LockNotAcquired, LockNotOwned, NotEnoughReplicas


class LockOptions(LeaseOptions, total=False):
    """The options that all locks take beside `timeout`. See `Lock`."""

    reentrant: bool
    min_replicas: int


class LockFlows(LeaseFlows):
    """The operations of all locks."""

    noun = "lock"
    not_owned = LockNotOwned
    lost_error = LockLost

    def __init__(
        self,
        lock: BaseLock,
        kind: LeaseKind,
        min_replicas: int = 0,
        reentrant: bool = False,
        queue_class: Callable[..., WaitQueue] = WaitQueue,
        *,
        timeout: Seconds,
        **options: Unpack[LeaseOptions],
    ) -> None:
        super().__init__(
            lock, lock.name, kind, queue_class=queue_class, timeout=timeout, reentrant=reentrant, **options
        )
        self._min_replicas = check_int(min_replicas, "min_replicas", 0, MAX_REPLICAS)
        self._is_plain = self._is_plain and not min_replicas

    def not_acquired(self, acquisition: Acquisition) -> LockNotAcquired:
        """Return the error of a `with` block that did not get the lock."""
        return LockNotAcquired(self.name, self.wait_limit_s, acquisition.late_for)

    def _verify(self, lease: Lease) -> Flow[None]:
        """Raise unless enough replicas have the grant."""
        wanted = self._min_replicas
        if not wanted:
            return
        acknowledged = yield from replicas.wait(self.kind.ack_keys, wanted, self.ttl_ms, self._using)
        # After a failover the primary that was asked is not the one that has granted, and may not have the grant.
        if acknowledged >= wanted and (yield from self.kind.read(lease.token)) is None:
            acknowledged = 0
        if acknowledged < wanted:
            raise NotEnoughReplicas(self.name, wanted, acknowledged)


class BaseLock(Leased):
    """The methods that `Lock`, `MultiLock`, `ReadLock` and `WriteLock` share."""

    def __init__(
        self,
        name: str,
        kind: LeaseKind,
        *,
        queue_class: Callable[..., WaitQueue] = WaitQueue,
        timeout: Seconds,
        **options: Unpack[LockOptions],
    ) -> None:
        self.name = name
        flows = LockFlows(self, kind, queue_class=queue_class, timeout=timeout, **options)
        super().__init__(name, flows, options.get("using", "default"))

    def acquire(
        self,
        *,
        blocking: bool | None = None,
        blocking_timeout: Seconds | None = None,
        token: str | None = None,
    ) -> bool:
        """Acquire the lock. It belongs to the calling thread or task, which must `release` it.

        Args:
            blocking: whether to wait; None: as the object was created.
            blocking_timeout: longest wait in seconds; None: as the object was created.
            token: acquire it under this token. With the token of the present holder it begins that holder's lease anew.
                To continue a lease as it is, use `adopt`.

        Returns:
            True if it was acquired, False if another owner holds it, or if Redis answered after the wait, or three
            times after the end of the granted lease.

        Raises:
            NotEnoughReplicas: fewer than `min_replicas` have the grant; it was released.
        """
        return run(client(self.using), self.flows.acquire(blocking, blocking_timeout, token))

    @markcoroutinefunction
    def aacquire(
        self,
        *,
        blocking: bool | None = None,
        blocking_timeout: Seconds | None = None,
        token: str | None = None,
    ) -> Coroutine[Any, Any, bool]:
        """See `acquire`. A cancelled task leaves the queue, and releases what it was just granted."""
        return self._arun(self.flows.acquire(blocking, blocking_timeout, token))

    @property
    def fencing_token(self) -> int | None:
        """The number of this grant, above that of every earlier one; None without a lease."""
        lease = self.flows.leases.current()
        return (lease.grant or None) if lease else None
