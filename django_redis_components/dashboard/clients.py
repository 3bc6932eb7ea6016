"""The dashboard's own clients: a page gives up early where a worker would be patient."""

from __future__ import annotations

import dataclasses
import os
import threading

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.endpoint import Endpoint

#: Seconds until an attempt to connect is given up. Raising it makes the page for "Redis is away" later.
CONNECT_S = 1.0
#: Seconds until a reply is given up.
READ_S = 2.0

_clients: dict[str, SyncClient] = {}
_guard = threading.Lock()


def client(alias: str) -> SyncClient:
    """The dashboard's client of a connection, for every thread of this process.

    Raises:
        ConfigurationError: there is no such alias, or its settings are wrong.
    """
    with _guard:
        found = _clients.get(alias)
        if found is None:
            found = _clients[alias] = SyncClient(_impatient(connections.endpoint(alias)))
        return found


def close_all() -> None:
    """Close the free links, and forget the clients."""
    with _guard:
        gone = list(_clients.values())
        _clients.clear()
    for each in gone:
        each.close()


def _impatient(endpoint: Endpoint) -> Endpoint:
    """The same place with short timeouts, and one try: the page that says so comes sooner, and asks again."""
    patience = dataclasses.replace(
        endpoint.settings,
        connect_timeout_s=min(endpoint.settings.connect_timeout_s, CONNECT_S),
        socket_timeout_s=min(endpoint.settings.socket_timeout_s, READ_S),
        retries=0,
        slot_migration_timeout_s=min(endpoint.settings.slot_migration_timeout_s, READ_S),
    )
    return dataclasses.replace(endpoint, settings=patience)


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()
    for each in _clients.values():
        each.close()
    _clients.clear()


conf.on_change(close_all)
os.register_at_fork(after_in_child=_after_fork)
