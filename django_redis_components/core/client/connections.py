"""The client of each alias in `CONNECTIONS`: one sync client per process, one async client per event loop.

    run(connections.client("default"), flow)
    await arun(connections.aclient("default"), flow)

Clients are made on first use. After a fork the child starts without clients and never uses the parent's sockets. The
clients of an event loop close their connections when the loop shuts down (`asyncio.run`, an ASGI server,
`async_to_sync`). If a loop was closed without that, the next loop that needs a client closes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import difflib
import threading
import weakref
from collections.abc import AsyncGenerator, Iterator

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.client._async.client import AsyncClient
from django_redis_components.core.client._sync.client import SyncClient
from django_redis_components.core.client.budget import page_budget
from django_redis_components.core.client.caches import from_cache
from django_redis_components.core.client.endpoint import Endpoint
from django_redis_components.core.client.page_clients import AsyncPageClient, SyncPageClient
from django_redis_components.core.client.transport import close_in_child
from django_redis_components.core.client.urls import from_url
from django_redis_components.core.exceptions import UnknownConnection
from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.settings import conf

__all__ = [
    "AsyncClient",
    "SyncClient",
    "aclient",
    "aclient_with_timeout",
    "aclose_all",
    "apage_client",
    "client",
    "client_with_timeout",
    "close_all",
    "endpoint",
    "page_attempt",
    "page_client",
]

#: The key of a client: the alias, or the alias with the timeout and retries of `client_with_timeout`.
_ClientKey = str | tuple[str, float, int | None]


class _LoopClients:
    """The clients of one event loop, and the version of the settings they were made with."""

    def __init__(self) -> None:
        self.clients: dict[_ClientKey, AsyncClient] = {}
        self.generation = _generation
        self._until_shutdown = self._close_at_shutdown()
        # Run up to its yield, so that `loop.shutdown_asyncgens` finds it and runs its `finally`.
        with contextlib.suppress(StopIteration):
            self._until_shutdown.__anext__().send(None)

    def close(self) -> None:
        """Close and drop all clients."""
        clients, self.clients = self.clients, {}
        for each in clients.values():
            each.close()

    async def _close_at_shutdown(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self.close()


_clients: dict[_ClientKey, SyncClient] = {}
_page_clients: dict[tuple[str, float | None], SyncPageClient] = {}
_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClients] = weakref.WeakKeyDictionary()
#: Number of changes of the settings. A loop closes its clients that were made before the last change.
_generation = 0
#: The parent's clients, kept in a forked child: their end would make asyncio remove sockets from the parent's epoll.
_parent_loops: list[object] = []
#: Reentrant, because a signal handler or a finalizer may need a client while this thread makes one.
_lock = threading.RLock()


def client(alias: str = "default") -> SyncClient:
    """Return the client of an alias in `CONNECTIONS`, for all threads of this process.

    Raises:
        UnknownConnection: there is no such alias.
        ConfigurationError: its settings are wrong.
    """
    try:
        found = _clients.get(alias)
    except TypeError:  # it has no hash
        raise _no_alias(alias) from None
    if found is not None:
        return found
    with _lock:
        if alias not in _clients:
            _clients[alias] = SyncClient(endpoint(alias))
        return _clients[alias]


def client_with_timeout(alias: str, timeout_s: float, retries: int | None = None) -> SyncClient:
    """Return a client with shorter timeouts and its own connections, for requests that must not delay a page.

    It tells the circuit breaker of the alias about late replies.

    Args:
        alias: as for `client`.
        timeout_s: seconds for each request, with its retries, unless the settings allow less.
        retries: the most retries; None: as in the settings.

    Raises:
        UnknownConnection: there is no such alias.
        ConfigurationError: its settings are wrong.
    """
    name = (alias, timeout_s, retries)
    try:
        found = _clients.get(name)
    except TypeError:
        raise _no_alias(alias) from None
    if found is not None:
        return found
    with _lock:
        if name not in _clients:
            _clients[name] = SyncClient(_with_timeout(endpoint(alias), timeout_s, retries))
        return _clients[name]


def aclient(alias: str = "default") -> AsyncClient:
    """Return the client of an alias for the running event loop.

    Raises:
        UnknownConnection: there is no such alias.
        ConfigurationError: its settings are wrong.
    """
    loop_clients = _running_loop_clients()
    try:
        found = loop_clients.clients.get(alias)
    except TypeError:
        raise _no_alias(alias) from None
    if found is None:
        found = loop_clients.clients[alias] = AsyncClient(endpoint(alias))
    return found


def aclient_with_timeout(alias: str, timeout_s: float, retries: int | None = None) -> AsyncClient:
    """Return a client with shorter timeouts for the running event loop; see `client_with_timeout`."""
    loop_clients, name = _running_loop_clients(), (alias, timeout_s, retries)
    try:
        found = loop_clients.clients.get(name)
    except TypeError:
        raise _no_alias(alias) from None
    if found is None:
        found = loop_clients.clients[name] = AsyncClient(_with_timeout(endpoint(alias), timeout_s, retries))
    return found


def page_client(alias: str = "default", timeout_s: float | None = None) -> SyncPageClient:
    """Return the client for what a page can do without.

    While the circuit breaker of the alias is open, it raises `NotConnected` at once.

    Args:
        alias: as for `client`.
        timeout_s: seconds for each request, with its retries; None: ``PAGE_TIMEOUT``.

    Raises:
        UnknownConnection: there is no such alias.
        ConfigurationError: its settings are wrong.
    """
    try:
        found = _page_clients.get((alias, timeout_s))
    except TypeError:
        raise _no_alias(alias) from None
    if found is None:
        seconds = _page_timeout_s(alias, timeout_s)
        client = client_with_timeout(alias, seconds)
        found = _page_clients[alias, timeout_s] = SyncPageClient(client, breaker_for(alias), seconds)
    return found


def apage_client(alias: str = "default", timeout_s: float | None = None) -> AsyncPageClient:
    """Return the client for what a page can do without, for the running event loop; see `page_client`."""
    seconds = _page_timeout_s(alias, timeout_s)
    return AsyncPageClient(aclient_with_timeout(alias, seconds), breaker_for(alias), seconds)


@contextlib.contextmanager
def page_attempt(alias: str = "default") -> Iterator[None]:
    """Run a block that a page can do without, and that uses other clients: it waits for ``PAGE_TIMEOUT`` in total.

    Raises:
        NotConnected: the circuit breaker of the alias is open.
    """
    client = page_client(alias)
    with page_budget(_page_timeout_s(alias, None)), client.attempt():
        yield


def _page_timeout_s(alias: str, timeout_s: float | None) -> float:
    settings = endpoint(alias).settings
    return min(settings.page_timeout_s if timeout_s is None else timeout_s, settings.socket_timeout_s)


def endpoint(alias: str) -> Endpoint:
    """Return the endpoint of an alias, without opening a connection.

    Raises:
        UnknownConnection: there is no such alias.
        ConfigurationError: its settings are wrong.
        TypeError: the alias is not a string.
    """
    if not isinstance(alias, str):
        raise _no_alias(alias)
    entries = conf.settings().connections
    entry = entries.get(alias)
    if entry is None:
        near = difflib.get_close_matches(alias, list(entries), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known aliases: {', '.join(sorted(entries))}."
        raise UnknownConnection(alias, hint)
    if entry.url is not None:
        return from_url(alias, entry.url, entry)
    return from_cache(alias, entry.cache or "default", entry)


def _no_alias(alias: object) -> TypeError:
    return TypeError(f"using={short_repr(alias)}: expected the name of a connection.")


def close_all() -> None:
    """Close and drop the sync clients of this process."""
    with _lock:
        clients = list(_clients.values())
        _clients.clear()
        _page_clients.clear()
    for each in clients:
        each.close()


async def aclose_all() -> None:
    """Close and drop the clients of the running event loop."""
    loop_clients = _loops.get(asyncio.get_running_loop())
    if loop_clients is not None:
        loop_clients.close()


def _with_timeout(endpoint: Endpoint, timeout_s: float, retries: int | None) -> Endpoint:
    settings = dataclasses.replace(
        endpoint.settings,
        connect_timeout_s=min(endpoint.settings.connect_timeout_s, timeout_s),
        socket_timeout_s=min(endpoint.settings.socket_timeout_s, timeout_s),
        retries=endpoint.settings.retries if retries is None else min(endpoint.settings.retries, retries),
    )
    return dataclasses.replace(endpoint, settings=settings, breaker=breaker_for(endpoint.alias))


def _running_loop_clients() -> _LoopClients:
    loop = asyncio.get_running_loop()
    loop_clients = _loops.get(loop)
    if loop_clients is None:
        with _lock:
            _close_ended_loops()
            loop_clients = _loops[loop] = _LoopClients()
    elif loop_clients.generation != _generation:
        loop_clients.close()
        loop_clients.generation = _generation
    return loop_clients


def _close_ended_loops() -> None:
    for loop in [loop for loop in _loops if loop.is_closed()]:
        _loops.pop(loop).close()


def _on_change() -> None:
    global _generation
    _generation += 1
    close_all()


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    for each in _clients.values():
        each.close()
    _clients.clear()
    _page_clients.clear()
    _parent_loops.append(dict(_loops))
    _loops.clear()
    close_in_child()


conf.on_change(_on_change)
after_fork_in_child(_after_fork)
