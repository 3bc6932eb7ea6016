"""Test clients that send the User-Agent of a browser, as visitors do."""

from __future__ import annotations

from typing import Any

from django.test import AsyncClient, Client

CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"


class Browser(Client):
    """A client whose requests are those of a visitor."""

    def __init__(self, **defaults: Any) -> None:
        super().__init__(headers={"User-Agent": CHROME}, **defaults)


class AsyncBrowser(AsyncClient):
    """See `Browser`. Default headers of an asynchronous client are not those of its requests."""

    async def get(self, path: str) -> Any:  # type: ignore[override]
        return await super().get(path, headers={"User-Agent": CHROME})
