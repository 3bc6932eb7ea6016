"""The server's product and version, and errors explained with the settings they come from."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from django_redis_components.core.client.endpoint import Endpoint
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.client.retry import NOT_EXECUTED_ERRORS
from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.core.settings.sections import ConnectionSettings

#: Oldest versions that have all commands used here (SET NX GET, EXPIRE GT, BITCOUNT BIT).
MINIMUM_VERSIONS = {"Redis": (7, 0, 0), "Valkey": (7, 2, 0)}
#: Error replies about the state of the server, which do not name it. A site may have several.
_STATE_ERRORS = (BusyLoadingError, ReadOnlyError, OutOfMemoryError, ClusterDownError)
_STATE_CODES = ("MISCONF ", "NOREPLICAS ", "BUSY ", "DENIED ")
#: Prefixes of error replies that any write or script gets.
_GENERAL_CODES = ("MISCONF", "NOREPLICAS", "NOAUTH", "BUSY", "READONLY", "UNKILLABLE")
#: Texts of Redis and Valkey for a user who may not run a command of a script.
_NO_PERMISSION = ("ACL failure in script", "The user executing the script can't run")
#: The reply to a command that the server does not have. It goes on with the arguments.
_UNKNOWN_COMMAND = re.compile(r"unknown (?:sub)?command [`'\"]?([\w|]+)", re.IGNORECASE)
#: Longest timeout of a blocking command, as a share of the socket timeout, so that its reply arrives in time.
BLOCKING_SHARE = 0.8
#: Seconds by which an idle server may end a blocking command too late: it checks ten times a second.
BLOCKING_DELAY_S = 0.15


@dataclasses.dataclass(frozen=True)
class ServerInfo:
    """Product ("Redis", "Valkey"), version as three numbers, and the fields of INFO server."""

    product: str
    version: tuple[int, ...]
    fields: dict[str, str]

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.version))}"


def parse_info(reply: Any) -> ServerInfo:
    """Parse INFO server. Valkey reports redis_version 7.2.4 for compatibility, and its own version as well."""
    # The paths in it, of the executable and of the configuration, may have any bytes.
    text = reply.decode(errors="replace") if isinstance(reply, bytes) else str(reply)
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    product = next((name for name in ("Valkey", "Redis") if f"{name.lower()}_version" in fields), "unknown")
    version = fields.get("valkey_version") or fields.get("redis_version", "0")
    return ServerInfo(product, _numbers(version), fields)


def require_supported(info: ServerInfo, address: str) -> None:
    """Check the server's version. Unknown products are accepted.

    Raises:
        UnsupportedServer: the server is too old.
    """
    minimum = MINIMUM_VERSIONS.get(info.product)
    if minimum is not None and info.version < minimum:
        raise UnsupportedServer(str(info), address)


def explain_error(error: RedisError, endpoint: Endpoint) -> RedisError:
    """Return the error; if wrong settings cause it, with the setting to change."""
    explained = _explained(error, endpoint)
    if explained is not error:
        explained.__cause__ = error.__cause__ or error
    return explained


def _explained(error: RedisError, endpoint: Endpoint) -> RedisError:
    setting = f'REDIS_COMPONENTS["CONNECTIONS"]["{endpoint.alias}"]'
    if setting in str(error):
        return error
    if isinstance(error, AuthenticationError):
        text = str(error).rstrip(".")
        return AuthenticationError(f"{endpoint} rejected the login: {text}. Check user name and password in {setting}.")
    if isinstance(error, ResponseError) and "DB index" in str(error):
        text = "The number at the end of the URL is that of a database; a server has 16, from 0, unless configured."
        return ResponseError(f"{endpoint} has no such database: {str(error).rstrip('.')}. {text} Change {setting}.")
    if isinstance(error, AskError) and endpoint.kind != "cluster":
        return ResponseError(f"{endpoint} is a node of a Cluster: use a redis+cluster:// URL in {setting}.")
    if isinstance(error, InvalidResponse):
        text = str(error).rstrip(".")
        return InvalidResponse(
            f"{endpoint} does not answer as a Redis server: {text}. Check address and TLS in {setting}."
        )
    if isinstance(error, NotConnected) and (missing := endpoint.missing_files()):
        return NotConnected(f"{str(error).rstrip('.')}. Files in {setting} that cannot be read: {', '.join(missing)}.")
    if isinstance(error, NotConnected) and endpoint.transport == "tls" and "Timeout connecting" in str(error):
        text = f"{str(error).rstrip('.')}. TLS is on, and a port without TLS does not answer it"
        return NotConnected(f"{text}: check port and TLS in {setting}.")
    _add_server(error, endpoint)
    return error


def unknown_command(reply: object) -> str:
    """Return the name of the command that an error reply says the server does not have, or ""."""
    found = _UNKNOWN_COMMAND.match(str(reply)) if isinstance(reply, ResponseError) else None
    return found[1].upper() if found else ""


def is_refused(error: ResponseError) -> bool:
    """Return whether the server has no such command, for this user or at all."""
    return isinstance(error, NoPermissionError) or bool(unknown_command(error))


def may_succeed_later(error: Exception) -> bool:
    """Return whether the request of an error may succeed if it is sent again later."""
    if isinstance(error, ResponseError):
        return isinstance(error, NOT_EXECUTED_ERRORS) or refuses_all_writes(error)
    return isinstance(error, RedisError)


def refuses_all_writes(error: Exception) -> bool:
    """Return whether an error reply is about the server or the rights of its user: a later request may succeed.

    It has no memory, cannot write to its disk, has too few replicas, runs a long script, or the user lacks a right.
    """
    reply = str(error)
    return (
        isinstance(error, OutOfMemoryError | NoPermissionError)
        or reply.startswith(_GENERAL_CODES)
        or any(words in reply for words in _NO_PERMISSION)
    )


def _add_server(error: RedisError, endpoint: Endpoint) -> None:
    """Name the server in an error reply. It remains the same object, and the beginning of its text the server's."""
    text = str(error)
    if str(endpoint) in text:
        return
    if name := unknown_command(error):  # without the arguments, which may be those of a task
        error.args = (f"Unknown command {name}: {endpoint} is too old, or has it disabled or renamed.",)
    elif isinstance(error, _STATE_ERRORS) or text.startswith(_STATE_CODES):
        error.args = (f"{text.rstrip('. ')}. Server: {endpoint}.",)


def blocking_timeout_s(settings: ConnectionSettings) -> float:
    """Return the timeout of a blocking command: its reply arrives before the socket timeout. Never 0 (forever)."""
    timeout_s = settings.socket_timeout_s
    return max(0.001, min(timeout_s * BLOCKING_SHARE, timeout_s - BLOCKING_DELAY_S))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in [*version.split("."), "0", "0"][:3])
