"""The names of one group as one lock: all of them or none, in one script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django_redis_components.core import keys
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.protocol import Call, Flow, Read
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.lock_scripts import confirmed
from django_redis_components.locks.scripts import ABANDON_ALL, ACQUIRE_ALL, EXTEND_ALL, RELEASE_ALL
from django_redis_components.locks.state import LockState, inspect_group, read_deadline

#: Most names of one `MultiLock`: each is a few commands in a script that nothing else runs beside.
MAX_NAMES = 100


def sorted_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names in the order in which all locks take them, each once.

    Raises:
        TypeError, ValueError: one of them is no name, or there are none or too many.
    """
    for name in names:
        keys.validate_name(name, "lock name")
    found = tuple(sorted(set(names)))
    if not 1 <= len(found) <= MAX_NAMES:
        raise ValueError(f"{len(found)} names: a MultiLock takes 1 to {MAX_NAMES}.")
    return found


def group_keys(name: str, group: str) -> dict[str, str]:
    """The keys of a name in a group, as `INSPECT` takes them. All waiters of the group share `asked` and `handoffs`."""
    base = keys.key("locks", group, "group")
    return {
        "lock": f"{base}:held:{name}",
        "fence": f"{base}:fence:{name}",
        "queue": f"{base}:line:{name}",
        "asked": f"{base}:asked",
        "handoffs": f"{base}:handoffs",
    }


class GroupScripts:
    """The requests of a `MultiLock` with a group."""

    def __init__(self, names: Sequence[str], group: str, timeout: Seconds) -> None:
        """Args: names: those of `sorted_names`."""
        self.names = tuple(names)
        self.ttl_ms = to_ms(timeout, "timeout")
        self._group = keys.validate_name(group, "group")
        self._made_base: str | None = None

    @property
    def base(self) -> str:
        """The group's key, made on first use: a lock may stand in a module that is imported before the settings."""
        if self._made_base is None:
            self._made_base = keys.key("locks", self._group, "group")
        return self._made_base

    @property
    def identity(self) -> str:
        """Which names of which group."""
        return "\n".join((self.base, *self.names))

    @property
    def ack_keys(self) -> Sequence[str]:
        """A key of the group: all names are on one node."""
        return (f"{self.base}:ack",)

    def acquire(
        self, queue: wait_queue.WaitQueue, wait_limit_s: float, token: str | None, acquisition: Acquisition
    ) -> Flow[bool]:
        """Take all of them; False if another token holds one."""
        return queue.acquire(self.base, self._ask, self._abandon, wait_limit_s, acquisition, token=token)

    def read(self, token: str) -> Flow[Lease | None]:
        """The lease that this token holds on all of them, as it is."""
        found = yield from read_deadline(token, self._inspect())
        return None if found is None else Lease(token, found[0], max(state.fencing_token or 0 for state in found[1]))

    def release(self, token: str) -> Sequence[Call]:
        """Give all of them back."""
        release = RELEASE_ALL(group=self.base, token=token, handoff_ms=wait_queue.HANDOFF_MS, names=self.names)
        return (confirmed(release, self.base),)

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease on all of them last at least that long from now."""
        return (EXTEND_ALL(group=self.base, token=token, ttl_ms=ttl_ms, names=self.names),)

    def owned(self, token: str) -> Flow[bool]:
        """Whether the server says that this token holds all of them."""
        return set((yield Read("MGET", *self._held()))) == {token.encode()}

    def locked(self) -> Flow[bool]:
        """Whether anybody holds one of them."""
        return bool((yield Read("EXISTS", *self._held())))

    def inspect(self) -> Flow[dict[str, LockState]]:
        """The state of each name."""
        return inspect_group(self.base, self.names)

    def _inspect(self) -> Flow[Iterable[LockState]]:
        return (yield from self.inspect()).values()

    def _held(self) -> list[str]:
        return [f"{self.base}:held:{name}" for name in self.names]

    def _ask(self, token: str, wait: bool) -> Call:
        return ACQUIRE_ALL(
            group=self.base,
            token=token,
            ttl_ms=self.ttl_ms,
            wait=int(wait),
            handoff_ms=wait_queue.HANDOFF_MS,
            names=self.names,
        )

    def _abandon(self, token: str) -> Call:
        return ABANDON_ALL(group=self.base, token=token, handoff_ms=wait_queue.HANDOFF_MS, names=self.names)
