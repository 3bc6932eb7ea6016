"""What a lock does, as flows, and what it knows of its leases."""

from __future__ import annotations

import time

from redis.exceptions import RedisError

from django_redis_components.core import keys, turns
from django_redis_components.core.leases import Lease, Leases, deadline_of
from django_redis_components.core.protocol import Call, Flow, Read
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.exceptions import LockError, LockLost, LockNotAcquired, LockNotOwned
from django_redis_components.locks.options import shared_leases
from django_redis_components.locks.scripts import ABANDON, ACQUIRE, EXTEND, RELEASE
from django_redis_components.locks.watchdog import Care, watchdog


class Holder:
    """The logic of `Lock`, without a connection."""

    def __init__(
        self,
        name: str,
        timeout: Seconds,
        blocking: bool,
        blocking_timeout: Seconds | None,
        fair: bool,
        reentrant: bool,
        using: str,
        care: Care | None,
    ) -> None:
        """Args: using: our connection alias, which reentrant locks of a name share. care: who looks after leases."""
        self.name = keys.validate_name(name, "lock name")
        self.ttl_ms = to_ms(timeout, "timeout")
        self._blocking = blocking
        self._patience_s = turns.patience(blocking, blocking_timeout)
        self._fair = int(fair)
        self._reentrant = reentrant
        self._using = using
        self._care = care
        self._made_keys: dict[str, str] | None = None
        self._turns = turns.Turns(self.ttl_ms)

    @property
    def _keys(self) -> dict[str, str]:
        """Made on first use: a lock may stand in a module that is imported before the settings."""
        made = self._made_keys
        if made is None:
            lock = keys.key("locks", self.name)
            parts = {"lock": lock, "fence": f"{lock}:fence", "queue": f"{lock}:queue", "alive": f"{lock}:alive"}
            made = self._made_keys = parts
        return made

    @property
    def _lock(self) -> str:
        return self._keys["lock"]

    @property
    def leases(self) -> Leases:
        """The leases of this object, or those that all reentrant objects of this lock share."""
        if self._reentrant:
            self._turns.leases = shared_leases(self._using, self._lock)
        return self._turns.leases

    def acquire(
        self, blocking: bool | None = None, blocking_timeout: Seconds | None = None, token: str | None = None
    ) -> Flow[bool]:
        """Take the lock; False if somebody else has it."""
        patience_s = self._patience_s
        if blocking is not None or blocking_timeout is not None:
            patience_s = self._resolve(blocking, blocking_timeout)
        if token is not None:
            keys.validate_name(token, "token")
        take = self._turns.take(self._lock, self._ask, self._abandon, patience_s, token=token)
        if self._care is None and not self._reentrant:
            return take
        return self._take_with_care(take, may_enter_again=token is None)

    def enter(self) -> Flow[None]:
        """Take the lock for a `with` block."""
        if not (yield from self.acquire()):
            raise LockNotAcquired(self.name, self._patience_s)

    def release(self) -> Flow[None]:
        """Give the lock back."""
        lease = self.held()
        if lease.entries > 1:
            lease.entries -= 1
            return
        call = RELEASE(**self._keys, token=lease.token, handoff_ms=turns.HANDOFF_MS, fair=self._fair)
        watch = watchdog.unwatch(lease)
        try:
            released = yield from self._turns.give_back(call, lease)
        except RedisError:
            if watch is not None:
                watchdog.watch(watch)
            raise
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
        if not (yield EXTEND(lock=self._lock, token=lease.token, ttl_ms=ttl_ms)):
            lease.mark_lost()
            watchdog.hurry(lease)
            raise LockNotOwned(self.name, "was not ours any more when it was to be extended: its lease had ended")
        lease.renew(deadline_of(asked_at, ttl_ms))
        return True

    def owned(self) -> Flow[bool]:
        """Whether the server says that we hold it."""
        lease = self.leases.current()
        return lease is not None and (yield Read("GET", self._lock)) == lease.token.encode()

    def locked(self) -> Flow[bool]:
        """Whether anybody holds it."""
        return bool((yield Read("EXISTS", self._lock)))

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
        if may_enter_again and self._reentrant and self._enter_again():
            return True
        granted = yield from take
        lease = leases.own()
        if granted and lease is not None and self._care is not None:
            self._care.begin(lease, self._lock, self.ttl_ms)
        return granted

    def _enter_again(self) -> bool:
        """Whether this thread or task is inside already; then it is so once more."""
        lease = self.leases.own()
        if lease is None:
            return False
        if lease.is_lost:
            raise LockLost(self.name, "cannot be entered again: it is lost, its lease ended while the work went on")
        lease.entries += 1
        return True

    def _resolve(self, blocking: bool | None, blocking_timeout: Seconds | None) -> float:
        """Seconds to wait: what the call says, else what the object was told."""
        if blocking_timeout is not None:
            return turns.patience(blocking is not False, blocking_timeout)
        if blocking is None or blocking == self._blocking:
            return self._patience_s
        return turns.patience(blocking, None)

    def _ask(self, token: str, patience_ms: int) -> Call:
        return ACQUIRE(
            **self._keys,
            token=token,
            ttl_ms=self.ttl_ms,
            patience_ms=patience_ms,
            handoff_ms=turns.HANDOFF_MS,
            fair=self._fair,
        )

    def _abandon(self, token: str) -> Call:
        return ABANDON(**self._keys, token=token, handoff_ms=turns.HANDOFF_MS, fair=self._fair)
