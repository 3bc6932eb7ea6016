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
import os
import re
import secrets
import threading
import time
from datetime import date
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.cache import patch_vary_headers

from django_redis_components.analytics.dates import stamp
from django_redis_components.core import conf, keys
from django_redis_components.core.client_address import client_address
from django_redis_components.core.protocol import Command, Flow

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

#: The cookie of the policy ``cookie``.
COOKIE = "drc_visitor"
#: Seconds that the cookie lives; browsers allow no more than 400 days.
COOKIE_AGE_S = 400 * 86_400
#: Milliseconds that a day's salt lives: the day, and one more for processes whose clock is late.
SALT_MS = 2 * 86_400 * 1_000

#: Seconds for which a process keeps a salt. Until then it goes on with one that Redis lost or the site deleted.
KEEP_S = 60.0

_COOKIE_VALUE = re.compile(r"[0-9a-f]{32}")
#: Salts that this process knows: (connection, key) to (when it is asked for again, salt).
_salts: dict[tuple[str, str], tuple[float, bytes]] = {}

conf.on_change(_salts.clear)
os.register_at_fork(after_in_child=_salts.clear)  # the child has no thread that forgets them


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
    """The salt of a day, made by whoever asks first; a process asks once in KEEP_S.

    It is random and gone after two days from Redis, and after KEEP_S from this process, also from an idle one: then
    nobody can tell any more which address made a hash.
    """
    key = keys.key("analytics", site, "salt", stamp(day))
    known = _salts.get((using, key))
    if known is not None and time.monotonic() < known[0]:
        return known[1]
    fresh = secrets.token_hex(16).encode()
    found: bytes | None = yield Command("SET", key, fresh, "NX", "GET", "PX", SALT_MS, retry=True)
    salt = found or fresh
    _keep(using, key, salt)
    return salt


def _keep(using: str, key: str, salt: bytes) -> None:
    """Keep a salt until a thread forgets it: an idle process runs nothing else that could."""
    timer = threading.Timer(KEEP_S, _salts.pop, ((using, key), None))
    timer.daemon, timer.name = True, "forget-salt"
    _salts[using, key] = time.monotonic() + KEEP_S, salt
    try:
        timer.start()
    except RuntimeError:  # there may be no more threads, so it is asked for each time
        _salts.pop((using, key), None)
