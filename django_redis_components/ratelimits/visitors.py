"""Who makes a request: an address, a user, or what both give.

Each has a beginning of its own, so that user 7 and somebody who calls himself "7" never share a limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_redis_components.core.addresses import client_address, household

if TYPE_CHECKING:
    from django.http import HttpRequest

#: What `key` may say in a word.
WORDS = ("ip", "user", "user_or_ip")


def visitor(word: str, request: HttpRequest) -> str:
    """The key of a request by a word.

    With "user", all who are not signed in share one key: where they shall not, "user_or_ip" is meant.
    """
    return _key(word, request, None if word == "ip" else getattr(request, "user", None))


async def avisitor(word: str, request: HttpRequest) -> str:
    """See `visitor`."""
    if word == "ip":
        return _key(word, request, None)
    asked = getattr(request, "auser", None)
    return _key(word, request, getattr(request, "user", None) if asked is None else await asked())


def _key(word: str, request: HttpRequest, user: Any) -> str:
    if user is not None and user.is_authenticated:
        return f"user:{user.pk}"
    return "user:" if word == "user" else f"ip:{household(client_address(request))}"
