"""Waiting for messages: a flow for sync and async callers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator
from typing import Any

from django_redis_components.core.protocol import Flow
from django_redis_components.messaging.subscriber import ChannelListener, subscriber


@dataclasses.dataclass(frozen=True, slots=True)
class NextNotification:
    """A request of a flow: wait for a notification, for at most `seconds`."""

    listener: ChannelListener
    seconds: float

    def perform(self, _: object) -> None:
        """Wait in this thread."""
        self.listener.wait(self.seconds)

    async def aperform(self, _: object) -> None:
        """Wait in this task."""
        await self.listener.await_notification(self.seconds)


def wait_until(
    using: str, channel: str, check: Callable[[], Flow[bool]], timeout_s: float
) -> Generator[Any, Any, bool]:
    """Return whether a check is true within this time. It is repeated after each notification on the channel."""
    deadline = time.monotonic() + timeout_s
    if (yield from check()):
        return True
    if timeout_s <= 0:
        return False
    with subscriber(using).listening(channel) as listener:
        while (remaining := deadline - time.monotonic()) > 0:
            yield NextNotification(listener, remaining)
            if (yield from check()):
                return True
    return False
