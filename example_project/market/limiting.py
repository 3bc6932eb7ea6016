"""Rate limits of sign-ins, of autocomplete and of search.

A sign-in is counted by address and by name before the password is checked, and refunded when it succeeds: only
failed attempts are limited. Both limits are needed: one address may try many names, and many addresses may try one
name.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from django.http import HttpRequest

from django_redis_components.ratelimits import Decision, RateLimit
from django_redis_components.ratelimits.request_keys import request_key

#: Failed sign-ins per address. Many users may share an address, so this limit is higher.
BY_ADDRESS = RateLimit("sign-ins from an address", "30/m", "300/h")

#: Failed sign-ins per user name, whether or not the member exists. All spellings that sign in share one limit.
BY_NAME = RateLimit("sign-ins of a name", "5/m", "30/h")

#: Requests of the autocomplete widget, which are sent while the user types.
SUGGESTIONS = ("20/s", "300/m")

#: Requests of the search page, which are sent while the visitor types too.
SEARCHES = ("20/s", "300/m")


def attempt(request: HttpRequest, name: str) -> Decision:
    """Count an attempt to sign in; return the decision of the limit that denies it, or of the last one."""
    counted = []
    for limit, key in _limits(request, name):
        decision = limit.hit(key, request=request)
        if not decision:
            for earlier, its_key in counted:  # a denied attempt must not use up other limits
                earlier.refund(its_key)
            break
        counted.append((limit, key))
    return decision


def succeeded(request: HttpRequest, name: str) -> None:
    """Refund the attempt after a successful sign-in."""
    for limit, key in _limits(request, name):
        limit.refund(key)


def _limits(request: HttpRequest, name: str) -> Iterator[tuple[RateLimit, str]]:
    yield BY_ADDRESS, request_key("ip", request)
    # Django's login form accepts full-width and mathematical letters for a name too (NFKC).
    yield BY_NAME, unicodedata.normalize("NFKC", name).strip().casefold()
