"""The deployment that a connection setting names, and how to connect to its nodes.

`urls` and `caches` make endpoints. This module reads no setting and opens no connection.
"""

from __future__ import annotations

import codecs
import dataclasses
import functools
import inspect
import os
import shlex
import socket
import ssl
import sys
from typing import Any, NamedTuple

from redis import connection as sync_connections
from redis.asyncio import connection as async_connections
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import RedisError
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from django_redis_components.core.circuit_breaker import CircuitBreaker
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings.secrets import Secret
from django_redis_components.core.settings.sections import ConnectionSettings

#: Names of this machine, which are equal when databases are compared.
_LOOPBACK = {"localhost", "127.0.0.1", "::1", "0.0.0.0", ""}  # noqa: S104 - compared, not bound
#: Highest number of a database: servers store it in 32 bits.
MAX_DATABASE = 2**31 - 1
#: Options for TLS that name a file or a directory.
_FILE_OPTIONS = ("ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "ssl_ca_path")
#: Options of redis-py's pools, and those of its connections that this package sets itself.
_IGNORED_OPTIONS = {
    "retry", "retry_on_timeout", "retry_on_error", "parser_class", "decode_responses", "protocol", "encoder_class",
    "socket_timeout", "socket_connect_timeout", "max_connections", "connection_class", "connection_pool",
    "health_check_interval", "client_name", "timeout", "legacy_responses", "event_dispatcher",
    "himport_registry", "command_packer", "maint_notifications_config", "maint_notifications_pool_handler",
}  # fmt: skip


class Node(NamedTuple):
    """One server process: host and port, or the path of a unix socket and 0."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where and how to connect.

    Attributes:
        kind: "standalone", "sentinel" or "cluster".
        seeds: the node, the Sentinels, or the Cluster nodes to ask first.
        service: name of the master that the Sentinels monitor.
        transport: "tcp", "tls" or "unix".
        sentinel_transport: the same of the Sentinels; "": as that of the nodes.
        options: keyword arguments for a connection to a node (database, credentials, TLS).
        sentinel_options: keyword arguments for a connection to a Sentinel.
        settings: timeouts and retries.
        alias: the key in `CONNECTIONS`, for errors.
        breaker: counts late replies; None for a client whose callers always wait.
    """

    kind: str
    seeds: tuple[Node, ...]
    options: dict[str, Any]
    settings: ConnectionSettings
    alias: str
    transport: str = "tcp"
    service: str = ""
    sentinel_transport: str = ""
    sentinel_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    breaker: CircuitBreaker | None = dataclasses.field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.seeds))} (connection {self.alias!r})"

    def __repr__(self) -> str:  # the options hold the password
        return f"<Endpoint {self.kind} {self}>"

    @property
    def database(self) -> int:
        """The number of the database."""
        return int(self.options.get("db") or 0)

    def redis_cli(self) -> str:
        """Return the beginning of a command of redis-cli for this server, for a shell; it asks for the password.

        On a Cluster the command is executed by every node. Two names must be filled in: the primary that Sentinels
        monitor, and an administrator in place of the site's own user, who need not have the right to the command.
        """
        node, user = self.seeds[0], self.options.get("username")
        if self.kind == "cluster":
            server = ["--cluster", "call", str(node)]
        elif self.kind == "sentinel":
            server = ["-h", f"PRIMARY-OF-{self.service}"]
        elif self.transport == "unix":
            server = ["-s", node.host]
        else:
            server = ["-h", node.host, "-p", str(node.port)]
        options = ["--tls"] if self.transport == "tls" else []
        options += ["-n", str(self.database)] if self.database else []
        options += ["--user", "default" if user == "default" else "ADMINISTRATOR"] if user else []
        options += ["--askpass"] if self.options.get("password") else []
        return shlex.join(["redis-cli", *options, *server])  # after "call" only the command may follow

    def sync_connection(self, node: Node, *, sentinel: bool = False) -> Any:
        """Return a connection of redis-py to the node, not yet open. It never retries by itself."""
        return self._make(sync_connections, Retry(NoBackoff(), 0), node, sentinel)

    def async_connection(self, node: Node, *, sentinel: bool = False) -> Any:
        """Return a connection of redis-py's asyncio client; see `sync_connection`."""
        return self._make(async_connections, AsyncRetry(NoBackoff(), 0), node, sentinel)

    def missing_files(self) -> list[str]:
        """Return the options for TLS that name files which cannot be read: OpenSSL's errors do not name them."""
        return [
            f"{name}={str(path)!r}"
            for name, path in {**self.sentinel_options, **self.options}.items()
            if name in _FILE_OPTIONS and isinstance(path, str | os.PathLike) and not os.access(path, os.R_OK)
        ]

    def validate(self) -> None:
        """Check the options with redis-py, without connecting.

        Raises:
            ValueError: redis-py does not accept them, or this platform has no Unix sockets.
        """
        if self.transport == "unix" and not hasattr(socket, "AF_UNIX"):
            raise ValueError(f"Python has no Unix sockets on {sys.platform}: expected redis:// or rediss://")
        try:
            for options in (self.options, self.sentinel_options):
                _validate_options(options)
            self.sync_connection(self.seeds[0])
            if self.kind == "sentinel":
                self.sync_connection(self.seeds[0], sentinel=True)
        except (RedisError, TypeError, LookupError) as exc:
            raise ValueError(str(exc)) from exc

    def same_database(self, other: Endpoint) -> bool:
        """Return whether both are certainly the same database. Host names are compared as written, never resolved."""
        return not self._addresses().isdisjoint(other._addresses())

    def same_server(self, other: Endpoint) -> bool:
        """Return whether both are certainly on the same server, in any of its databases; see `same_database`."""
        own, others = ({address[:3] for address in each._addresses()} for each in (self, other))
        return not own.isdisjoint(others)

    def _addresses(self) -> set[tuple[str, str, int, int]]:
        return {
            (self.service, "" if seed.host.lower() in _LOOPBACK else seed.host.lower(), seed.port, self.database)
            for seed in self.seeds
        }

    def _make(self, module: Any, retry: Any, node: Node, sentinel: bool) -> Any:
        options = dict(self.sentinel_options if sentinel else self.options)
        if unfit := _unfit_options(options, module):
            kind = "event loops" if module is async_connections else "threads"
            text = f"{self}: connections of {kind} cannot use {', '.join(unfit)}."
            raise ConfigurationError(f"{text} Remove it, or make no calls from there.")
        transport = self.sentinel_transport if sentinel and self.sentinel_transport else self.transport
        if transport == "unix":
            options["path"] = node.host
        else:
            options.update(host=node.host, port=node.port)
        name, version = options.pop("lib_name", "redis-py"), options.pop("lib_version", "")
        options.setdefault("driver_info", _driver(name, version))
        return _connection_class(module, transport)(
            **options,
            retry=retry,
            protocol=2,
            socket_timeout=self.settings.socket_timeout_s,
            socket_connect_timeout=self.settings.connect_timeout_s,
            maint_notifications_config=MaintNotificationsConfig(enabled=False),
        )


def _validate_options(options: dict[str, Any]) -> None:
    """Check the values that redis-py does not check before it connects.

    Raises:
        ValueError, LookupError: a value is not accepted.
    """
    database, read_size = options.get("db") or 0, options.get("socket_read_size", 1)
    if not str(database).isdecimal() or int(database) > MAX_DATABASE:
        raise ValueError(f"the database is {database!r}: expected an integer from 0")
    if not isinstance(read_size, int) or read_size < 1:
        raise ValueError(f"socket_read_size is {read_size!r}: expected an integer from 1")
    codecs.lookup(options.get("encoding", "utf-8"))
    codecs.lookup_error(options.get("encoding_errors", "strict"))
    if (version := options.get("ssl_min_version")) is not None:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).minimum_version = version


def _unfit_options(options: dict[str, Any], module: Any) -> list[str]:
    """Return the options that serve the other kind of connections only: of threads, or of event loops."""
    is_async, unfit = module is async_connections, []
    if (function := options.get("redis_connect_func")) is not None:
        unfit = ["redis_connect_func"] if inspect.iscoroutinefunction(function) is not is_async else []
    return unfit + [name for name in options if is_async and name.startswith("ssl_") and "ocsp" in name]


def naming_server(command: str, redis_cli: str) -> str:
    """Return a command line; one of redis-cli names the server.

    Args:
        redis_cli: see `Endpoint.redis_cli`.
    """
    return command.replace("redis-cli", redis_cli) if command.startswith("redis-cli ") else command


def own_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return those options of a pool that are for a connection and are not set by this package."""
    return {
        name: Secret(value) if name.endswith("password") and isinstance(value, str) else value
        for name, value in options.items()
        if name not in _IGNORED_OPTIONS and value is not None
    }


@functools.cache
def known_options(transport: str) -> frozenset[str]:
    """Return the options that redis-py's connection takes for this transport."""
    known: set[str] = set()
    for kind in _connection_class(sync_connections, transport).__mro__[:-1]:
        known.update(inspect.signature(kind.__init__).parameters)
    return frozenset(known - {"self", "args", "kwargs", "host", "port", "path"})


def _connection_class(module: Any, transport: str) -> Any:
    kinds = {"unix": "UnixDomainSocketConnection", "tls": "SSLConnection", "tcp": "Connection"}
    return getattr(module, kinds[transport])


@functools.cache
def _driver(name: str, version: str) -> DriverInfo:
    """Return the name and version of the library, as sent to the server.

    redis-py would look its version up in the installed packages for each connection: 0.4 ms of file reads, which block
    the event loop, and in whose finalizers (`ZipFile.__del__`) a Ctrl-C is lost.
    """
    return DriverInfo(name, version) if version else DriverInfo(name)
