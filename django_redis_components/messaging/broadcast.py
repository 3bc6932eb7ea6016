"""Broadcast: pub/sub, at most once."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any, Self

from django_redis_components.core import serialization
from django_redis_components.core.client import connections
from django_redis_components.core.component import Component
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Command, Flow, arun, run
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.messaging import arguments, keyspace, user_index
from django_redis_components.messaging.exceptions import SubscriptionFailed
from django_redis_components.messaging.subscriber import ChannelListener, subscriber

#: Seconds of one wait of an iteration; a wait without an end could not be interrupted on all platforms.
WAIT_S = 60.0

logger = guarded_logger("django_redis_components.messaging")


class Broadcast(Component):
    """A pub/sub channel: each message reaches those who are subscribed at this moment, **at most once**.

    A message that is published while a subscriber is disconnected is lost for it. Use `Chat` or `Mailbox` for messages
    that must arrive.

    Args:
        channel: its name.
        using: connection alias.

    Raises:
        TypeError, ValueError: the name is not valid.
    """

    component = "messaging"
    name_label = "channel"

    def __init__(self, channel: str, *, using: str = "default") -> None:
        super().__init__(channel, using=using)

    @property
    def channel(self) -> str:
        """The name of the channel."""
        return self.name

    def publish(self, body: Any) -> int:
        """Send a message once. Return the number of processes that were subscribed.

        Args:
            body: any JSON value of at most 64 KiB.

        Raises:
            redis.exceptions.ConnectionError: the reply was lost; whether the message was sent is not known.
        """
        return self._run(self._publish(body))

    async def apublish(self, body: Any) -> int:
        """See `publish`."""
        return await self._arun(self._publish(body))

    def subscribe(self) -> Subscription:
        """Return a subscription, for ``with`` or ``async with``. It reconnects by itself."""
        return Subscription(self)

    @property
    def key(self) -> str:
        """The channel in Redis, in the slot of its name.

        :meta private:
        """
        return keyspace.broadcast_key(self.channel)

    def _publish(self, body: Any) -> Flow[int]:
        count = yield Command("SPUBLISH", self.key, arguments.check_body(body))
        return int(count)


@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """A message that a subscription received.

    Attributes:
        body: any JSON value, also None.
    """

    body: Any


class Subscription:
    """The messages of a channel, from the start of the ``with`` block on.

    Iterate over it (``for`` or ``async for``), which yields `Received`, or call `get`. Made by `Broadcast.subscribe`.
    """

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast = broadcast
        self._listener = ChannelListener(broadcast.key, keeps_payloads=True)

    def __repr__(self) -> str:
        return f"<Subscription {self._broadcast.channel!r}>"

    @property
    def dropped(self) -> int:
        """Messages that were dropped because more than 1,000, or more than 4 MiB, were not read."""
        return self._listener.dropped

    def get(self, timeout: Seconds) -> Received | None:
        """Return the next message; None if none arrives within `timeout` seconds."""
        deadline = time.monotonic() + to_seconds(timeout, "timeout", zero=True)
        while True:
            if (found := self._next()) is not None:
                return found
            if (remaining := deadline - time.monotonic()) <= 0:
                return None
            self._listener.wait(remaining)

    async def aget(self, timeout: Seconds) -> Received | None:  # noqa: ASYNC109
        """See `get`."""
        deadline = time.monotonic() + to_seconds(timeout, "timeout", zero=True)
        while True:
            if (found := self._next()) is not None:
                return found
            if (remaining := deadline - time.monotonic()) <= 0:
                return None
            await self._listener.await_notification(remaining)

    def __enter__(self) -> Self:
        with self._opening() as deadline:
            while not self._listener.is_subscribed and (remaining := deadline - time.monotonic()) > 0:
                self._listener.wait(remaining)
            self._check()
            run(connections.client(self._broadcast.using), self._index())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        subscriber(self._broadcast.using).remove(self._listener)

    async def __aenter__(self) -> Self:
        with self._opening() as deadline:
            while not self._listener.is_subscribed and (remaining := deadline - time.monotonic()) > 0:
                await self._listener.await_notification(remaining)
            self._check()
            await arun(connections.aclient(self._broadcast.using), self._index())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        subscriber(self._broadcast.using).remove(self._listener)

    def __iter__(self) -> Iterator[Received]:
        while True:
            while (found := self._next()) is not None:
                yield found
            self._listener.wait(WAIT_S)

    async def __aiter__(self) -> AsyncIterator[Received]:
        while True:
            while (found := self._next()) is not None:
                yield found
            await self._listener.await_notification(WAIT_S)

    @contextlib.contextmanager
    def _opening(self) -> Iterator[float]:
        """Subscribe, unless the block fails. Yield when the server must have confirmed it, by the monotonic clock."""
        channels = subscriber(self._broadcast.using)
        try:
            channels.add(self._listener)
            yield time.monotonic() + connections.endpoint(self._broadcast.using).settings.socket_timeout_s
        except BaseException:
            channels.remove(self._listener)
            raise

    def _index(self) -> Flow[None]:
        yield from user_index.index_name("broadcasts", self._broadcast.channel)

    def _check(self) -> None:
        if not self._listener.is_subscribed:
            raise SubscriptionFailed(self._broadcast.channel)

    def _next(self) -> Received | None:
        """Return the next message; None without one."""
        while (payload := self._listener.pop()) is not None:
            try:
                return Received(serialization.decode(payload))
            except (ValueError, RecursionError):
                logger.warning("Channel %r received a message that is not JSON.", self._broadcast.channel)
        return None
