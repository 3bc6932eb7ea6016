"""Outages: the cause for which Redis cannot be read, and the remedy."""

from __future__ import annotations

import dataclasses

from django.utils.translation import gettext as _
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)

from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.exception_text import safe_text
from django_redis_components.core.exceptions import ConfigurationError, RedisComponentsError, UnsupportedServer

#: Seconds after which a client may retry.
RETRY_AFTER_S = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Outage:
    """The cause of an outage.

    Attributes:
        code: for programs: "unreachable", "timeout", "login", …
        title: what is wrong, in one sentence.
        advice: what to do.
        address: of the server, without credentials; "" if unknown.
        detail: the text of the error.
    """

    code: str
    title: str
    advice: str
    address: str
    detail: str


class SnapshotFailed(RedisComponentsError):
    """The data of a page could not be read.

    Attributes:
        error: the cause.
        address: of the server, without credentials; "" if unknown.
    """

    def __init__(self, error: Exception, address: str) -> None:
        super().__init__(safe_text(error))
        self.error = error
        self.address = address


def outage_of(error: Exception, address: str) -> Outage:
    """Return the outage that caused an error, in the active language."""
    code, title, advice = _describe(error)
    return Outage(code, title, advice, address, safe_text(error))


def outage_named(code: str, address: str) -> Outage:
    """Return the outage with a code that `outage_of` has returned, in the active language."""
    title, advice = _TEXTS[code]()
    return Outage(code, title, advice, address, "")


def _describe(error: Exception) -> tuple[str, str, str]:
    for kinds, code in _CODES:
        if isinstance(error, kinds):
            return (code, *_TEXTS[code]())
    code = "error" if isinstance(error, RedisError) else "bug"
    return (code, *_TEXTS[code]())


#: Codes by exception class; the first match wins, so subclasses come before their base class.
_CODES: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (ConfigurationError, "settings"),
    (UnsupportedServer, "too_old"),
    ((AuthenticationError, AuthorizationError), "login"),
    (NoPermissionError, "permission"),
    (BusyLoadingError, "loading"),
    (OutOfMemoryError, "out_of_memory"),
    (ReadOnlyError, "read_only"),
    (MasterDownError, "primary_down"),
    (ClusterDownError, "cluster"),
    (NotConnected, "unreachable"),
    (TimeoutError, "timeout"),
    (ConnectionError, "unreachable"),
)

_TEXTS = {
    "settings": lambda: (
        _("The connection is misconfigured."),
        _("Correct REDIS_COMPONENTS in the site’s settings. “manage.py check” lists every error."),
    ),
    "too_old": lambda: (
        _("The Redis server is too old."),
        _("Redis 7.0 or Valkey 7.2 is required."),
    ),
    "login": lambda: (
        _("Redis authentication failed."),
        _("Check the connection’s username and password in REDIS_COMPONENTS."),
    ),
    "permission": lambda: (
        _("The Redis user lacks a permission."),
        _("Grant the command named in the message in the user’s ACL."),
    ),
    "loading": lambda: (
        _("Redis is loading its dataset."),
        _("No action is needed. This page recovers when loading completes."),
    ),
    "out_of_memory": lambda: (
        _("The memory of Redis is full: it rejects writes."),
        _("Raise maxmemory, or remove data that is not needed."),
    ),
    "read_only": lambda: (
        _("This server is a replica, which rejects writes."),
        _("Set the connection’s URL to the primary, or use redis+sentinel://."),
    ),
    "cluster": lambda: (
        _("The cluster is down: some hash slots have no node."),
        _("Check that every primary is running, or that a replica has taken over."),
    ),
    "primary_down": lambda: (
        _("This server is a replica without a connection to its primary, and answers no requests."),
        _("Check that the primary is running. Set the connection’s URL to it, or use redis+sentinel://."),
    ),
    "unreachable": lambda: (
        _("Cannot connect to Redis."),
        _("Check that the server is running and accepts connections from this host."),
    ),
    "timeout": lambda: (
        _("Redis did not reply in time."),
        _("The server or the network is overloaded or blocked. Check SLOWLOG for slow commands."),
    ),
    "bug": lambda: (
        _("An internal error occurred."),
        _("The site’s log has the traceback."),
    ),
    "error": lambda: (
        _("Redis returned an error."),
        _("Check the server’s message."),
    ),
}

#: All codes.
CODES = frozenset(_TEXTS)
