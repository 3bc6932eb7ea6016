"""Access to the views for monitoring systems: with a bearer token, or public; 404 unless the settings allow it."""

from __future__ import annotations

import dataclasses

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """What a request may see.

    Attributes:
        has_token: whether it sent the token; else the view is public.
    """

    has_token: bool


def access_of(request: HttpRequest) -> Access | None:
    """Return the access of a request; None if it is refused.

    Raises:
        Http404: the views are off, or the settings are invalid.
    """
    try:
        settings = conf.settings().monitoring
    except ConfigurationError:
        raise Http404 from None
    if settings.token is None and not settings.public:
        raise Http404
    has_token = settings.token is not None and _sends(request, settings.token)
    return Access(has_token) if has_token or settings.public else None


def refusal() -> HttpResponse:
    """Return the response to a request without the token."""
    return HttpResponse("401 Unauthorized\n", "text/plain", status=401, headers={"WWW-Authenticate": "Bearer"})


def _sends(request: HttpRequest, token: str) -> bool:
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    return kind.lower() == "bearer" and constant_time_compare(value.strip(), token)
