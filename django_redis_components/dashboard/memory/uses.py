"""`MemoryUse`: the memory of a connection, as the page of memory shows it, read from each connection of the site.

What was measured key by key is on the connection of the dashboard, where the watching process stores it for all; used
memory and number of keys are read from the connections themselves, at the same time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.utils import timezone

from django_redis_components.core.client import connections
from django_redis_components.core.client.server import parse_info
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.facts import recent_of, recent_of_connections
from django_redis_components.dashboard.problems.of_connections import MAX_CONNECTIONS, further_connections
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.taskqueue.shard_clients import concurrently

#: What is read from a connection: fields of INFO memory, number of keys.
_Figures = tuple[Mapping[str, str], int]


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of a connection.

    Attributes:
        address: of the server, without credentials.
        info: fields of INFO memory; empty if it may not be read.
        keys: of the database, of all programs; None if the connection is away.
        measured: what the watching process has found; None without one.
        error: why the connection could not be read; None if it could.
        stored_at: alias of the connection that has what was measured, if that one is away, else "".
        server_of: alias of the connection that is shown before and has another database of the server, else "".
    """

    alias: str
    address: str
    info: Mapping[str, str]
    keys: int | None
    measured: dict[str, Any] | None
    error: Exception | None = None
    stored_at: str = ""
    server_of: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class SiteMemory:
    """The memory of the connections that the page shows, that of the dashboard first.

    Attributes:
        unwatched: aliases of connections beyond the number that is watched. They are not read.
    """

    uses: tuple[MemoryUse, ...]
    unwatched: tuple[str, ...] = ()


def read(request: PageRequest) -> Snapshot[SiteMemory]:
    """Read the memory of all connections at once, or of the shard that the URL names.

    Raises:
        SnapshotFailed: none answers.
    """
    using = conf.settings().dashboard.using
    further = further_connections(using, limit=None)
    watched, unwatched = further[:MAX_CONNECTIONS], further[MAX_CONNECTIONS:]
    shown = [using, *watched]
    if request.shard_name:
        shown, unwatched = [_same_database(clients.queue_alias(), [using, *further])], []
    others = [alias for alias in shown if alias != using]
    calls: list[Callable[[], Snapshot[Any]]] = [
        partial(read_snapshot, _home(using)),
        *(partial(read_snapshot, _figures(alias), alias) for alias in others),
    ]
    at_home, *outcomes = concurrently(calls)
    found: dict[str, Snapshot[Any] | Exception] = dict(zip(others, outcomes, strict=True))
    measured: dict[str, Any] = {}
    if isinstance(at_home, Snapshot):
        figures, measured[using], of_connections = at_home.value
        measured |= {alias: of_connections.get(alias, {}).get("memory") for alias in others}
        found[using] = dataclasses.replace(at_home, value=figures)
    else:
        found[using] = at_home
    uses = tuple(_use(alias, found[alias], measured, using) for alias in shown)
    if all(use.error for use in uses):
        raise SnapshotFailed(uses[0].error or RuntimeError(), uses[0].address)
    return _snapshot(SiteMemory(_with_servers(uses), tuple(unwatched)), at_home, list(found.values()))


def _home(using: str) -> Flow[tuple[_Figures, Any, dict[str, dict[str, Any]]]]:
    """Read the connection of the dashboard, and what was measured there and on further connections."""
    key, others = keyspace.key("facts", using), keyspace.key("connections", using)
    figures, stored, of_connections = yield from _read(using, Read("GET", key), Read("GET", others))
    return figures, recent_of(stored).get("memory"), recent_of_connections(of_connections)


def _figures(alias: str) -> Flow[_Figures]:
    found: list[_Figures] = yield from _read(alias)
    return found[0]


def _read(alias: str, *more: Command) -> Flow[list[Any]]:
    """Read the figures of a connection, and more, in one round trip."""
    key = keyspace.key("facts", alias)
    info, *replies = yield Batch(
        [Command("INFO", "memory", key=key, retry=True), Read("DBSIZE", key=key), *more], return_exceptions=True
    )
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    fields = parse_info(info).fields if isinstance(info, bytes) else {}
    return [(fields, replies[0]), *replies[1:]]


def _use(alias: str, outcome: Any, measured: Mapping[str, Any], using: str) -> MemoryUse:
    if isinstance(outcome, SnapshotFailed):
        return MemoryUse(alias, outcome.address, {}, None, None, outcome.error)
    if isinstance(outcome, Exception):
        raise outcome
    info, keys = outcome.value
    stored_at = "" if using in measured else using
    return MemoryUse(alias, str(connections.endpoint(alias)), info, keys, measured.get(alias), stored_at=stored_at)


def _with_servers(uses: tuple[MemoryUse, ...]) -> tuple[MemoryUse, ...]:
    """Return the uses; those of another database of a server that is shown before say so."""
    seen: dict[str, Any] = {}
    found = []
    for use in uses:
        endpoint = connections.endpoint(use.alias)
        server_of = next((alias for alias, each in seen.items() if endpoint.same_server(each)), "")
        seen |= {} if server_of else {use.alias: endpoint}
        found.append(dataclasses.replace(use, server_of=server_of))
    return tuple(found)


def _same_database(alias: str, known: list[str]) -> str:
    """Return the alias under which the database of a connection is shown."""
    try:
        endpoint = connections.endpoint(alias)
        return next((each for each in known if connections.endpoint(each).same_database(endpoint)), alias)
    except ConfigurationError:  # reading it reports that
        return alias


def _snapshot(value: SiteMemory, at_home: Any, outcomes: list[Any]) -> Snapshot[SiteMemory]:
    """Return the snapshot of all connections. They were read at the same time: the slowest one counts."""
    read = [outcome for outcome in outcomes if isinstance(outcome, Snapshot)]
    cost = Cost(
        sum(each.cost.commands for each in read),
        sum(each.cost.round_trips for each in read),
        max(each.cost.seconds for each in read),
    )
    if isinstance(at_home, Snapshot):
        return dataclasses.replace(at_home, value=value, cost=cost)
    return Snapshot(value, timezone.now(), cost, value.uses[0].address, is_cluster=False)
