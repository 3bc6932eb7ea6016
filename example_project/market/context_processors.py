"""What the templates of all pages can use."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest

from example_project.market import sale_chats


def unread_messages(request: HttpRequest) -> dict[str, Callable[[], int | None]]:
    """Add ``unread_messages``, which is read from Redis only by templates that show it."""
    return {"unread_messages": lambda: sale_chats.unread_total(request.user)}
