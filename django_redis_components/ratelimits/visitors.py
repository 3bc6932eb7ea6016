"""Who makes a request: an address, a user, or what both give.

Each has a beginning of its own, so that user 7 and somebody who calls himself "7" never share a limit.
"""

from __future__ import annotations

import sys
from typing import Any, cast

from django.http import HttpRequest

from django_redis_components.core.client_address import client_address, client_network

#: What `key` may say in a word.
WORDS = ("ip", "user", "user_or_ip")


def is_request(value: Any) -> bool:
    """Whether this is a request of Django, or one of Django REST framework, which wraps it."""
    return isinstance(value, HttpRequest) or _is_wrapped(value)


def django_request(request: Any) -> HttpRequest:
    """Django's own request, also of one of Django REST framework."""
    return cast(HttpRequest, request._request if _is_wrapped(request) else request)


def visitor(word: str, request: Any, address: str | None = None) -> str:
    """The key of a request by a word.

    With "user", all who are not signed in share one key: where they shall not, "user_or_ip" is meant. The user of a
    request of Django REST framework is the one that its authentication classes found.

    Args:
        address: the visitor's, if something else than `client_address` knows it.
    """
    return _key(word, request, None if word == "ip" else getattr(request, "user", None), address)


async def avisitor(word: str, request: Any) -> str:
    """See `visitor`."""
    asked = None if word == "ip" or _is_wrapped(request) else getattr(request, "auser", None)
    return visitor(word, request) if asked is None else _key(word, request, await asked(), None)


def _key(word: str, request: Any, user: Any, address: str | None) -> str:
    if user is not None and user.is_authenticated:
        return f"user:{user.pk}"
    return (
        "user:" if word == "user" else f"ip:{client_network(client_address(request) if address is None else address)}"
    )


def _is_wrapped(value: Any) -> bool:
    # Without an import: there are none of these requests before the framework itself was imported.
    framework = sys.modules.get("rest_framework.request")
    return framework is not None and isinstance(value, framework.Request)
