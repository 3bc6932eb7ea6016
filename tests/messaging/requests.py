"""Requests of an authenticated user: to an async view, or to the whole site over ASGI."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from asgiref.sync import markcoroutinefunction
from django.contrib.auth.models import AnonymousUser
from django.core.asgi import get_asgi_application
from django.test import AsyncRequestFactory

from tests.support.waiting import TIMEOUT_S


class FakeUser(AnonymousUser):
    """An authenticated user, without a database."""

    is_authenticated = True  # type: ignore[assignment]
    pk = 7


def request(path: str = "/", user: Any = None, **options: Any) -> Any:
    made = AsyncRequestFactory().generic(options.pop("method", "GET"), path, **options)

    async def auser() -> Any:
        return user or FakeUser()

    made.auser = auser
    return made


class SignedInMiddleware:
    """Sign every visitor in as `FakeUser`."""

    async_capable, sync_capable = True, False

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response
        markcoroutinefunction(self)

    async def __call__(self, request: Any) -> Any:
        async def auser() -> Any:
            return FakeUser()

        request.auser = auser
        return await self._get_response(request)


class AsgiRequest:
    """A GET request as an ASGI server makes it of one of a browser. It disconnects at the end of the block.

    Attributes:
        status: of the response.
        headers: of the response, by lower-case name.
    """

    def __init__(self, path: str, query: str = "", **headers: str) -> None:
        self._scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.replace("_", "-").lower().encode(), text.encode()) for name, text in headers.items()],
            "server": ("testserver", 80),
            "asgi": {"version": "3.0"},
        }
        self._to_site: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from_site: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._text, self._is_complete = "", False
        self.status, self.headers = 0, dict[str, str]()

    async def __aenter__(self) -> Self:
        self._to_site.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        site = get_asgi_application()
        self._task = asyncio.ensure_future(site(self._scope, self._to_site.get, self._from_site.put))
        try:
            start = await self._receive()
        except asyncio.CancelledError:
            await self._disconnect()
            raise
        self.status = start["status"]
        self.headers = {name.decode().lower(): text.decode() for name, text in start["headers"]}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._disconnect()

    async def event(self) -> str:
        """Return the next event or comment of the response; "" after the last one."""
        while "\n\n" not in self._text and not self._is_complete:
            part = await self._receive()
            self._text += part["body"].decode()
            self._is_complete = not part.get("more_body")
        event, _, self._text = self._text.partition("\n\n")
        return event

    async def _disconnect(self) -> None:
        self._to_site.put_nowait({"type": "http.disconnect"})
        async with asyncio.timeout(TIMEOUT_S):
            await self._task

    async def _receive(self) -> dict[str, Any]:
        async with asyncio.timeout(TIMEOUT_S):
            return await self._from_site.get()
