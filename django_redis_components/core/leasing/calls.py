"""The script calls of leases that differ from ordinary calls: how often they are sent, and what follows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leasing.forced_release import parse_release
from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.protocol import Batch, BoundedSlotWait, Call, Flow, Read


class IdempotentCall(Call):
    """A call that is sent again after its reply was lost, although an earlier one may have been executed."""

    @property
    def retry(self) -> bool:
        """True: the lease shows what the reply to a repetition means."""
        return True


@dataclasses.dataclass(slots=True)
class BoundedCall(Call):
    """A call that is not sent again after a moment, so that it ends at most one socket timeout later.

    Attributes:
        give_up_at: monotonic seconds.
    """

    give_up_at: float


@dataclasses.dataclass(slots=True)
class ReleaseCall(Call):
    """A release.

    Attributes:
        confirm: the call that must follow when it has handed off.
    """

    confirm: Call


def read_releases(refused: Iterable[tuple[Lease, Sequence[Call]]]) -> Flow[None]:
    """Store in each of these leases the forced release that ended it, if there was one and Redis answers.

    Args:
        refused: leases that the server does not have any more, and requests about them: a request's first key and first
            argument are the prefix and the token of the description.
    """
    keys = [(lease, f"{call.keys[0]}:holder:{call.args[0]}") for lease, calls in refused for call in calls]
    if not keys:
        return
    reads = Batch([Read("GET", key) for _, key in keys], return_exceptions=True)
    try:
        values = yield BoundedSlotWait(0, reads)
    except (RedisError, RedisComponentsError):
        return
    for (lease, _), value in zip(keys, values, strict=True):
        found = parse_release(value) if isinstance(value, bytes) else None
        lease.forced_release = lease.forced_release or found
