"""What a semaphore does, as flows, and what it knows of its permits."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable

from redis.exceptions import RedisError

from django_redis_components.core import keys
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition, OwnedLeases, Owner, current_owner
from django_redis_components.core.leasing.renewal import release_in_thread, watchdog
from django_redis_components.core.leasing.renewal_policy import RenewalPolicy
from django_redis_components.core.protocol import Batch, Call, Flow, Read
from django_redis_components.core.units import Seconds, from_ms, to_ms
from django_redis_components.semaphores.exceptions import PermitLost, PermitNotHeld, SemaphoreFull, TooManyPermits
from django_redis_components.semaphores.scripts import (
    ABANDON,
    ACQUIRE,
    CONFIRM,
    COUNT,
    LIST,
    REFRESH,
    RELEASE,
    SET_LIMIT,
)

#: Largest limit: each permit that is held is a member of a sorted set.
MAX_LIMIT = 1_000_000
#: Most permits that one `acquire` may take: the script adds them one by one.
MAX_PERMITS = 1_000
#: Most permits that `holders` reads.
MAX_LISTED = 1_000

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class PermitHolder:
    """One holder, as the server knows it.

    Attributes:
        id: what it is known by.
        permits: how many it holds.
        remaining: seconds until they expire.
    """

    id: str
    permits: int
    remaining: float


class Holder:
    """The logic of `Semaphore`, without a connection."""

    def __init__(
        self,
        name: str,
        limit: int,
        timeout: Seconds,
        blocking: bool,
        blocking_timeout: Seconds | None,
        policy: RenewalPolicy | None,
        using: str,
    ) -> None:
        """Args: policy: who looks after permits."""
        self._using = using
        self.name = keys.validate_name(name, "semaphore name")
        self.limit = _whole(limit, "limit", MAX_LIMIT)
        self._ttl_ms = to_ms(timeout, "timeout")
        self._wait_limit_s = wait_queue.wait_limit(blocking, blocking_timeout)
        self._made_keys: dict[str, str] | None = None
        self._queue = wait_queue.WaitQueue(self._ttl_ms)
        self._policy = policy
        #: Calls for no permit, see `wait_queue.with_token`.
        self._acquire_calls: dict[bool, Call] = {}
        self._release: Call | None = None

    @property
    def _keys(self) -> dict[str, str]:
        """Made on first use: a semaphore may stand in a module that is imported before the settings."""
        made = self._made_keys
        if made is None:
            base = keys.key("semaphores", self.name)
            made = self._made_keys = {"holders": base, "queue": f"{base}:queue", "limit": f"{base}:limit"}
        return made

    @property
    def _holders(self) -> str:
        return self._keys["holders"]

    @property
    def leases(self) -> OwnedLeases:
        """The permits that were taken through this object."""
        return self._queue.leases

    def acquire(
        self, permits: int, refused: Callable[[int], object] | None = None, acquisition: Acquisition | None = None
    ) -> Flow[bool]:
        """Take permits; False if there are not enough, and then `refused` is told how many there are in all."""
        asked = Acquisition() if acquisition is None else acquisition
        count = _whole(permits, "permits", min(self.limit, MAX_PERMITS))

        def explain(code: int, limit: int) -> None:
            if code < 0:
                raise TooManyPermits(self.name, count, limit)
            if refused is not None:
                refused(limit)

        suffix = f":{count}:{self.limit}"
        take = self._queue.acquire(
            self._holders, self._ask, self._abandon, self._wait_limit_s, asked, suffix=suffix, refused=explain
        )
        return take if self._policy is None else self._acquire_and_watch(take, asked, self._policy)

    def adopt(self, token: str, owner: Owner) -> Flow[None]:
        """Go on with permits that are held under this token, for what is left of their lease."""
        keys.validate_name(token, "token")
        current = self.leases.own(owner)
        if current is not None and current.token == token and not current.is_lost:
            return
        requested_at = time.monotonic()
        until_ms, now = yield Batch([Read("ZSCORE", self._holders, token), Read("TIME", key=self._holders)])
        left_ms = 0.0 if until_ms is None else float(until_ms) - int(now[0]) * 1_000 - int(now[1]) / 1_000
        if left_ms <= 0:
            raise PermitNotHeld(self.name, f"is not held under the token {token!r}")
        lease = Lease(token, local_deadline(requested_at, int(left_ms)))
        self.leases.add(lease, Acquisition(owner))
        for earlier in self.leases.with_same_token(lease):  # permits have one owner at a time
            watchdog.stop(earlier)
            self.leases.returned(earlier)
        if self._policy is not None:
            self._policy.begin(lease, self.leases, self._extend_calls, self._ttl_ms)

    def enter(self, block: Acquisition | None = None) -> Flow[None]:
        """Take a permit for a `with` block."""
        limits: list[int] = []
        if not (yield from self.acquire(1, limits.append, block)):
            raise SemaphoreFull(self.name, limits[0], self._wait_limit_s)

    def release(self, owner: Owner | None = None) -> Flow[bool]:
        """Give back what the last `acquire` took; False if it had expired, or nothing was taken."""
        lease = self.leases.claim(current_owner() if owner is None else owner)
        return lease is not None and (yield from self._give_back(lease))

    def _give_back(self, lease: Lease) -> Flow[bool]:
        call = wait_queue.with_token(lease.token, self._release or self._make_release())
        watchdog.stop(lease)  # for good: who leaves a block does not try again, and would hold it for ever
        return (yield from self._queue.release(call, lease))

    def leave(self, error: BaseException | None, block: Acquisition) -> Flow[None]:
        """Give the permit back after a `with` block; a failure does not replace the block's own error."""
        try:
            block.lease = lease = block.held() or self.leases.claim(block.owner)
            block.is_leaving = True
            if lease is None or not (yield from self._give_back(lease)):
                _log.warning("A permit of semaphore %r expired before its block ended.", self.name)
        except RedisError as exc:
            block.lease = None  # left to end
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
        if lease is not None:
            watchdog.stop(lease)
            self.leases.returned(lease)
            call = wait_queue.with_token(lease.token, self._release or self._make_release())
            release_in_thread(self.name, self._using, (call,))

    def refresh(self, owner: Owner | None = None) -> Flow[bool]:
        """Begin the lease anew; False if it is lost."""
        lease = self.leases.claim(current_owner() if owner is None else owner)
        if lease is None:
            return False
        requested_at = time.monotonic()
        if not all((yield Batch(self._extend_calls(lease.token, self._ttl_ms)))):
            lease.mark_lost()
            watchdog.recheck(lease)
            return False
        lease.renew(local_deadline(requested_at, self._ttl_ms))
        return True

    def check(self) -> None:
        """Raise unless the permit is surely ours."""
        lease = self.held()
        if lease.release_unknown:
            raise PermitNotHeld(self.name, "may be given back already: no answer came when it was released")
        if lease.is_lost:
            raise PermitLost(self.name)

    def held(self) -> Lease:
        """What this thread or task took last.

        Raises:
            PermitNotHeld: nothing.
        """
        lease = self.leases.current()
        if lease is None:
            raise PermitNotHeld(self.name)
        return lease

    def set_limit(self, limit: int | None) -> Flow[None]:
        """Change the limit for all; None lets each keep to its own."""
        number = 0 if limit is None else _whole(limit, "limit", MAX_LIMIT)
        yield SET_LIMIT(**self._keys, number=number, handoff_ms=wait_queue.HANDOFF_MS)

    def limit_in_force(self) -> Flow[int]:
        """The limit that was set for all, else our own."""
        limit: int = (yield self._count())[1]
        return limit or self.limit

    def available(self) -> Flow[int]:
        """How many permits are free."""
        reply: list[int] = yield self._count()
        held, limit = reply
        return max(0, (limit or self.limit) - held)

    def holders(self) -> Flow[list[PermitHolder]]:
        """Who holds permits; those that expire first come first."""
        found = iter((yield LIST(holders=self._holders, most=MAX_LISTED)))
        left_ms = {member.decode(): ms for member, ms in zip(found, found, strict=True)}
        return [
            PermitHolder(permit, int(permit.split(":")[1]), from_ms(ms))
            for permit, ms in left_ms.items()
            if "#" not in permit
        ]

    def _acquire_and_watch(self, take: Flow[bool], acquisition: Acquisition, policy: RenewalPolicy) -> Flow[bool]:
        granted = yield from take
        lease = acquisition.lease
        if granted and lease is not None:
            try:
                policy.begin(lease, self.leases, self._extend_calls, self._ttl_ms)
            except BaseException:
                with contextlib.suppress(RedisError):
                    yield from self._give_back(lease)
                raise
        return granted

    def _ask(self, permit: str, wait: bool) -> Call:
        return wait_queue.with_token(permit, self._acquire_calls.get(wait) or self._make_acquire(wait))

    def _make_acquire(self, wait: bool) -> Call:
        made = self._acquire_calls[wait] = ACQUIRE(
            **self._keys,
            permit="",
            ttl_ms=self._ttl_ms,
            wait=int(wait),
            handoff_ms=wait_queue.HANDOFF_MS,
        )
        return made

    def _make_release(self) -> Call:
        release = RELEASE(**self._keys, permit="", handoff_ms=wait_queue.HANDOFF_MS)
        confirm = CONFIRM(base=self._holders, handoff_ms=wait_queue.HANDOFF_MS)
        made = self._release = wait_queue.ReleaseCall(release.script, release.keys, release.args, confirm)
        return made

    def _abandon(self, permit: str) -> Call:
        return ABANDON(**self._keys, permit=permit, handoff_ms=wait_queue.HANDOFF_MS)

    def _extend_calls(self, permit: str, ttl_ms: int) -> tuple[Call, ...]:
        return (REFRESH(holders=self._holders, limit=self._keys["limit"], permit=permit, ttl_ms=ttl_ms),)

    def _count(self) -> Call:
        return COUNT(holders=self._holders, limit=self._keys["limit"])


def _whole(value: object, what: str, most: int) -> int:
    """Check a number of permits.

    Raises:
        TypeError: not a whole number.
        ValueError: below 1, or above `most`.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what}={value!r}: expected a whole number from 1 to {most}.")
    if not 1 <= value <= most:
        raise ValueError(f"{what}={value!r}: expected a whole number from 1 to {most}.")
    return value
