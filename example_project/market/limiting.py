"""How often a visitor may try to sign in, and ask for suggestions.

A sign-in is counted before the password is looked at, by address and by name, and given back when it was right: what
is limited is guessing. Both limits are needed: one address may try many names, and many addresses may try one name.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest

from django_redis_components.ratelimits import Decision, RateLimit
from django_redis_components.ratelimits.request_keys import request_key

#: Wrong passwords from one address. An office, or all visitors of this demo, may share one: it is the wider limit.
BY_ADDRESS = RateLimit("sign-ins from an address", "30/m", "300/h")

#: Wrong passwords for one name, in any case, whether there is a member of this name or not.
BY_NAME = RateLimit("sign-ins of a name", "5/m", "30/h")

#: Questions of the autocomplete widget, which asks while somebody types.
SUGGESTIONS = ("20/s", "300/m")


def attempt(request: HttpRequest, name: str) -> Decision:
    """Count a try to sign in; the answer of the limit that denies it, or that of the last one."""
    counted = []
    for limit, key in _limits(request, name):
        decision = limit.hit(key, request=request)
        if not decision:
            for earlier, its_key in counted:  # what is denied shall count nowhere
                earlier.refund(its_key)
            break
        counted.append((limit, key))
    return decision


def succeeded(request: HttpRequest, name: str) -> None:
    """The password was right: the try does not count."""
    for limit, key in _limits(request, name):
        limit.refund(key)


def _limits(request: HttpRequest, name: str) -> Iterator[tuple[RateLimit, str]]:
    yield BY_ADDRESS, request_key("ip", request)
    yield BY_NAME, name.strip().casefold()
