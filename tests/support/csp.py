"""Serve every page of the tests with a strict Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

#: Nothing inline, nothing from other origins. The admin's stylesheets have icons as ``data:`` images.
BASE = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
#: And no text becomes markup or code: the browser rejects assignments to innerHTML and the like.
POLICY = f"{BASE}; require-trusted-types-for 'script'; trusted-types django-redis-components"
#: In pages with it Trusted Types cannot be required: the jQuery of Django's own change forms assigns innerHTML.
JQUERY = b"admin/js/vendor/jquery/"


class StrictContentSecurityPolicy:
    """Add the header to all responses. First in MIDDLEWARE."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        has_jquery = not response.streaming and JQUERY in response.content
        response["Content-Security-Policy"] = BASE if has_jquery else POLICY
        return response
