"""Limits of what one member may ask of the views: messages per minute, and requests that wait at the same time."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.settings import conf
from django_redis_components.messaging.chat import Chat
from django_redis_components.messaging.exceptions import MessagingError
from django_redis_components.ratelimits import Decision, RateLimit
from django_redis_components.ratelimits.responses import whole_seconds

#: Name of the rate limit.
NAME = "messaging-send"
#: Seconds after which a client may try again that has too many open requests: one of them may have ended.
RETRY_AFTER_S = 5


class TooManyRequests(MessagingError):
    """Raised when a member has sent too many messages, or has too many open requests.

    Attributes:
        retry_after_s: whole seconds after which the request may succeed.
    """

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OpenRequest:
    """A request of a user that waits, an event stream or a long poll, until it is closed or its block ends.

    Args:
        user: the user.
        most: such requests of the user in this process.

    Raises:
        TooManyRequests: there are as many already.
    """

    def __init__(self, user: str, most: int) -> None:
        with _mutex:
            if _open[user] >= most:
                raise TooManyRequests(f"User {user!r} has {most} open requests in this process.", RETRY_AFTER_S)
            _open[user] += 1
        self._user: str | None = user

    def close(self) -> None:
        """Count the request no more. A second call does nothing."""
        with _mutex:
            if self._user is not None:
                _open[self._user] -= 1
                if not _open[self._user]:
                    del _open[self._user]
            self._user = None

    def __enter__(self) -> None:
        """Do nothing: the request counts from its creation on."""

    def __exit__(self, *_exc: object) -> None:
        self.close()


def perform(chat: Chat, name: str, args: dict[str, Any]) -> Any:
    """Run the flow of a chat's method for its user, on the client of pages, within the limits.

    Raises:
        TooManyRequests: a limit is reached.
    """
    if name == "send" and (limit := _limit()):
        _check(limit.hit(args["sender"]))
    client, flow = connections.page_client(chat.using), getattr(chat, f"_{name}")(**args)
    if name != "wait_for_message":
        return run(client, flow)
    with OpenRequest(args["user"], conf.settings().messaging.max_long_polls):
        return run(client, flow)


async def aperform(chat: Chat, name: str, args: dict[str, Any]) -> Any:
    """See `perform`. A long poll is a task here, as an event stream is, and counts as one."""
    if name == "send" and (limit := _limit()):
        _check(await limit.ahit(args["sender"]))
    client, flow = connections.apage_client(chat.using), getattr(chat, f"_{name}")(**args)
    if name != "wait_for_message":
        return await arun(client, flow)
    with OpenRequest(args["user"], conf.settings().messaging.max_streams):
        return await arun(client, flow)


_limits: list[RateLimit] = []
conf.on_change(_limits.clear)


def _limit() -> RateLimit | None:
    """Return the limit of the settings; None without rates."""
    rates = conf.settings().messaging.send_rates
    if rates and not _limits:
        _limits.append(RateLimit(NAME, *rates))
    return _limits[0] if rates else None


def _check(decision: Decision) -> None:
    if not decision.is_allowed:
        raise TooManyRequests("The member has sent too many messages.", whole_seconds(decision.retry_after))


_open: Counter[str] = Counter()
_mutex = threading.Lock()


def _after_fork() -> None:
    """Begin anew: a forked child has none of its parent's requests."""
    global _mutex
    _mutex = threading.Lock()
    _open.clear()


after_fork_in_child(_after_fork)
