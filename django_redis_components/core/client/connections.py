"""Our aliases to clients: built on first use, one for a process, one for an event loop.

    run(connections.client("default"), flow)
    await arun(connections.aclient("default"), flow)

After a fork the child starts without clients; the parent's sockets are never used by it. The
clients of an event loop close their links when the loop shuts down (`asyncio.run`, an ASGI server,
`async_to_sync`), or when another loop asks for a client after it was closed without that.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import difflib
import os
import threading
import weakref
from collections.abc import AsyncGenerator

from django_redis_components.core import conf
from django_redis_components.core.client.aclients import AsyncClient
from django_redis_components.core.client.caches import from_cache
from django_redis_components.core.client.clients import SyncClient
from django_redis_components.core.client.endpoint import Endpoint
from django_redis_components.core.client.links import close_in_child
from django_redis_components.core.client.urls import from_url
from django_redis_components.core.exceptions import ConfigurationError

__all__ = [
    "AsyncClient",
    "SyncClient",
    "aclient",
    "aclient_with_timeout",
    "aclose_all",
    "client",
    "client_with_timeout",
    "close_all",
    "endpoint",
]

#: What a client is found by: the alias, for an impatient one with its timeout and retries.
_Name = str | tuple[str, float, int | None]


class _LoopClients:
    """The clients of one event loop, and the settings they were built for."""

    def __init__(self) -> None:
        self.clients: dict[_Name, AsyncClient] = {}
        self.generation = _generation
        self._until_shutdown = self._close_at_shutdown()
        # Started up to its yield, so that `loop.shutdown_asyncgens` finds it and runs what stands behind.
        with contextlib.suppress(StopIteration):
            self._until_shutdown.__anext__().send(None)

    def close(self) -> None:
        """Close the free links of all clients and forget them."""
        clients, self.clients = self.clients, {}
        for each in clients.values():
            each.close()

    async def _close_at_shutdown(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self.close()


_clients: dict[_Name, SyncClient] = {}
_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClients] = weakref.WeakKeyDictionary()
#: Counts the changes of the settings: a loop's clients of an earlier count are closed, by that loop.
_generation = 0
#: What a forked child must never destroy: asyncio would unregister the sockets from the parent's epoll.
_of_the_parent: list[object] = []
#: Reentrant, because a signal handler or a finalizer may ask for a client while this thread builds one.
_guard = threading.RLock()


def client(alias: str = "default") -> SyncClient:
    """The client of an alias in `REDIS_COMPONENTS["CONNECTIONS"]`, for every thread of this process.

    Raises:
        ConfigurationError: there is no such alias, or its settings are wrong.
    """
    found = _clients.get(alias)
    if found is not None:
        return found
    with _guard:
        if alias not in _clients:
            _clients[alias] = SyncClient(endpoint(alias))
        return _clients[alias]


def client_with_timeout(alias: str, timeout_s: float, retries: int | None = None) -> SyncClient:
    """A client of the same place with connections of its own, for what must not keep a page waiting.

    A reply that comes later than `timeout_s` closes its connection, so that nobody reads it as the answer to something
    else.

    Args:
        alias: as for `client`.
        timeout_s: seconds for each reply, and for an attempt to connect; shorter settings stay.
        retries: how often at most something is sent again; None: as the settings have it, and not once `timeout_s` has
            passed since the first error.

    Raises:
        ConfigurationError: there is no such alias, or its settings are wrong.
    """
    name = (alias, timeout_s, retries)
    found = _clients.get(name)
    if found is not None:
        return found
    with _guard:
        if name not in _clients:
            _clients[name] = SyncClient(_impatient(endpoint(alias), timeout_s, retries))
        return _clients[name]


def aclient(alias: str = "default") -> AsyncClient:
    """The client of an alias for the running event loop.

    Raises:
        ConfigurationError: there is no such alias, or its settings are wrong.
    """
    mine = _of_running_loop()
    found = mine.clients.get(alias)
    if found is None:
        found = mine.clients[alias] = AsyncClient(endpoint(alias))
    return found


def aclient_with_timeout(alias: str, timeout_s: float, retries: int | None = None) -> AsyncClient:
    """See `client_with_timeout`; for the running event loop."""
    mine, name = _of_running_loop(), (alias, timeout_s, retries)
    found = mine.clients.get(name)
    if found is None:
        found = mine.clients[name] = AsyncClient(_impatient(endpoint(alias), timeout_s, retries))
    return found


def endpoint(alias: str) -> Endpoint:
    """What the alias points at; found without opening a connection.

    Raises:
        ConfigurationError: there is no such alias, or its settings are wrong.
        TypeError: the alias is no text.
    """
    if not isinstance(alias, str):
        raise TypeError(f"using={alias!r}: expected the name of a connection.")
    entries = conf.settings().connections
    entry = entries.get(alias)
    if entry is None:
        near = difflib.get_close_matches(alias, list(entries), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(sorted(entries))}."
        raise ConfigurationError(f'REDIS_COMPONENTS["CONNECTIONS"] has no {alias!r}. {hint}')
    if entry.url is not None:
        return from_url(alias, entry.url, entry)
    return from_cache(alias, entry.cache or "default", entry)


def close_all() -> None:
    """Close the free links of this process's clients and forget them."""
    with _guard:
        gone = list(_clients.values())
        _clients.clear()
    for each in gone:
        each.close()


async def aclose_all() -> None:
    """Close the free links of the running loop's clients and forget them."""
    mine = _loops.get(asyncio.get_running_loop())
    if mine is not None:
        mine.close()


def _impatient(endpoint: Endpoint, timeout_s: float, retries: int | None) -> Endpoint:
    settings = dataclasses.replace(
        endpoint.settings,
        connect_timeout_s=min(endpoint.settings.connect_timeout_s, timeout_s),
        socket_timeout_s=min(endpoint.settings.socket_timeout_s, timeout_s),
        retries=endpoint.settings.retries if retries is None else min(endpoint.settings.retries, retries),
    )
    return dataclasses.replace(endpoint, settings=settings)


def _of_running_loop() -> _LoopClients:
    loop = asyncio.get_running_loop()
    mine = _loops.get(loop)
    if mine is None:
        with _guard:
            _close_ended_loops()
            mine = _loops[loop] = _LoopClients()
    elif mine.generation != _generation:
        mine.close()
        mine.generation = _generation
    return mine


def _close_ended_loops() -> None:
    for loop in [loop for loop in _loops if loop.is_closed()]:
        _loops.pop(loop).close()


def _on_change() -> None:
    global _generation
    _generation += 1
    close_all()


def _after_fork() -> None:
    global _guard
    _guard = threading.RLock()
    for each in _clients.values():
        each.abandon()
    _clients.clear()
    _of_the_parent.append(dict(_loops))
    _loops.clear()
    close_in_child()


conf.on_change(_on_change)
os.register_at_fork(after_in_child=_after_fork)
