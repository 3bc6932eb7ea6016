"""The requests of a semaphore."""

from __future__ import annotations

import time
from collections.abc import Sequence

from django_redis_components.core import keys
from django_redis_components.core.leasing.calls import (
    ReleaseCall,
    acquire_with_token,
    as_text,
    release_with_token,
    with_confirm,
)
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.leasing.wait_queue import HANDOFF_MS
from django_redis_components.core.protocol import Batch, Call, Flow, Read
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.semaphores.exceptions import TooManyPermits
from django_redis_components.semaphores.scripts import ABANDON, ACQUIRE, CONFIRM, EXTEND, RELEASE
from django_redis_components.semaphores.state import inspect_semaphore, semaphore_keys

#: Largest limit: each permit that is held is a member of a sorted set.
MAX_LIMIT = 1_000_000
#: Most permits that one `acquire` may request: the script adds them one by one.
MAX_PERMITS = 1_000


class PermitScripts:
    """The requests of a semaphore. A token ends in ``:<permits>:<limit>``."""

    def __init__(self, name: str, limit: int = 1, timeout: Seconds = 1.0) -> None:
        self.name = keys.validate_name(name, "semaphore name")
        self.limit = checked_number(limit, "limit", MAX_LIMIT)
        self.ttl_ms = to_ms(timeout, "timeout")
        self._made_keys: dict[str, str] | None = None
        #: Calls without a token, see `acquire_with_token`.
        self._acquire_calls: dict[bool, Call] = {}
        self._release_call: ReleaseCall | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Built on first use: a semaphore may be created in a module that is imported before the settings."""
        made = self._made_keys
        if made is None:
            made = self._made_keys = semaphore_keys(self.name)
        return made

    @property
    def base(self) -> str:
        """The key of the permits."""
        return self.keys["holders"]

    identity = base

    def token_suffix(self, acquisition: Acquisition) -> str:
        """Return what the scripts must know: how many permits are requested, and the limit of this object."""
        return f":{acquisition.permits}:{self.limit}"

    def acquire(self, token: str, wait: bool) -> Call:
        """Request permits, or a place in the queue."""
        return acquire_with_token(token, self._acquire_calls.get(wait) or self._make_acquire(wait))

    def refuse(self, acquisition: Acquisition, reply: Sequence[int]) -> None:
        """Store the limit in force.

        Raises:
            TooManyPermits: waiting would never succeed.
        """
        acquisition.limit = reply[-1]
        if reply[0] < 0:
            raise TooManyPermits(self.name, acquisition.permits, acquisition.limit)

    def abandon(self, token: str) -> Call:
        """Give up place and grant."""
        return ABANDON(**self.keys, permit=token, handoff_ms=HANDOFF_MS)

    def release(self, token: str) -> Sequence[ReleaseCall]:
        """Release the permits."""
        return (release_with_token(token, self._release_call or self._make_release()),)

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease last at least that long from now."""
        return (EXTEND(holders=self.base, limit=self.keys["limit"], permit=token, ttl_ms=ttl_ms),)

    def read(self, token: str) -> Flow[Lease | None]:
        """Return the lease of this token, as it is."""
        requested_at = time.monotonic()
        left_ms = yield from self._left_ms(token)
        return Lease(token, local_deadline(requested_at, int(left_ms))) if left_ms > 0 else None

    def owned(self, token: str) -> Flow[bool]:
        """Return whether this token holds its permits."""
        return (yield from self._left_ms(token)) > 0

    def locked(self) -> Flow[bool]:
        """Return whether all permits are held."""
        state = yield from inspect_semaphore(self.keys, self.limit)
        return state.held >= (state.limit or self.limit)

    def _left_ms(self, token: str) -> Flow[float]:
        """Return the milliseconds that are left to a token; 0 or less without a lease."""
        expires_ms, now = yield Batch([Read("ZSCORE", self.base, token), Read("TIME", key=self.base)])
        return 0.0 if expires_ms is None else float(expires_ms) - int(now[0]) * 1_000 - int(now[1]) / 1_000

    def _make_acquire(self, wait: bool) -> Call:
        call = ACQUIRE(
            **self.keys, permit="", description="", ttl_ms=self.ttl_ms, wait=int(wait), handoff_ms=HANDOFF_MS
        )
        made = self._acquire_calls[wait] = as_text(call)
        return made

    def _make_release(self) -> ReleaseCall:
        release = RELEASE(**self.keys, permit="", released_by="", handoff_ms=HANDOFF_MS)
        made = self._release_call = with_confirm(release, CONFIRM(base=self.base, handoff_ms=HANDOFF_MS))
        return made


def checked_number(value: object, argument: str, largest: int) -> int:
    """Check a number of permits.

    Raises:
        TypeError: not an integer.
        ValueError: below 1, or above `largest`.
    """
    accepted = f"{argument}={value!r}: expected an integer from 1 to {largest}."
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(accepted)
    if not 1 <= value <= largest:
        raise ValueError(accepted)
    return value
