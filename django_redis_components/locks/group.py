"""The requests of a `MultiLock` with a group: one script acquires all names or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django_redis_components.core import keys
from django_redis_components.core.leasing.calls import ReleaseCall, with_confirm
from django_redis_components.core.leasing.holder import describe_caller
from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.leasing.wait_queue import HANDOFF_MS
from django_redis_components.core.protocol import Call, Flow, Read
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.scripts import ABANDON_MULTI, ACQUIRE_MULTI, CONFIRM, EXTEND_MULTI, RELEASE_MULTI
from django_redis_components.locks.state import LockState, inspect_group, read_deadline

#: Most names of one `MultiLock`: each is a few commands in a script, and the server runs nothing else meanwhile.
MAX_NAMES = 100


def sorted_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names in the order in which all locks acquire them, without duplicates.

    Raises:
        TypeError, ValueError: a name is not valid, or there are none or too many.
    """
    for name in names:
        keys.validate_name(name, "lock name")
    found = tuple(sorted(set(names)))
    if not 1 <= len(found) <= MAX_NAMES:
        raise ValueError(f"{len(found)} names: a MultiLock takes 1 to {MAX_NAMES}.")
    return found


def group_keys(name: str, group: str) -> dict[str, str]:
    """Return the keys of a name in a group, for `INSPECT`. All waiters of the group share `asked` and `handoffs`."""
    base = keys.key("locks", group, "group")
    return {
        "lock": f"{base}:held:{name}",
        "fence": f"{base}:fence:{name}",
        "queue": f"{base}:queue:{name}",
        "asked": f"{base}:asked",
        "handoffs": f"{base}:handoffs",
        "base": base,
    }


class GroupScripts:
    """The requests of a `MultiLock` with a group."""

    def __init__(self, names: Sequence[str], group: str, timeout: Seconds = 1.0) -> None:
        """Args: names: those of `sorted_names`."""
        self.names = tuple(names)
        self.ttl_ms = to_ms(timeout, "timeout")
        self._group = keys.validate_name(group, "group")
        self._made_base: str | None = None

    @property
    def base(self) -> str:
        """The group's key, built on first use: a lock may be created before the settings are loaded."""
        if self._made_base is None:
            self._made_base = keys.key("locks", self._group, "group")
        return self._made_base

    @property
    def identity(self) -> str:
        """The group and its names."""
        return "\n".join((self.base, *self.names))

    @property
    def ack_keys(self) -> Sequence[str]:
        """A key in the group's slot."""
        return (f"{self.base}:ack",)

    def token_suffix(self, acquisition: Acquisition) -> str:
        """Return nothing: tokens are used as they are."""
        return ""

    def acquire(self, token: str, wait: bool) -> Call:
        """Request all of them, or a place in their queues."""
        return ACQUIRE_MULTI(
            group=self.base,
            token=token,
            description=describe_caller(),
            ttl_ms=self.ttl_ms,
            wait=int(wait),
            handoff_ms=HANDOFF_MS,
            names=self.names,
        )

    def refuse(self, acquisition: Acquisition, reply: Sequence[int]) -> None:
        """Do nothing: there is one reason."""

    def abandon(self, token: str) -> Call:
        """Give up places and grant."""
        return ABANDON_MULTI(group=self.base, token=token, handoff_ms=HANDOFF_MS, names=self.names)

    def release(self, token: str) -> Sequence[ReleaseCall]:
        """Release all of them."""
        release = RELEASE_MULTI(group=self.base, token=token, released_by="", handoff_ms=HANDOFF_MS, names=self.names)
        return (with_confirm(release, CONFIRM(base=self.base, handoff_ms=HANDOFF_MS)),)

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease on all of them last at least that long from now."""
        return (EXTEND_MULTI(group=self.base, token=token, ttl_ms=ttl_ms, names=self.names),)

    def read(self, token: str) -> Flow[Lease | None]:
        """Return the lease that this token has on all of them, as it is."""
        found = yield from read_deadline(token, self._inspect())
        return None if found is None else Lease(token, found[0], max(state.fencing_token or 0 for state in found[1]))

    def owned(self, token: str) -> Flow[bool]:
        """Return whether this token holds all of them."""
        return set((yield Read("MGET", *self._held()))) == {token.encode()}

    def locked(self) -> Flow[bool]:
        """Return whether any token holds one of them."""
        return bool((yield Read("EXISTS", *self._held())))

    def inspect(self) -> Flow[dict[str, LockState]]:
        """Read the state of each name."""
        return inspect_group(self.base, self.names)

    def _inspect(self) -> Flow[Iterable[LockState]]:
        return (yield from self.inspect()).values()

    def _held(self) -> list[str]:
        return [f"{self.base}:held:{name}" for name in self.names]
