"""The clients for what a page can do without: suggestions, counts of unread messages, cached values.

One policy for all of them. A request waits for at most ``PAGE_TIMEOUT``, its retries included. A failure opens the
circuit breaker of the connection alias: until Redis answers again, one request every 5 seconds tries it, and the others
raise `NotConnected` at once. Replies that are late use up the same breaker's budget. So an outage delays a page once,
and few pages at all.

These classes offer what `protocol.run` and `arun` need of a client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.core.circuit_breaker import CircuitBreaker
from django_redis_components.core.client._async.client import AsyncClient
from django_redis_components.core.client._sync.client import SyncClient
from django_redis_components.core.client.endpoint import Endpoint
from django_redis_components.core.client.exceptions import NotConnected, SlotMigrating
from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.core.protocol import BlockingPop, Call, Command
from django_redis_components.core.slot_waits import slot_wait_limit


class _BasePageClient:
    def __init__(self, client: Any, breaker: CircuitBreaker, timeout_s: float) -> None:
        self._client = client
        self.endpoint: Endpoint = client.endpoint
        self._breaker = breaker
        self._timeout_s = timeout_s

    @contextmanager
    def attempt(self) -> Iterator[list[Any]]:
        """Send a request in the block, unless Redis is skipped. Replies that the block adds may be errors."""
        if not self._breaker.allows_request():
            raise self._skipped()
        replies: list[Any] = []
        try:
            with slot_wait_limit(self._timeout_s):
                yield replies
        except (RedisError, UnsupportedServer) as exc:
            self._record(exc)
            raise
        self._record(next(filter(is_outage, replies), None))

    def _skipped(self) -> NotConnected:
        alias = self.endpoint.alias
        return NotConnected(
            f"Connection {alias!r} is not used for {self._breaker.retry_after_s():.1f} s: {self._breaker.reason}"
        )

    def _record(self, error: Exception | None) -> None:
        if is_outage(error):
            self._breaker.record_failure(reason=error)
        else:
            self._breaker.record_success()


class SyncPageClient(_BasePageClient):
    """The client of all threads."""

    _client: SyncClient

    def execute(self, request: Call | Command) -> Any:
        """Send one request and return its reply."""
        if self._client.is_cluster:
            with self.attempt():
                return self._client.execute(request)
        if not self._breaker.allows_request():  # the same without a context manager: each completion takes this way
            raise self._skipped()
        try:
            reply = self._client.execute(request)
        except (RedisError, UnsupportedServer) as exc:
            self._record(exc)
            raise
        self._breaker.record_success()
        return reply

    def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """Send requests in one round trip per node and return their replies, errors among them."""
        with self.attempt() as replies:
            replies += self._client.execute_many(requests)
        return replies

    def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Block on a list for at most `seconds`."""
        return self._client.wait(wakeup, seconds)


class AsyncPageClient(_BasePageClient):
    """The client of an event loop."""

    _client: AsyncClient

    async def execute(self, request: Call | Command) -> Any:
        """Send one request and return its reply."""
        with self.attempt():
            return await self._client.execute(request)

    async def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """Send requests in one round trip per node and return their replies, errors among them."""
        with self.attempt() as replies:
            replies += await self._client.execute_many(requests)
        return replies

    async def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Block on a list for at most `seconds`."""
        return await self._client.wait(wakeup, seconds)


def is_outage(error: object) -> bool:
    """Return whether the server did not answer. An error reply, or a slot that is being moved, is an answer."""
    return isinstance(error, ConnectionError | TimeoutError | UnsupportedServer) and not isinstance(
        error, SlotMigrating
    )


def cause_of(error: Exception) -> str:
    """Return the start of the log line about a failed request: Redis did not answer it, or refused it."""
    refused = isinstance(error, RedisError) and not is_outage(error)
    return "Redis refused the request" if refused else "Redis is unavailable"
