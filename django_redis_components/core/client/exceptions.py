"""Errors of connections. They are also redis-py's, so that handlers of its errors catch them."""

from __future__ import annotations

from redis.exceptions import ConnectionError, TimeoutError, TryAgainError

from django_redis_components.core.exceptions import RedisComponentsError

#: What the parsers raise for bytes that are no reply of Redis, such as a map whose key is a list, or a bare MOVED.
MALFORMED = (TypeError, ValueError, LookupError)
#: What is raised where a reply should be read.
READ_ERRORS = (OSError, ConnectionError, TimeoutError, *MALFORMED)


def is_of_reply(error: Exception) -> bool:
    """Return whether reading a reply has raised an error, and not a signal handler of the site meanwhile."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    module = traceback.tb_frame.f_globals.get("__name__", "") if traceback else ""
    return module in ("socket", "ssl") or module.startswith(("redis.", f"{__name__.rpartition('.')[0]}."))


class OutOfTime(TimeoutError):
    """No time was left to send a request: nothing was sent."""


class NotConnected(ConnectionError):
    """No connection could be opened, so nothing was sent. A lost reply raises redis-py's `ConnectionError` itself."""


class SlotMigrating(RedisComponentsError, TryAgainError):
    """The Cluster slot of the request's keys is being moved to another node, for longer than the request may wait.

    Nothing was executed: the request may be sent again. See ``SLOT_MIGRATION_TIMEOUT``.

    Attributes:
        slot: the number of the slot.
        waited_s: how long the request has waited, in seconds.
    """

    def __init__(self, slot: int, waited_s: float, where: str) -> None:
        waited = f"; waited for {waited_s:.1f} s" if waited_s >= 0.05 else ""
        super().__init__(
            f"Slot {slot} of the Cluster {where} is being moved to another node{waited}. "
            "Nothing was executed: try again later."
        )
        self.slot = slot
        self.waited_s = waited_s
