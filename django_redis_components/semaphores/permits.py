"""The kind of a semaphore."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext_lazy

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_int
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.leasing.scripted_kind import ObjectState, ScriptedKind
from django_redis_components.core.leasing.scripts import KindScripts
from django_redis_components.core.leasing.wait_queue import HANDOFF_MS
from django_redis_components.core.protocol import Call, Flow
from django_redis_components.core.units import Seconds
from django_redis_components.semaphores.exceptions import TooManyPermits
from django_redis_components.semaphores.scripts import SET_LIMIT
from django_redis_components.semaphores.state import SemaphoreState, parse_permit, read_semaphore

#: Largest limit: each permit that is held is a member of a sorted set.
MAX_LIMIT = 1_000_000
#: Most permits that one `acquire` may request: the script adds them one by one.
MAX_PERMITS = 1_000


class PermitKind(ScriptedKind):
    """The kind of `Semaphore`. A token ends in ``:<permits>:<limit>``."""

    scripts = KindScripts("semaphores/permits")
    slug, noun, label = "semaphore", "Semaphore", gettext_lazy("semaphore")
    is_counted = True

    def __init__(self, name: str, limit: int | None = None, timeout: Seconds = 1.0) -> None:
        """Args: limit: of the object; None if no permits are requested."""
        self.limit = limit
        super().__init__(keys.validate_name(name, "semaphore name"), timeout)

    def make_keys(self) -> tuple[str, str]:
        """Return the permits and the queue."""
        permits = keys.key("semaphores", self.name)
        return permits, f"{permits}:queue"

    def suffix_of(self, permits: int) -> str:
        """Return what the scripts must know: how many permits are requested, and the limit of this object."""
        return f":{permits}:{self.limit}"

    def refuse(self, acquisition: Acquisition, reply: Sequence[int]) -> None:
        """Store the limit in force.

        Raises:
            TooManyPermits: waiting would never succeed.
        """
        acquisition.limit = reply[-1]
        if reply[0] < 0:
            raise TooManyPermits(self.name, acquisition.permits, acquisition.limit)

    def set_limit(self, limit: int | None) -> Call:
        """Set the limit for all objects."""
        number = 0 if limit is None else check_int(limit, "limit", 1, MAX_LIMIT)
        base, queue = self.make_keys()
        return SET_LIMIT(base=base, queue=queue, number=number, handoff_ms=HANDOFF_MS)

    def may_hold(self, token: str) -> bool:
        """Return whether the token has as many permits as one request may get: the scripts remove them one by one."""
        permits, limit = parse_permit(token)
        return limit is not None and 1 <= permits <= MAX_PERMITS

    def role_of(self, token: str) -> str:
        """Return "permit"."""
        return "permit"

    def permits_of(self, token: str) -> int:
        """Return how many permits a token has."""
        return parse_permit(token)[0]

    def limit_of(self, state: ObjectState) -> int | None:
        """Return the limit in force: the one set for all, that of the object, or the largest of the holders."""
        requested = [limit for holder in state.holders if (limit := parse_permit(holder.token)[1]) is not None]
        return state.limit or self.limit or max(requested, default=None)

    def inspect(self) -> Flow[SemaphoreState]:
        """Read the limit, the holders and the waiters."""
        return read_semaphore(self)
