"""What stands before the clients while a test runs tasks in memory, or looks at what is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from asgiref.sync import sync_to_async

from django_redis_components.core.client import connections
from django_redis_components.core.decorators import without_stop_iteration
from django_redis_components.core.protocol import BlockingPop, Call, Command
from django_redis_components.testing.calls import is_ours


class Mode(Protocol):
    """What decides on the requests of the task queue."""

    def take(self, request: Call | Command, using: str) -> Any:
        """The reply, or NOT_TAKEN: then it goes where it would have gone."""
        ...


#: What a mode says of a request that is not its own.
NOT_TAKEN = object()


class Door:
    """In place of a client: the task queue's requests go to a mode, all others to the client."""

    def __init__(self, mode: Mode, using: str, client: Callable[[str], Any]) -> None:
        self._mode = mode
        self._using = using
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client(self._using), name)

    def execute(self, request: Call | Command) -> Any:
        """The reply to one request."""
        reply = self._mode.take(request, self._using) if is_ours(request) else NOT_TAKEN
        return self._client(self._using).execute(request) if reply is NOT_TAKEN else reply

    def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """The replies to requests; an error stands in the place of its reply."""
        return [_reply_or_error(self.execute, request) for request in requests]

    def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Wait at the client."""
        element: bytes | None = self._client(self._using).wait(wakeup, seconds)
        return element


class AsyncDoor:
    """The same for an event loop. A mode may run tasks: it does so in the thread that Django keeps for that."""

    def __init__(self, mode: Mode, using: str, client: Callable[[str], Any]) -> None:
        self._mode = mode
        self._using = using
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client(self._using), name)

    async def execute(self, request: Call | Command) -> Any:
        """The reply to one request."""
        run_in_the_test = without_stop_iteration(self._mode.take)
        reply = await sync_to_async(run_in_the_test)(request, self._using) if is_ours(request) else NOT_TAKEN
        return await self._client(self._using).execute(request) if reply is NOT_TAKEN else reply

    async def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """The replies to requests; an error stands in the place of its reply."""
        replies: list[Any] = []
        for request in requests:
            try:
                replies.append(await self.execute(request))
            except Exception as exc:  # noqa: BLE001 - as a client's execute_many does
                replies.append(exc)
        return replies

    async def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Wait at the client."""
        element: bytes | None = await self._client(self._using).wait(wakeup, seconds)
        return element


class Doors:
    """Puts doors before `connections.client` and `aclient`, and takes them away; what was there before comes back."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._before: list[tuple[Any, Any]] = []

    def put_up(self) -> None:
        """From now on requests come by."""
        client, aclient = connections.client, connections.aclient
        self._before.append((client, aclient))
        doors: Any = connections  # a Door stands for a Client wherever one is used
        doors.client = lambda alias="default": Door(self._mode, alias, client)
        doors.aclient = lambda alias="default": AsyncDoor(self._mode, alias, aclient)

    def take_down(self) -> None:
        """Nothing comes by any more."""
        doors: Any = connections
        doors.client, doors.aclient = self._before.pop()


def _reply_or_error(execute: Callable[[Any], Any], request: Call | Command) -> Any:
    try:
        return execute(request)
    except Exception as exc:  # noqa: BLE001 - as a client's execute_many does
        return exc
