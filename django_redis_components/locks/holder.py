"""What a lock does, as flows, and what it knows of its leases."""

from __future__ import annotations

import contextlib
import time

from redis.exceptions import RedisError

from django_redis_components.core import keys, turns
from django_redis_components.core.care import Care
from django_redis_components.core.leases import Lease, Leases, deadline_of
from django_redis_components.core.protocol import Batch, Flow
from django_redis_components.core.units import Seconds
from django_redis_components.core.watchdog import watchdog
from django_redis_components.locks import replicas
from django_redis_components.locks.calls import Calls
from django_redis_components.locks.exceptions import (
    LockError,
    LockLost,
    LockNotAcquired,
    LockNotOwned,
    NotEnoughReplicas,
)
from django_redis_components.locks.options import Terms, shared_leases


class Holder:
    """The logic of all locks, without a connection."""

    def __init__(self, name: str, calls: Calls, terms: Terms, care: Care | None) -> None:
        """Args: name: for errors. calls: what this kind of lock asks for. care: who looks after leases."""
        self.name = name
        self.ttl_ms = calls.ttl_ms
        self._calls = calls
        self._terms = terms
        self._care = care
        self._is_plain = care is None and not terms.reentrant and not terms.min_replicas
        self._turns = turns.Turns(calls.ttl_ms)

    @property
    def leases(self) -> Leases:
        """The leases of this object, or those that all reentrant objects of this lock share."""
        if self._terms.reentrant:
            self._turns.leases = shared_leases(self._terms.using, self._calls.identity)
        return self._turns.leases

    def acquire(
        self, blocking: bool | None = None, blocking_timeout: Seconds | None = None, token: str | None = None
    ) -> Flow[bool]:
        """Take the lock; False if somebody else has it."""
        patience_s = self._terms.patience_s
        if blocking is not None or blocking_timeout is not None:
            patience_s = self._terms.resolve(blocking, blocking_timeout)
        if token is not None:
            keys.validate_name(token, "token")
        take = self._calls.take(self._turns, patience_s, token)
        return take if self._is_plain else self._take_with_care(take, may_enter_again=token is None)

    def enter(self) -> Flow[None]:
        """Take the lock for a `with` block."""
        if not (yield from self.acquire()):
            raise LockNotAcquired(self.name, self._terms.patience_s)

    def release(self) -> Flow[None]:
        """Give the lock back."""
        lease = self.held()
        if lease.entries > 1:
            lease.entries -= 1
            return
        calls = self._calls.give(lease.token)
        watchdog.unwatch(lease)  # for good: who leaves a block does not try again, and would hold it for ever
        released = yield from self._turns.give_all_back(calls, lease)
        if not released:
            raise LockNotOwned(self.name, "was not ours any more when it was to be released: its lease had ended")

    def leave(self, error: BaseException | None) -> Flow[None]:
        """Give the lock back after a `with` block; a failure does not replace the block's own error."""
        try:
            yield from self.release()
        except (RedisError, LockError) as exc:
            if error is None:
                raise
            error.add_note(f"{type(exc).__name__} on leaving the block: {exc}")

    def extend(self, ttl_ms: int) -> Flow[bool]:
        """Make the lease last at least that long from now."""
        lease = self.held()
        asked_at = time.monotonic()
        if not all((yield Batch(self._calls.lengthen(lease.token, ttl_ms)))):
            lease.mark_lost()
            watchdog.hurry(lease)
            raise LockNotOwned(self.name, "was not ours any more when it was to be extended: its lease had ended")
        lease.renew(deadline_of(asked_at, ttl_ms))
        return True

    def owned(self) -> Flow[bool]:
        """Whether the server says that we hold it."""
        lease = self.leases.current()
        return lease is not None and (yield from self._calls.owned(lease.token))

    def locked(self) -> Flow[bool]:
        """Whether anybody holds it."""
        return self._calls.locked()

    def held(self) -> Lease:
        """The lease of this thread or task.

        Raises:
            LockNotOwned: there is none.
        """
        lease = self.leases.current()
        if lease is None:
            raise LockNotOwned(self.name, "is not held here: it was not taken, or was already released")
        return lease

    def _take_with_care(self, take: Flow[bool], *, may_enter_again: bool) -> Flow[bool]:
        leases = self.leases
        if may_enter_again and self._terms.reentrant and (yield from self._enter_again()):
            return True
        granted = yield from take
        lease = leases.own()
        if granted and lease is not None:
            yield from self._secure(lease)
        return granted

    def _secure(self, lease: Lease) -> Flow[None]:
        """See that enough replicas have the grant, and that it is looked after; else it is given back."""
        wanted = self._terms.min_replicas
        try:
            if wanted:
                acknowledged = yield from replicas.wait(self._calls.marks, wanted, self.ttl_ms, self._terms.using)
                # The primary that was asked may be another than that which has granted, and may lack the grant.
                if acknowledged >= wanted and not (yield from self._calls.owned(lease.token)):
                    acknowledged = 0
                if acknowledged < wanted:
                    raise NotEnoughReplicas(self.name, wanted, acknowledged)
            if self._care is not None:
                self._care.begin(lease, self.leases, self._calls.lengthen, self.ttl_ms)
        except GeneratorExit:
            raise
        except BaseException:
            with contextlib.suppress(RedisError):
                yield from self._turns.give_all_back(self._calls.give(lease.token), lease)
            self._turns.leases.returned(lease)
            raise

    def _enter_again(self) -> Flow[bool]:
        """Whether this thread or task is inside already; then it is so once more."""
        lease = self.leases.own()
        if lease is None:
            return False
        if lease.returning:  # it may be free, and another's, already
            yield from self._turns.give_all_back(self._calls.give(lease.token), lease)
            return False
        if lease.is_lost:
            raise LockLost(self.name, "cannot be entered again: it is lost, its lease ended while the work went on")
        lease.entries += 1
        return True
