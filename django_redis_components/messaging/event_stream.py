"""The server-sent events of a chat. A stream outlasts an outage of Redis, and keeps its place over connections."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Self

from django.http import HttpResponse, StreamingHttpResponse
from django.utils.cache import patch_cache_control
from redis.exceptions import RedisError

from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.units import aware
from django_redis_components.messaging import keyspace
from django_redis_components.messaging.arguments import MAX_ID
from django_redis_components.messaging.chat import Chat
from django_redis_components.messaging.exceptions import ChatDoesNotExist, NotMember
from django_redis_components.messaging.message import Message, Messages
from django_redis_components.messaging.request_limits import OpenRequest
from django_redis_components.messaging.subscriber import subscriber

#: Seconds of silence after which an event stream sends a comment.
KEEP_ALIVE_S = 15.0
#: Seconds after which an event stream ends; the browser opens the next one, and is authenticated again.
MAX_STREAM_S = 600.0
#: Messages of one step of an event stream; fewer after about 1 MiB.
STREAM_CHUNK = 100
#: Seconds within which the client must take an event, as far as the server's buffers do not.
WRITE_S = 60.0
#: Seconds that a stream waits for its subscription before it reads the chat. It reads again after a later one.
SUBSCRIBE_S = 1.0
#: Seconds before the next attempt to read while Redis is unavailable: the first, and the longest. Each is shortened at
#: random by up to a half, so that the streams of a process do not read all at once.
MIN_BACKOFF_S, MAX_BACKOFF_S = 0.5, 5.0
#: Seconds after which a browser connects again that did so while Redis was unavailable.
RECONNECT_S = 5.0

#: Compression would hold events back, and GZipMiddleware makes each event a separate gzip file, of which browsers
#: read only the first.
_HEADERS = {"Content-Type": "text/event-stream", "Content-Encoding": "identity", "X-Accel-Buffering": "no"}

_COMMENT = ": keep-alive\n\n"

logger = guarded_logger(__name__)


@dataclasses.dataclass(slots=True)
class Position:
    """How much of a chat a client has. As text it is the id of an event: ``5``, after edits and deletions ``5-2``.

    Attributes:
        after: id of the last message.
        revision: number of edits and deletions.
    """

    after: int
    revision: int

    def __str__(self) -> str:
        return f"{self.after}-{self.revision}" if self.revision else str(self.after)

    @classmethod
    def parse(cls, event_id: str) -> Self | None:
        """Return the position of the id of an event; None if it is not one."""
        after, separator, revision = event_id.partition("-")
        numbers = [after, revision] if separator else [after, "0"]
        if not all(one.isascii() and one.isdecimal() and len(one) <= 16 and int(one) <= MAX_ID for one in numbers):
            return None
        return cls(*map(int, numbers))

    def advance(self, messages: Messages) -> Iterator[str]:
        """Return the events of what was fetched after this position, and move it."""
        if messages.is_truncated:
            yield "event: truncated\ndata: {}\n\n"
            if not messages:
                self.after = messages.last_id
        for message in messages:
            self.after = message.id
            yield self._event("message", message_row(message))
        if messages.revision != self.revision:
            self.revision = messages.revision
            yield self._event("changed", {"revision": self.revision})

    def _event(self, name: str, data: dict[str, Any]) -> str:
        return f"id: {self}\nevent: {name}\ndata: {json.dumps(data)}\n\n"


def message_row(message: Message) -> dict[str, Any]:
    """Return a message as JSON."""
    row = dataclasses.asdict(message)
    edited_at = aware(message.edited_at).isoformat() if message.edited_at else None
    return row | {"sent_at": aware(message.sent_at).isoformat(), "edited_at": edited_at}


class EventStreamResponse(StreamingHttpResponse):
    """The events of a chat after a position, for one open request of a user."""

    def __init__(self, chat: Chat, user: str, position: Position, request: OpenRequest) -> None:
        super().__init__(_watched(chat_event_stream(chat, user, position), request), headers=_HEADERS)
        patch_cache_control(self, no_transform=True)
        self._open_request = request

    def close(self) -> None:
        super().close()
        self._open_request.close()  # the generator does it too, but it is not started for a HEAD request


async def chat_event_stream(chat: Chat, user: str, position: Position) -> AsyncGenerator[str, None]:
    """Return the events of a chat after a position: one fetch for each notification, and comments during silence."""
    ends_at, backoff_s = time.monotonic() + MAX_STREAM_S, 0.0
    with subscriber(chat.using).listening(keyspace.chat_key(chat.id, "wakeup")) as listener:
        await listener.await_notification(SUBSCRIBE_S)
        while time.monotonic() < ends_at:
            try:
                messages = await chat.afetch(user, after=position.after, limit=STREAM_CHUNK)
            except (ChatDoesNotExist, NotMember):
                yield "event: closed\ndata: {}\n\n"
                return
            except (RedisError, RedisComponentsError) as exc:
                if not backoff_s and should_log_failure("open event streams"):
                    logger.warning("Event streams are interrupted: %s", exc)
                backoff_s = min(max(backoff_s * 2, MIN_BACKOFF_S), MAX_BACKOFF_S)
                yield _COMMENT
                await asyncio.sleep(backoff_s * random.uniform(0.5, 1))
                continue
            backoff_s = 0.0
            for event in position.advance(messages):
                yield event
                if time.monotonic() >= ends_at:
                    return
            if not messages.is_cut:
                while (silence_s := min(KEEP_ALIVE_S, ends_at - time.monotonic())) > 0:
                    if await listener.await_notification(silence_s):
                        break
                    yield _COMMENT


async def _watched(events: AsyncGenerator[str, None], request: OpenRequest) -> AsyncIterator[str]:
    """Yield events, and end a response of which the client does not take an event in time.

    A generator cannot run while the server waits for the client, so a timer cancels the task that asks for the events.
    Django handles that as a disconnect; from 6.1 on the server ends the request and closes the connection.
    """
    loop = asyncio.get_running_loop()

    def end(task: asyncio.Task[Any]) -> None:
        request.close()  # from Django 6.1 on nothing else closes it then, until the generator is collected
        task.cancel()

    with request:
        async with contextlib.aclosing(events):
            async for event in events:
                task = asyncio.current_task(loop)
                timer = loop.call_later(WRITE_S, end, task) if task else None
                try:
                    yield event
                finally:
                    if timer:
                        timer.cancel()


def unavailable_response() -> HttpResponse:
    """Return an event stream that ends at once. The browser connects again: after a status of 503 it would not."""
    reconnect_ms = RECONNECT_S * 1_000 * random.uniform(0.5, 1)
    response = HttpResponse(f"retry: {reconnect_ms:.0f}\n: Redis is unavailable\n\n", headers=_HEADERS)
    patch_cache_control(response, no_transform=True)
    return response
