"""Why Redis does not answer, in words that say what to do."""

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
    RedisError,
    TimeoutError,
)

from django_redis_components.core.exceptions import ConfigurationError, NotConnected, UnsupportedServer
from django_redis_components.dashboard.clients import READ_S

#: Seconds after which a browser may ask again.
RETRY_AFTER_S = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Outage:
    """What is wrong.

    Attributes:
        code: a word for programs: "unreachable", "timeout", "login", …
        title: one sentence.
        advice: what to do.
        address: where, without credentials; "" if that is not known.
        detail: what the server or the connection said, in its own words.
    """

    code: str
    title: str
    advice: str
    address: str
    detail: str


def outage_of(error: Exception, address: str) -> Outage:
    """The outage behind an error, in the active language."""
    code, title, advice = _words(error)
    return Outage(code, title, advice, address, str(error))


def _words(error: Exception) -> tuple[str, str, str]:
    for kinds, code in _KINDS:
        if isinstance(error, kinds):
            return (code, *_TEXTS[code]())
    code = "error" if isinstance(error, RedisError) else "bug"
    return (code, *_TEXTS[code]())


#: Errors to codes; the first that fits counts, so that a kind stands before what it is a kind of.
_KINDS: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (ConfigurationError, "settings"),
    (UnsupportedServer, "too_old"),
    ((AuthenticationError, AuthorizationError), "login"),
    (NoPermissionError, "permission"),
    (BusyLoadingError, "loading"),
    ((ClusterDownError, MasterDownError), "cluster"),
    (NotConnected, "unreachable"),
    (TimeoutError, "timeout"),
    (ConnectionError, "unreachable"),
)

_TEXTS = {
    "settings": lambda: (
        _("The settings of the connection are wrong."),
        _("Correct REDIS_COMPONENTS in the settings of the site. The command “manage.py check” lists every mistake."),
    ),
    "too_old": lambda: (
        _("The server is too old."),
        _("Redis 7.0 or Valkey 7.2 is the least that works."),
    ),
    "login": lambda: (
        _("Redis has refused the login."),
        _("Check user name and password of the connection in REDIS_COMPONENTS."),
    ),
    "permission": lambda: (
        _("The user of the connection may not read this."),
        _("Give the user in Redis’s ACL the commands that the message names."),
    ),
    "loading": lambda: (
        _("Redis has just started and is loading its data."),
        _("Nothing needs to be done: the page comes back when the data is loaded."),
    ),
    "cluster": lambda: (
        _("The Cluster has no node for a part of its keys."),
        _("See that all its masters run, or that their replicas have taken over."),
    ),
    "unreachable": lambda: (
        _("Redis cannot be reached."),
        _("See that the server runs, and that this machine may connect to it."),
    ),
    "timeout": lambda: (
        _("Redis did not answer within %(seconds)d seconds.") % {"seconds": READ_S},
        _("The server, or the way to it, is overloaded or blocked. Its slow log names commands that took long."),
    ),
    "bug": lambda: (
        _("An error in this site kept it from being read."),
        _("The site’s log has the whole of it."),
    ),
    "error": lambda: (
        _("Redis has answered with an error."),
        _("The message is the server’s own."),
    ),
}
