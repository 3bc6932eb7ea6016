"""What a semaphore does, as flows, and what it knows of its permits."""

from __future__ import annotations

import dataclasses
import logging
import time

from redis.exceptions import RedisError

from django_redis_components.core import keys, turns
from django_redis_components.core.leases import deadline_of
from django_redis_components.core.protocol import Call, Flow
from django_redis_components.core.units import Seconds, from_ms, to_ms
from django_redis_components.semaphores.exceptions import SemaphoreFull
from django_redis_components.semaphores.scripts import ABANDON, ACQUIRE, COUNT, LIST, REFRESH, RELEASE

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
        self, name: str, limit: int, timeout: Seconds, blocking: bool, blocking_timeout: Seconds | None
    ) -> None:
        self.name = keys.validate_name(name, "semaphore name")
        self.limit = _whole(limit, "limit", MAX_LIMIT)
        self._ttl_ms = to_ms(timeout, "timeout")
        self._patience_s = turns.patience(blocking, blocking_timeout)
        self._made_keys: dict[str, str] | None = None
        self._turns = turns.Turns(self._ttl_ms)

    @property
    def _keys(self) -> dict[str, str]:
        """Made on first use: a semaphore may stand in a module that is imported before the settings."""
        made = self._made_keys
        if made is None:
            base = keys.key("semaphores", self.name)
            made = self._made_keys = {"holders": base, "queue": f"{base}:queue", "alive": f"{base}:alive"}
        return made

    @property
    def _holders(self) -> str:
        return self._keys["holders"]

    def acquire(self, permits: int) -> Flow[bool]:
        """Take permits; False if there are not enough."""
        count = _whole(permits, "permits", min(self.limit, MAX_PERMITS))
        suffix = f":{count}:{self.limit}"
        return self._turns.take(self._holders, self._ask, self._abandon, self._patience_s, suffix=suffix)

    def enter(self) -> Flow[None]:
        """Take a permit for a `with` block."""
        if not (yield from self.acquire(1)):
            raise SemaphoreFull(self.name, self.limit, self._patience_s)

    def release(self) -> Flow[bool]:
        """Give back what the last `acquire` took; False if it had expired, or nothing was taken."""
        lease = self._turns.leases.current()
        if lease is None:
            return False
        call = RELEASE(**self._keys, permit=lease.token, handoff_ms=turns.HANDOFF_MS)
        return (yield from self._turns.give_back(call, lease))

    def leave(self, error: BaseException | None) -> Flow[None]:
        """Give the permit back after a `with` block; a failure does not replace the block's own error."""
        try:
            if not (yield from self.release()):
                _log.warning("A permit of semaphore %r expired before its block ended.", self.name)
        except RedisError as exc:
            if error is None:
                raise
            error.add_note(f"{type(exc).__name__} on leaving the block: {exc}")

    def refresh(self) -> Flow[bool]:
        """Begin the lease anew; False if it is lost."""
        lease = self._turns.leases.current()
        if lease is None:
            return False
        asked_at = time.monotonic()
        if not (yield REFRESH(holders=self._holders, permit=lease.token, ttl_ms=self._ttl_ms)):
            lease.mark_lost()
            return False
        lease.renew(deadline_of(asked_at, self._ttl_ms))
        return True

    def available(self) -> Flow[int]:
        """How many permits are free."""
        held: int = yield COUNT(holders=self._holders)
        return max(0, self.limit - held)

    def holders(self) -> Flow[list[PermitHolder]]:
        """Who holds permits; those that expire first come first."""
        found = iter((yield LIST(holders=self._holders, most=MAX_LISTED)))
        left_ms = {member.decode(): ms for member, ms in zip(found, found, strict=True)}
        return [
            PermitHolder(permit, int(permit.split(":")[1]), from_ms(ms))
            for permit, ms in left_ms.items()
            if "#" not in permit
        ]

    def _ask(self, permit: str, patience_ms: int) -> Call:
        return ACQUIRE(
            **self._keys,
            permit=permit,
            ttl_ms=self._ttl_ms,
            patience_ms=patience_ms,
            handoff_ms=turns.HANDOFF_MS,
        )

    def _abandon(self, permit: str) -> Call:
        return ABANDON(**self._keys, permit=permit, handoff_ms=turns.HANDOFF_MS)


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
