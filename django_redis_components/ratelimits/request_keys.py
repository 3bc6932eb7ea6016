"""The key of a request: its client's address, its user, or either.

Each kind has its own prefix, so that user 7 never shares a limit with other text "7".
"""

from __future__ import annotations

import sys
from typing import Any, cast

from django.http import HttpRequest

from django_redis_components.core.client_address import client_address, client_network

#: The kinds of key that `key` may name.
KEY_KINDS = ("ip", "user", "user_or_ip")


def is_request(value: Any) -> bool:
    """Return whether this is a request of Django, or one of Django REST framework, which wraps it."""
    return isinstance(value, HttpRequest) or _is_drf_request(value)


def django_request(request: Any) -> HttpRequest:
    """Return Django's request, unwrapped if it is one of Django REST framework."""
    return cast(HttpRequest, request._request if _is_drf_request(request) else request)


def request_key(kind: str, request: Any, address: str | None = None) -> str:
    """Return the key of a request.

    With "user", all anonymous users share one key; "user_or_ip" keeps them apart by address. The user of a request of
    Django REST framework is the one that its authentication classes returned.

    Args:
        kind: one of `KEY_KINDS`.
        address: the client's address; None reads it with `client_address`.
    """
    return _key(kind, request, None if kind == "ip" else getattr(request, "user", None), address)


async def arequest_key(kind: str, request: Any, address: str | None = None) -> str:
    """See `request_key`."""
    auser = None if kind == "ip" or _is_drf_request(request) else getattr(request, "auser", None)
    return request_key(kind, request, address) if auser is None else _key(kind, request, await auser(), address)


def _key(kind: str, request: Any, user: Any, address: str | None) -> str:
    if user is not None and user.is_authenticated:
        return f"user:{user.pk}"
    return (
        "user:" if kind == "user" else f"ip:{client_network(client_address(request) if address is None else address)}"
    )


def _is_drf_request(value: Any) -> bool:
    # No import: before the framework is imported, none of its requests exist.
    framework = sys.modules.get("rest_framework.request")
    return framework is not None and isinstance(value, framework.Request)
