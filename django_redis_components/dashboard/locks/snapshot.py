"""The data of the page of locks: held resources found by a scan, by name, and by the names of decorators."""

from __future__ import annotations

import dataclasses

from redis.exceptions import NoPermissionError, ResponseError

from django_redis_components.core import key_scan
from django_redis_components.core.gather import GatherResult, gather, gather_values
from django_redis_components.core.key_scan import Cursors
from django_redis_components.core.leasing.holder import LeaseHolder
from django_redis_components.core.observability.declared_names import DeclaredName, declared_flow
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.locks import scan
from django_redis_components.dashboard.locks.resources import (
    Resource,
    kinds_of,
    resource_of_key,
    resources_named,
)
from django_redis_components.dashboard.locks.scan import ScanResult
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot

#: Most scanned resources whose state one page reads: one command each.
MAX_SHOWN = 100
#: Most names of decorators whose state each page reads.
MAX_DECLARED = 30


@dataclasses.dataclass(frozen=True, slots=True)
class HolderState:
    """A holder of a resource.

    Attributes:
        token: identifies it on the server.
        role: "holder", "writer", "reader" or "permit".
        remaining_s: seconds until the lease expires; infinite for a key without TTL.
        age_s: seconds since it acquired; None if not stored.
        permits: number of permits that it holds.
        held_by: the process, thread, and task or request that acquired it; None if unknown.
    """

    token: str
    role: str
    remaining_s: float
    age_s: float | None = None
    permits: int = 1
    held_by: LeaseHolder | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class QueuedWaiter:
    """A waiter of a resource: its process is not stored before it is a holder.

    Attributes:
        token: of its requests, and of its lease when it is granted.
        role: "holder", "writer", "reader" or "permit".
        waited_s: seconds since it took its place in the queue.
        permits: number of permits that it waits for.
    """

    token: str
    role: str
    waited_s: float
    permits: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class ResourceState:
    """A resource and its holders.

    Attributes:
        holders: at most 100.
        held: number of holders, or of held permits.
        limit: most holders; None if unknown.
        waiters: number of live waiters.
        queue: the first of them in the order of the queue, at most 100.
        fencing_token: of the last acquire; None if there is none.
        error: why it could not be read, or "".
    """

    resource: Resource
    holders: tuple[HolderState, ...] = ()
    held: int = 0
    limit: int | None = 1
    waiters: int = 0
    fencing_token: int | None = None
    error: str = ""
    queue: tuple[QueuedWaiter, ...] = ()

    @property
    def filtered(self) -> dict[str, str]:
        """Its values of the filters of the page."""
        return {"kind": self.resource.kind, "waiters": "some" if self.waiters else "none"}


@dataclasses.dataclass(frozen=True, slots=True)
class LockQuery:
    """The query of a page.

    Attributes:
        using: connection alias.
        name, group: show only this name; "" scans keys.
        cursors: where to continue the scan; none: a new one.
        skip: number of scanned resources that earlier pages have shown.
        kind: only resources of this kind; "": all.
        waiters: "some" or "none": only resources with or without waiters; "": all.
    """

    using: str
    name: str = ""
    group: str = ""
    cursors: Cursors = dataclasses.field(default_factory=dict)
    skip: int = 0
    kind: str = ""
    waiters: str = ""

    def accepts(self, state: ResourceState, *, but: str = "") -> bool:
        """Return whether the page shows a resource, as far as the filters but one say."""
        return all(name == but or getattr(self, name) in ("", value) for name, value in state.filtered.items())


@dataclasses.dataclass(frozen=True, slots=True)
class LockSnapshot:
    """The result of a query.

    Attributes:
        states: resources with holders or waiters; with a name also free ones.
        scan: the result of the scan; None for a query by name.
        not_shown: number of scanned resources after those on this page.
        declared: names of decorators whose functions the site's processes have called.
        problem: why the name in the query is invalid, or "".
    """

    query: LockQuery
    states: list[ResourceState]
    scan: ScanResult[Resource] | None
    not_shown: int
    declared: list[DeclaredName]
    problem: str


def read(query: LockQuery) -> Snapshot[LockSnapshot]:
    """Read the result of a query: by name in one round trip, by scan in two.

    Raises:
        SnapshotFailed: Redis cannot be read.
    """
    return read_snapshot(read_locks(query), query.using)


def read_one(resource: Resource, using: str) -> ResourceState:
    """Read the state of one resource.

    Raises:
        SnapshotFailed: Redis cannot be read.
    """
    [state] = read_snapshot(read_states([resource]), using).value
    return state


def read_locks(query: LockQuery) -> Flow[LockSnapshot]:
    """Read the result of a query; see `read`."""
    if query.name:
        try:
            named = resources_named(query.name, query.group)
        except ValueError as exc:
            return LockSnapshot(query, [], None, 0, (yield from declared_flow(query.using)), str(exc))
        states, declared = yield from gather_values([read_states(named), declared_flow(query.using)])
        return LockSnapshot(query, states, None, 0, declared, "")
    anchors = clients.client(query.using).key_per_primary()
    cursors = query.cursors or key_scan.start(anchors)
    pattern = f"{key_scan.escape_glob(conf.settings().prefix)}:[ls]*:{{*"
    scanning = scan.scan_items(pattern, resource_of_key, cursors, anchors)
    result, declared = yield from gather_values([scanning, declared_flow(query.using)])
    page = result.items[query.skip : query.skip + MAX_SHOWN]
    states = yield from read_states(list(dict.fromkeys(page + _declared_resources(declared))))
    states = [each for each in states if each.held or each.waiters or each.error]
    return LockSnapshot(query, states, result, max(0, len(result.items) - query.skip - MAX_SHOWN), declared, "")


def _declared_resources(declared: list[DeclaredName]) -> list[Resource]:
    exact = (each for each in declared if each.is_exact)
    return list(dict.fromkeys(Resource(each.name, kinds_of(each.component)[0].slug) for each in exact))[:MAX_DECLARED]


def read_states(resources: list[Resource]) -> Flow[list[ResourceState]]:
    """Read all states in one round trip."""
    outcomes = yield from gather([_read_state(resource) for resource in resources])
    return [_state_or_error(resource, outcome) for resource, outcome in zip(resources, outcomes, strict=True)]


def _state_or_error(resource: Resource, outcome: GatherResult) -> ResourceState:
    """Return the state; with the error if the key has another type. Raise other errors."""
    error = outcome.error
    if error is None:
        state: ResourceState = outcome.value
        return state
    if isinstance(error, ResponseError | ValueError) and not isinstance(error, NoPermissionError):
        return ResourceState(resource, error=str(error))
    raise error


def _read_state(resource: Resource) -> Flow[ResourceState]:
    from django_redis_components.core.leasing.scripted_kind import parse_states  # only where something is held

    kind = resource.lease_kind()
    [state] = parse_states((yield kind.inspect_call()))
    holders = tuple(
        HolderState(
            holder.token,
            kind.role_of(holder.token),
            holder.remaining,
            (state.age or None) if state.limit == 1 and not kind.is_counted else None,
            kind.permits_of(holder.token),
            holder.held_by,
        )
        for holder in state.holders
    )
    queue = tuple(
        QueuedWaiter(waiter.token, kind.role_of(waiter.token), waiter.waited, kind.permits_of(waiter.token))
        for waiter in state.queue
    )
    limit, fencing_token = kind.limit_of(state), state.number or None
    return ResourceState(resource, holders, state.held, limit, state.waiting, fencing_token, queue=queue)
