"""The operations of everything that grants leases, as flows: `Leased` runs them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, TypedDict

from redis.exceptions import RedisError

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_flag, check_string
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leasing.calls import read_releases
from django_redis_components.core.leasing.kind import LeaseKind
from django_redis_components.core.leasing.lease import Lease, Owner, local_deadline
from django_redis_components.core.leasing.owner import Acquisition, OwnedLeases, SharedLeases, current_owner
from django_redis_components.core.leasing.renewal import release_in_thread, renewal_policy_for, renewer
from django_redis_components.core.leasing.wait_queue import WaitQueue, wait_limit
from django_redis_components.core.protocol import Batch, Flow
from django_redis_components.core.units import Seconds


class LeaseOptions(TypedDict, total=False):
    """The options that locks and semaphores share, besides `timeout`. See `Lock`."""

    renew: bool
    max_lease: Seconds | None
    blocking: bool
    blocking_timeout: Seconds | None
    on_lost: Callable[[Any], object] | None
    using: str


class LeaseFlows:
    """What `Leased` objects do, without a connection. Subclasses name the errors.

    Attributes:
        noun: "lock" or "semaphore", for errors.
        kind: makes the requests about this lock or semaphore.
        queue: acquires and releases with them.
        leases: the leases of this object; those of an owner are shared by all reentrant objects of this lock.
        not_owned, lost_error: raised when the caller owns no lease, and when its lease has expired.
        ttl_ms: milliseconds of a lease.
        wait_limit_s: seconds that `acquire` waits unless it is called with another limit.
    """

    noun: str
    not_owned: type[RedisComponentsError]
    lost_error: type[RedisComponentsError]

    def __init__(
        self,
        target: object,
        name: str,
        kind: LeaseKind,
        *,
        queue_class: Callable[..., WaitQueue] = WaitQueue,
        timeout: Seconds,
        reentrant: bool = False,
        renew: bool = False,
        max_lease: Seconds | None = None,
        blocking: bool = True,
        blocking_timeout: Seconds | None = None,
        on_lost: Callable[[Any], object] | None = None,
        using: str = "default",
    ) -> None:
        """Args: target: the object that is locked with. name: for errors."""
        self.name = name
        self.ttl_ms = kind.ttl_ms
        self.wait_limit_s = wait_limit(blocking, blocking_timeout)
        self.kind = kind
        self.leases: OwnedLeases = OwnedLeases()
        if check_flag(reentrant, "reentrant"):
            self.leases = SharedLeases(using, lambda: kind.identity)
        self.queue = queue_class(kind, self.leases, (using, self.noun, name))
        self._using = check_string(using, "using")
        self._blocking = blocking
        self._reentrant = reentrant
        self._policy = renewal_policy_for(target, self.noun, using, timeout, renew, max_lease, on_lost)
        self._is_plain = self._policy is None and not reentrant

    def not_acquired(self, acquisition: Acquisition) -> RedisComponentsError:
        """Return the error of a `with` block whose acquisition was refused."""
        raise NotImplementedError

    def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: Seconds | None = None,
        token: str | None = None,
        acquisition: Acquisition | None = None,
    ) -> Flow[bool]:
        """Acquire a lease; False if it is not free."""
        asked = Acquisition() if acquisition is None else acquisition
        wait_limit_s = self.wait_limit_s
        if blocking is not None or blocking_timeout is not None:
            wait_limit_s = self._resolve(blocking, blocking_timeout)
        if token is not None:
            keys.validate_name(token, "token")
        acquire = self.queue.acquire(wait_limit_s, asked, token)
        if self._is_plain and token is None:
            return acquire
        return self._acquire_and_watch(acquire, asked, has_token=token is not None)

    def adopt(self, token: str, owner: Owner) -> Flow[None]:
        """Own the lease that has this token, for as long as it lasts."""
        keys.validate_name(token, "token")
        current = self.leases.own(owner)
        if current is not None and current.token == token and not current.is_lost:
            return
        lease = yield from self.kind.read(token)
        if lease is None:
            raise self.not_owned(self.name, f"is not held under the token {token!r}")
        self.leases.add(lease, Acquisition(owner))
        self._end_previous(lease)
        if self._policy is not None:
            self._policy.watch(lease, self.leases, self.kind.extend, self.ttl_ms)

    def enter(self, block: Acquisition | None = None) -> Flow[None]:
        """Acquire a lease for a `with` block."""
        asked = Acquisition() if block is None else block
        if not (yield from self.acquire(acquisition=asked)):
            raise self.not_acquired(asked)

    def release(self, owner: Owner | None = None, lease: Lease | None = None) -> Flow[None]:
        """Release a lease, by default the owner's newest one."""
        if lease is None:
            lease = self.leases.obtain(current_owner() if owner is None else owner) or self._required(None)
        if lease.depth > 1:
            lease.depth -= 1
            return
        calls = self.kind.release(lease.token)
        if not self._is_plain:  # for good: a block that was left does not try again, and would keep the lease for ever
            renewer.unwatch(lease)
        if not (yield from self.queue.release(calls, lease)):
            yield from read_releases([(lease, calls)])
            raise self._loss(self.not_owned, lease, "cannot be released", "its lease had expired")

    def leave(self, error: BaseException | None, block: Acquisition) -> Flow[None]:
        """Release the lease of a `with` block. A failure does not replace the block's own error."""
        try:
            block.lease = lease = block.held() or self.owner_lease(block.owner)
            block.is_leaving = True
            yield from self.release(lease=lease)
        except (RedisError, self.not_owned) as exc:
            block.lease = None  # the server has answered, or the lease is left to expire
            if error is None:
                raise
            error.add_note(f"{type(exc).__name__} on leaving the block: {exc}")
        block.lease = None

    def drop(self, block: Acquisition) -> None:
        """Release in a thread the lease of a `with` block that was interrupted before it could."""
        lease, released, block.lease = block.held(), block.lease, None
        if lease is None and released is not None:
            renewer.unwatch(released)  # the interruption may have come before that
        if lease is None and not block.is_leaving:  # released by the body, and acquired again
            lease = self.leases.own(block.owner)
        if lease is None or lease.depth < block.depth:
            return
        lease.depth = block.depth - 1
        if not lease.depth:
            renewer.unwatch(lease)
            self.leases.remove(lease)
            release_in_thread(self.name, self._using, self.kind.release(lease.token))

    def extend(self, ttl_ms: int, owner: Owner | None = None) -> Flow[bool]:
        """Make the lease last at least that long from now."""
        lease = self.owner_lease(owner)
        requested_at = time.monotonic()
        calls = self.kind.extend(lease.token, ttl_ms)
        if not all((yield Batch(calls))):
            lease.mark_lost()
            yield from read_releases([(lease, calls)])
            renewer.recheck(lease)
            raise self._loss(self.not_owned, lease, "cannot be extended", "its lease had expired")
        lease.renew(local_deadline(requested_at, ttl_ms))
        return True

    def owned(self, owner: Owner | None = None) -> Flow[bool]:
        """Whether the server has the owner's lease."""
        lease = self.leases.current(owner)
        return lease is not None and (yield from self.kind.read(lease.token)) is not None

    def locked(self) -> Flow[bool]:
        """Whether `acquire` would have to wait."""
        return self.kind.locked()

    def check(self) -> None:
        """Raise unless the caller's lease is valid for certain."""
        lease = self._required(self.leases.current())
        if lease.release_unknown:
            raise self.not_owned(self.name, "may have been released: the reply to its release was lost")
        if lease.is_lost:
            raise self._loss(self.lost_error, lease, "is lost", "its lease expired before it was released")

    def owner_lease(self, owner: Owner | None = None) -> Lease:
        """Return the lease of this owner, by default the caller; without one it takes over that of an ended owner.

        Raises:
            RedisComponentsError: `not_owned`, there is none.
        """
        lease = self.leases.obtain(current_owner() if owner is None else owner)
        return lease or self._required(lease)

    def _required(self, lease: Lease | None) -> Lease:
        if lease is None:
            raise self.not_owned(self.name, "is not held by this thread or task: not acquired here, or released")
        return lease

    def _loss(self, kind: type[RedisComponentsError], lease: Lease, what: str, expired: str) -> RedisComponentsError:
        """Return the error about a lease that was lost: it has expired, or an operator has released it."""
        release = lease.forced_release
        return kind(self.name, f"{what}: {expired if release is None else f'it was {release}'}", release)

    def _resolve(self, blocking: bool | None, blocking_timeout: Seconds | None) -> float:
        """Return the seconds to wait, from the arguments of a call and the options of the object."""
        if blocking is not None:
            check_flag(blocking, "blocking")
        if blocking_timeout is not None:
            return wait_limit(blocking is not False, blocking_timeout)
        if blocking is None or blocking == self._blocking:
            return self.wait_limit_s
        return wait_limit(blocking, None)

    def _acquire_and_watch(self, acquire: Flow[bool], acquisition: Acquisition, *, has_token: bool) -> Flow[bool]:
        if not has_token and self._reentrant and (yield from self._enter_again(acquisition)):
            return True
        granted = yield from acquire
        lease = acquisition.lease
        if granted and lease is not None:
            if has_token:
                self._end_previous(lease)
            yield from self._secure(lease)
        return granted

    def _end_previous(self, lease: Lease) -> None:
        """A lease has one owner at a time: end what this object knew of it under the same token."""
        for previous in self.leases.others_with_token(lease):
            renewer.unwatch(previous)
            self.leases.remove(previous)

    def _secure(self, lease: Lease) -> Flow[None]:
        """Verify a grant and start to watch it; else release it."""
        try:
            yield from self._verify(lease)
            if self._policy is not None:
                self._policy.watch(lease, self.leases, self.kind.extend, self.ttl_ms)
        except GeneratorExit:
            raise
        except BaseException:
            renewer.unwatch(lease)
            with contextlib.suppress(RedisError):
                yield from self.queue.release(self.kind.release(lease.token), lease)
            self.leases.remove(lease)
            raise

    def _verify(self, lease: Lease) -> Flow[None]:
        """Raise unless a grant may be used."""
        yield from ()

    def _enter_again(self, acquisition: Acquisition) -> Flow[bool]:
        """Enter the lease that the caller owns already; False if it owns none."""
        lease = self.leases.own(acquisition.owner)
        if lease is None:
            return False
        if lease.release_unknown:  # it may be free already, or another's
            yield from self.queue.release(self.kind.release(lease.token), lease)
            return False
        if lease.is_lost:
            expired = "its lease expired before it was released"
            raise self._loss(self.lost_error, lease, "cannot be entered again", expired)
        lease.depth += 1
        acquisition.lease, acquisition.depth = lease, lease.depth
        return True
