"""What a lock does, as flows, and what it knows of its leases."""

from __future__ import annotations

import contextlib
import time

from redis.exceptions import RedisError

from django_redis_components.core import keys
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition, OwnedLeases, Owner, current_owner
from django_redis_components.core.leasing.renewal import release_in_thread, watchdog
from django_redis_components.core.leasing.renewal_policy import RenewalPolicy
from django_redis_components.core.leasing.wait_queue import WaitQueue
from django_redis_components.core.protocol import Batch, Flow
from django_redis_components.core.units import Seconds
from django_redis_components.locks import replicas
from django_redis_components.locks.exceptions import (
    LockError,
    LockLost,
    LockNotAcquired,
    LockNotOwned,
    NotEnoughReplicas,
)
from django_redis_components.locks.lock_scripts import LockScripts
from django_redis_components.locks.options import AcquireOptions, shared_records

#: What is wrong when a caller has no lease.
NOT_HELD = "is not held here: not taken by this thread or task, or already released"


class Holder:
    """The logic of all locks, without a connection."""

    def __init__(self, name: str, calls: LockScripts, terms: AcquireOptions, policy: RenewalPolicy | None) -> None:
        """Args: name: for errors. calls: what this kind of lock asks for. policy: who looks after leases."""
        self.name = name
        self.ttl_ms = calls.ttl_ms
        self._calls = calls
        self._terms = terms
        self._policy = policy
        self._is_plain = policy is None and not terms.reentrant and not terms.min_replicas
        self._queue = WaitQueue(calls.ttl_ms)

    @property
    def leases(self) -> OwnedLeases:
        """The leases of this object; those of an owner are shared by all reentrant objects of this lock."""
        leases = self._queue.leases
        if self._terms.reentrant:
            leases.records = shared_records(self._terms.using, self._calls.identity)
        return leases

    def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: Seconds | None = None,
        token: str | None = None,
        acquisition: Acquisition | None = None,
    ) -> Flow[bool]:
        """Take the lock; False if somebody else has it."""
        asked = Acquisition() if acquisition is None else acquisition
        wait_limit_s = self._terms.wait_limit_s
        if blocking is not None or blocking_timeout is not None:
            wait_limit_s = self._terms.resolve(blocking, blocking_timeout)
        if token is not None:
            keys.validate_name(token, "token")
        take = self._calls.acquire(self._queue, wait_limit_s, token, asked)
        if self._is_plain and token is None:
            return take
        return self._acquire_and_watch(take, asked, has_token=token is not None)

    def adopt(self, token: str, owner: Owner) -> Flow[None]:
        """Go on under the token of the present holder, for what is left of its lease."""
        keys.validate_name(token, "token")
        current = self.leases.own(owner)
        if current is not None and current.token == token and not current.is_lost:
            return
        lease = yield from self._calls.read(token)
        if lease is None:
            raise LockNotOwned(self.name, f"is not held under the token {token!r}")
        leases = self.leases
        leases.add(lease, Acquisition(owner))
        self._end_earlier(lease)
        if self._policy is not None:
            self._policy.begin(lease, leases, self._calls.extend, self.ttl_ms)

    def enter(self, block: Acquisition | None = None) -> Flow[None]:
        """Take the lock for a `with` block."""
        if not (yield from self.acquire(acquisition=block)):
            raise LockNotAcquired(self.name, self._terms.wait_limit_s)

    def release(self, owner: Owner | None = None) -> Flow[None]:
        """Give the lock back."""
        return (yield from self._release(self.claimed(owner)))

    def _release(self, lease: Lease) -> Flow[None]:
        if lease.depth > 1:
            lease.depth -= 1
            return
        calls = self._calls.release(lease.token)
        watchdog.stop(lease)  # for good: who leaves a block does not try again, and would hold it for ever
        released = yield from self._queue.release_all(calls, lease)
        if not released:
            raise LockNotOwned(self.name, "was not ours any more when it was to be released: its lease had ended")

    def leave(self, error: BaseException | None, block: Acquisition) -> Flow[None]:
        """Give the lock back after a `with` block; a failure does not replace the block's own error."""
        try:
            block.lease = lease = block.held() or self.claimed(block.owner)
            block.is_leaving = True
            yield from self._release(lease)
        except (RedisError, LockError) as exc:
            block.lease = None  # the server has answered, or the lease is left to end
            if error is None:
                raise
            error.add_note(f"{type(exc).__name__} on leaving the block: {exc}")
        block.lease = None

    def drop(self, block: Acquisition) -> None:
        """Give back in a thread what a `with` block holds that was interrupted before it could."""
        lease, given_back, block.lease = block.held(), block.lease, None
        if lease is None and given_back is not None:
            watchdog.stop(given_back)  # the interruption may have come first
        if lease is None and not block.is_leaving:  # given back by hand, and taken anew
            lease = self.leases.own(block.owner)
        if lease is None or lease.depth < block.depth:
            return
        lease.depth = block.depth - 1
        if not lease.depth:
            watchdog.stop(lease)
            self.leases.returned(lease)
            release_in_thread(self.name, self._terms.using, self._calls.release(lease.token))

    def extend(self, ttl_ms: int, owner: Owner | None = None) -> Flow[bool]:
        """Make the lease last at least that long from now."""
        lease = self.claimed(owner)
        requested_at = time.monotonic()
        if not all((yield Batch(self._calls.extend(lease.token, ttl_ms)))):
            lease.mark_lost()
            watchdog.recheck(lease)
            raise LockNotOwned(self.name, "was not ours any more when it was to be extended: its lease had ended")
        lease.renew(local_deadline(requested_at, ttl_ms))
        return True

    def owned(self, owner: Owner | None = None) -> Flow[bool]:
        """Whether the server says that we hold it."""
        lease = self.leases.current(owner)
        return lease is not None and (yield from self._calls.owned(lease.token))

    def locked(self) -> Flow[bool]:
        """Whether anybody holds it."""
        return self._calls.locked()

    def held(self) -> Lease:
        """The lease of this thread or task.

        Raises:
            LockNotOwned: there is none.
        """
        return self._checked(self.leases.current())

    def claimed(self, owner: Owner | None = None) -> Lease:
        """The lease of this owner, by default the caller; one that it takes over, if it has none.

        Raises:
            LockNotOwned: there is none.
        """
        return self._checked(self.leases.claim(current_owner() if owner is None else owner))

    def _checked(self, lease: Lease | None) -> Lease:
        if lease is None:
            raise LockNotOwned(self.name, NOT_HELD)
        return lease

    def _acquire_and_watch(self, take: Flow[bool], acquisition: Acquisition, *, has_token: bool) -> Flow[bool]:
        _ = self.leases  # a reentrant lock shares its records
        if not has_token and self._terms.reentrant and (yield from self._enter_again(acquisition)):
            return True
        granted = yield from take
        lease = acquisition.lease
        if granted and lease is not None:
            if has_token:
                self._end_earlier(lease)
            yield from self._secure(lease)
        return granted

    def _end_earlier(self, lease: Lease) -> None:
        """A lease has one owner at a time: what this object knew of it under the same token is over."""
        for earlier in self.leases.with_same_token(lease):
            watchdog.stop(earlier)
            self.leases.returned(earlier)

    def _secure(self, lease: Lease) -> Flow[None]:
        """See that enough replicas have the grant, and that it is looked after; else it is given back."""
        wanted = self._terms.min_replicas
        try:
            if wanted:
                acknowledged = yield from replicas.wait(self._calls.ack_keys, wanted, self.ttl_ms, self._terms.using)
                # The primary that was asked may be another than that which has granted, and may lack the grant.
                if acknowledged >= wanted and not (yield from self._calls.owned(lease.token)):
                    acknowledged = 0
                if acknowledged < wanted:
                    raise NotEnoughReplicas(self.name, wanted, acknowledged)
            if self._policy is not None:
                self._policy.begin(lease, self.leases, self._calls.extend, self.ttl_ms)
        except GeneratorExit:
            raise
        except BaseException:
            watchdog.stop(lease)
            with contextlib.suppress(RedisError):
                yield from self._queue.release_all(self._calls.release(lease.token), lease)
            self._queue.leases.returned(lease)
            raise

    def _enter_again(self, acquisition: Acquisition) -> Flow[bool]:
        """Whether this thread or task is inside already; then it is so once more."""
        lease = self.leases.own(acquisition.owner)
        if lease is None:
            return False
        if lease.release_unknown:  # it may be free, and another's, already
            yield from self._queue.release_all(self._calls.release(lease.token), lease)
            return False
        if lease.is_lost:
            raise LockLost(self.name, "cannot be entered again: it is lost, its lease ended while the work went on")
        lease.depth += 1
        acquisition.lease, acquisition.depth = lease, lease.depth
        return True
