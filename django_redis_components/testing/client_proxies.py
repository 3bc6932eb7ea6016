"""Client proxies that intercept the requests of the task queue while a test captures or runs tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async

from django_redis_components.core.client import connections
from django_redis_components.core.decorators import without_stop_iteration
from django_redis_components.core.protocol import BlockingPop, Call, Command
from django_redis_components.testing.request_parser import is_taskqueue_request

#: Answers a request of the task queue to a connection in place of Redis: the reply, or NOT_INTERCEPTED to send it.
Intercept = Callable[[Call | Command, str], Any]
#: Returned by an interceptor for a request that must be sent to Redis.
NOT_INTERCEPTED = object()


class _Proxy:
    """Passes all that is not overridden to the client."""

    def __init__(self, intercept: Intercept, using: str, client: Callable[[str], Any]) -> None:
        self._intercept = intercept
        self._using = using
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client(self._using), name)


class ClientProxy(_Proxy):
    """Passes requests of the task queue to an interceptor, and all others to the client."""

    def execute(self, request: Call | Command) -> Any:
        """Return the reply to one request."""
        reply = self._intercept(request, self._using) if is_taskqueue_request(request) else NOT_INTERCEPTED
        return self._client(self._using).execute(request) if reply is NOT_INTERCEPTED else reply

    def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """Return one reply per request; a request that failed has its exception as the reply."""
        return [_reply_or_error(self.execute, request) for request in requests]

    def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Wait with the client; waits are not intercepted."""
        element: bytes | None = self._client(self._using).wait(wakeup, seconds)
        return element


class AsyncClientProxy(_Proxy):
    """The asyncio `ClientProxy`. It calls the interceptor in Django's thread for synchronous code."""

    async def execute(self, request: Call | Command) -> Any:
        """Return the reply to one request."""
        run_in_the_test = without_stop_iteration(self._intercept)
        reply = (
            await sync_to_async(run_in_the_test)(request, self._using)
            if is_taskqueue_request(request)
            else NOT_INTERCEPTED
        )
        return await self._client(self._using).execute(request) if reply is NOT_INTERCEPTED else reply

    async def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """Return one reply per request; a request that failed has its exception as the reply."""
        replies: list[Any] = []
        for request in requests:
            try:
                replies.append(await self.execute(request))
            except Exception as exc:  # noqa: BLE001 - as a client's execute_many does
                replies.append(exc)
        return replies

    async def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Wait with the client; waits are not intercepted."""
        element: bytes | None = await self._client(self._using).wait(wakeup, seconds)
        return element


class ClientPatch:
    """Replaces `connections.client`, `aclient` and `page_client` with proxies, and restores the previous functions."""

    def __init__(self, intercept: Intercept) -> None:
        self._intercept = intercept
        self._originals: list[tuple[Any, Any, Any]] = []

    def install(self) -> None:
        """Install the proxies."""
        client, aclient, page_client = connections.client, connections.aclient, connections.page_client
        self._originals.append((client, aclient, page_client))
        patched: Any = connections  # a ClientProxy is used wherever a Client is
        patched.client = lambda alias="default": ClientProxy(self._intercept, alias, client)
        patched.aclient = lambda alias="default": AsyncClientProxy(self._intercept, alias, aclient)
        patched.page_client = lambda alias="default", timeout_s=None: ClientProxy(
            self._intercept, alias, partial(page_client, timeout_s=timeout_s)
        )

    def restore(self) -> None:
        """Restore the functions that the last `install` replaced."""
        patched: Any = connections
        patched.client, patched.aclient, patched.page_client = self._originals.pop()


def _reply_or_error(execute: Callable[[Any], Any], request: Call | Command) -> Any:
    try:
        return execute(request)
    except Exception as exc:  # noqa: BLE001 - as a client's execute_many does
        return exc
