"""How the leases of an object are looked after: whether they are renewed, until when, and who is told of a loss."""

from __future__ import annotations

import dataclasses
import math
import time
import weakref
from collections.abc import Callable

from django_redis_components.core.decorators import refuse_coroutine_function
from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.owner import OwnedLeases
from django_redis_components.core.leasing.renewal import ExtendCalls, LeaseWatch, watchdog
from django_redis_components.core.units import Seconds, check_flag, to_seconds


@dataclasses.dataclass(frozen=True, slots=True)
class RenewalPolicy:
    """How the leases of an object are looked after.

    Attributes:
        owner: the object; when nobody has it any more, its lease is left to end.
        using: our connection alias.
        max_s: seconds from the grant until which a lease is renewed; 0: it is not.
        on_lost: called with the object when its lease is lost.
    """

    owner: weakref.ref[object]
    using: str
    max_s: float
    on_lost: Callable[..., object] | None

    def begin(self, lease: Lease, leases: OwnedLeases, extend: ExtendCalls, ttl_ms: int) -> None:
        """Look after a lease that was just granted, and stands in `leases`."""
        watchdog.watch(LeaseWatch(self, lease, leases, extend, ttl_ms, time.monotonic() + self.max_s))


def renewal_policy_for(
    owner: object,
    kind: str,
    using: str,
    timeout: Seconds,
    renew: bool,
    max_lease: Seconds | None,
    on_lost: Callable[..., object] | None,
) -> RenewalPolicy | None:
    """How the leases of `owner`, a "lock" or the like, are to be looked after; None: not at all.

    Raises:
        TypeError: `renew` is no flag, `max_lease` is not a duration, or `on_lost` cannot be called.
        ValueError: `max_lease` is shorter than a lease, or given although nothing is renewed.
    """
    max_s = _renewal_s(timeout, check_flag(renew, "renew"), max_lease)
    _check_callback(on_lost, kind)
    return RenewalPolicy(weakref.ref(owner), using, max_s, on_lost) if max_s or on_lost is not None else None


def _renewal_s(timeout: Seconds, renew: bool, max_lease: Seconds | None) -> float:
    """Seconds for which a lease is renewed: 0 not at all, infinity without an end."""
    if max_lease is None:
        return math.inf if renew else 0.0
    if not renew:
        raise ValueError(f"max_lease={max_lease!r} needs renew=True: else a lease ends with its timeout.")
    if to_seconds(max_lease, "max_lease") < to_seconds(timeout, "timeout"):
        raise ValueError(f"max_lease={max_lease!r}: expected at least the timeout, which is {timeout!r}.")
    return to_seconds(max_lease, "max_lease")


def _check_callback(function: object, kind: str) -> None:
    if function is not None and not callable(function):
        raise TypeError(f"on_lost={function!r}: expected a callable that takes the {kind}.")
    refuse_coroutine_function(function, "on_lost")
