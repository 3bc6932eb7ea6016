"""What the server is, read once for each client, and what follows from it."""

from __future__ import annotations

import dataclasses
from typing import Any

from redis.exceptions import AskError, AuthenticationError, RedisError, ResponseError

from django_redis_components.core.client.endpoint import Endpoint
from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.core.sections import ConnectionSettings

#: Oldest versions that have every command used here (SET NX GET, EXPIRE GT, BITCOUNT BIT).
LEAST = {"Redis": (7, 0, 0), "Valkey": (7, 2, 0)}
#: Share of the socket timeout that a blocking command may last, so that its reply arrives in time.
BLOCK_SHARE = 0.8
#: Seconds that an idle server may end a blocking command after its time (it looks ten times a second).
BLOCK_LATE_S = 0.15


@dataclasses.dataclass(frozen=True)
class ServerInfo:
    """Product ("Redis", "Valkey"), version as three numbers, and the fields of INFO server."""

    product: str
    version: tuple[int, ...]
    fields: dict[str, str]

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.version))}"


def parse_info(reply: Any) -> ServerInfo:
    """Read INFO server. Valkey reports redis_version 7.2.4 for compatibility, and its own beside it."""
    text = reply.decode() if isinstance(reply, bytes) else str(reply)
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    product = "Valkey" if "valkey_version" in fields else "Redis"
    version = fields.get("valkey_version") or fields.get("redis_version", "0")
    return ServerInfo(product, _numbers(version), fields)


def require_supported(info: ServerInfo, address: str) -> None:
    """Raise UnsupportedServer if the server is too old; an unknown product is believed."""
    least = LEAST.get(info.product)
    if least is not None and info.version < least:
        raise UnsupportedServer(str(info), address)


def explained(error: RedisError, endpoint: Endpoint) -> RedisError:
    """The same error, with what to do about it when the settings are what is wrong."""
    place = f'REDIS_COMPONENTS["CONNECTIONS"]["{endpoint.alias}"]'
    if place in str(error):
        return error
    if isinstance(error, AuthenticationError):
        said = str(error).rstrip(".")
        return AuthenticationError(f"{endpoint} refused the login: {said}. Check user name and password in {place}.")
    if isinstance(error, AskError) and endpoint.kind != "cluster":
        return ResponseError(f"{endpoint} is a node of a Cluster: use a redis+cluster:// URL in {place}.")
    return error


def block_slice(settings: ConnectionSettings, seconds: float) -> float:
    """How long one blocking command may last: so that its reply arrives in time, and never 0 (for ever)."""
    timeout_s = settings.socket_timeout_s
    return max(0.001, min(seconds, timeout_s * BLOCK_SHARE, timeout_s - BLOCK_LATE_S))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in [*version.split("."), "0", "0"][:3])
