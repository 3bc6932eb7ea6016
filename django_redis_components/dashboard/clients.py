"""Clients of the dashboard, with shorter timeouts than those of workers, so that a page fails fast."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import cast

from django_redis_components.core.client import connections
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.endpoint import Endpoint
from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.shard_clients import client_for
from django_redis_components.taskqueue.shards import SITE, Shard, home

#: Connect timeout in seconds. A longer one delays the page that reports an outage.
CONNECT_S = 1.0
#: Read timeout in seconds.
READ_S = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class ShownShards:
    """The shards of the task queue that a page shows.

    Attributes:
        away: those that could not be read, with the error.
    """

    shards: tuple[Shard, ...]
    away: dict[Shard, Exception] = dataclasses.field(default_factory=dict)


_clients: dict[str, SyncClient] = {}
_shown: ContextVar[ShownShards | None] = ContextVar("shown shards", default=None)
_lock = threading.Lock()


def client(alias: str) -> SyncClient:
    """Return the dashboard's client of a connection, shared by all threads.

    If the task queue of the connection has shards on several servers, each request goes to the server of its key.

    Raises:
        ConfigurationError: the alias is unknown or misconfigured.
    """
    return cast(SyncClient, client_for(alias, client_of_server)) if alias == SITE else client_of_server(alias)


def client_of_server(alias: str) -> SyncClient:
    """Return the dashboard's client of one server; see `client`."""
    with _lock:
        found = _clients.get(alias)
        if found is None:
            found = _clients[alias] = SyncClient(_with_short_timeouts(connections.endpoint(alias)))
        return found


def shown_shards() -> ShownShards:
    """Return the shards of the task queue that the page shows."""
    return _shown.get() or ShownShards((home(conf.settings().dashboard.using),))


def queue_shard() -> Shard:
    """Return the shard of the task queue that the page shows, the first one of a page that shows several."""
    return shown_shards().shards[0]


@contextlib.contextmanager
def showing(*shards: Shard) -> Iterator[ShownShards]:
    """Let the pages show these shards in the block."""
    shown = ShownShards(shards)
    token = _shown.set(shown)
    try:
        yield shown
    finally:
        _shown.reset(token)


def queue_alias() -> str:
    """Return the connection of the shard that the page shows."""
    return queue_shard().alias


def close_all() -> None:
    """Close idle connections and drop the clients."""
    with _lock:
        dropped = list(_clients.values())
        _clients.clear()
    for each in dropped:
        each.close()


def _with_short_timeouts(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint with short timeouts and without retries: the page itself retries on refresh."""
    settings = dataclasses.replace(
        endpoint.settings,
        connect_timeout_s=min(endpoint.settings.connect_timeout_s, CONNECT_S),
        socket_timeout_s=min(endpoint.settings.socket_timeout_s, READ_S),
        retries=0,
        slot_migration_timeout_s=min(endpoint.settings.slot_migration_timeout_s, READ_S),
    )
    return dataclasses.replace(endpoint, settings=settings)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for each in _clients.values():
        each.close()
    _clients.clear()


conf.on_change(close_all)
after_fork_in_child(_after_fork)
