"""Who is one visitor: the signed-in user, a first-party cookie, or a hash that only today's salt makes.

==========  ===========================================================================================
``user``    the primary key of the signed-in user; who is not signed in is no visitor
``cookie``  a random id in a cookie of this site; lasts over days, and may need the visitor's consent
``hash``    address and browser, hashed with a random salt of the day; nothing is stored with the visitor,
            and nobody can be followed into the next day
==========  ===========================================================================================

Who sends ``Sec-GPC: 1`` or ``DNT: 1`` is not identified at all.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import date, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.cache import patch_vary_headers

from django_redis_components.analytics.days import stamp
from django_redis_components.core import conf, keys
from django_redis_components.core.addresses import client_address
from django_redis_components.core.protocol import Command, Flow

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

#: The cookie of the policy ``cookie``.
COOKIE = "drc_visitor"
#: Seconds that the cookie lives; browsers allow no more than 400 days.
COOKIE_AGE_S = 400 * 86_400
#: Milliseconds that a day's salt lives: the day, and one more for processes whose clock is late.
SALT_MS = 2 * 86_400 * 1_000

_COOKIE_VALUE = re.compile(r"[0-9a-f]{32}")
#: Salts that this process knows: (connection, key) to (day, salt); today's and yesterday's.
_salts: dict[tuple[str, str], tuple[date, bytes]] = {}

conf.on_change(_salts.clear)


def refuses(request: HttpRequest) -> bool:
    """Whether the visitor asks not to be identified."""
    return "1" in (request.headers.get("Sec-GPC"), request.headers.get("DNT"))


def user_visitor(pk: object) -> bytes | None:
    """The id of a signed-in user; None for somebody who is not."""
    return None if pk is None else f"u:{pk}".encode()


def cookie_visitor(request: HttpRequest, response: HttpResponseBase) -> bytes:
    """The id in the visitor's cookie; a visitor without one gets it with this response."""
    given = request.COOKIES.get(COOKIE, "")
    if _COOKIE_VALUE.fullmatch(given):
        return given.encode()
    fresh = secrets.token_hex(16)
    response.set_cookie(
        COOKIE,
        fresh,
        max_age=COOKIE_AGE_S,
        domain=settings.SESSION_COOKIE_DOMAIN,
        secure=request.is_secure() or settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    patch_vary_headers(response, ("Cookie",))
    return fresh.encode()


def hash_visitor(request: HttpRequest, site: str, using: str, day: date) -> Flow[bytes]:
    """The hash of address and browser under the day's salt."""
    salt = yield from day_salt(site, using, day)
    address = client_address(request, conf.settings().analytics.trusted_proxies)
    text = "\0".join((site, address, request.headers.get("User-Agent", "")))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=salt, digest_size=16).digest()


def day_salt(site: str, using: str, day: date) -> Flow[bytes]:
    """The salt of a day, made by whoever asks first; a process asks once a day.

    It is random and gone after two days, from Redis and from this process: then nobody can tell any
    more which address made a hash.
    """
    key = keys.key("analytics", site, "salt", stamp(day))
    known = _salts.get((using, key))
    if known is not None:
        return known[1]
    fresh = secrets.token_hex(16).encode()
    found: bytes | None = yield Command("SET", key, fresh, "NX", "GET", "PX", SALT_MS, retry=True)
    salt = found or fresh
    for place, (other, _) in list(_salts.items()):
        if other < day - timedelta(days=1):
            _salts.pop(place, None)
    _salts[using, key] = day, salt
    return salt
