"""Identification of visitors: by user, by a first-party cookie, or by a hash with a rotating salt.

===================================================  ==================================================================
``user``                                             the primary key of the signed-in user; anonymous requests are not
                                                     counted as visitors
``cookie``                                           a random id in a cookie of this site; constant over days, may
                                                     require the visitor's consent
``hash``, ``hash:day``, ``hash:week``, ``hash:month``  address and browser, hashed with a random salt of the period;
                                                     nothing is stored in the browser, and visitors cannot be
                                                     recognized after the period
===================================================  ==================================================================

Requests with ``Sec-GPC: 1`` or ``DNT: 1`` are not identified. Requests with the cookie of `opt_out` are not counted.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils import timezone
from django.utils.cache import patch_vary_headers

from django_redis_components.analytics.periods import Unit, following, label, start_of
from django_redis_components.core import keys
from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.protocol import Command, Flow
from django_redis_components.core.settings import conf

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

#: The cookie of the policy ``cookie``.
COOKIE = "drc_visitor"
#: Maximum age of the cookie in seconds; browsers allow at most 400 days.
COOKIE_AGE_S = 400 * 86_400
#: The cookie that excludes a visitor from the counts, and its value.
OPT_OUT_COOKIE, OPTED_OUT = "drc_analytics", "off"
#: Time for which a salt is kept after its period, for batches that were delayed and processes whose clock is behind.
SALT_KEPT = timedelta(days=1)

#: Seconds for which a process caches a salt, even if Redis lost it or the site deleted it.
CACHE_S = 60.0

_COOKIE_VALUE = re.compile(r"[0-9a-f]{32}")
#: Cached salts: (connection, key) to (expiry, salt).
_salts: dict[tuple[str, str], tuple[float, bytes]] = {}


def clear_salts() -> None:
    """Remove all cached salts."""
    _salts.clear()


conf.on_change(clear_salts)
after_fork_in_child(clear_salts)  # the child has no timers that remove them


def opts_out(request: HttpRequest) -> bool:
    """Return whether the visitor opts out of identification."""
    return "1" in (request.META.get("HTTP_SEC_GPC"), request.META.get("HTTP_DNT"))


def is_excluded(request: HttpRequest) -> bool:
    """Return whether the visitor has opted out of being counted."""
    return OPT_OUT_COOKIE in request.META.get("HTTP_COOKIE", "") and request.COOKIES.get(OPT_OUT_COOKIE) == OPTED_OUT


def opt_out(response: HttpResponseBase) -> None:
    """Stop counting this visitor: set the cookie `OPT_OUT_COOKIE`, and delete that of the visitor's id."""
    _set_cookie(response, OPT_OUT_COOKIE, OPTED_OUT, secure=settings.SESSION_COOKIE_SECURE)
    response.delete_cookie(COOKIE, domain=settings.SESSION_COOKIE_DOMAIN, samesite="Lax")


def opt_in(response: HttpResponseBase) -> None:
    """Count this visitor again: delete the cookie of `opt_out`."""
    response.delete_cookie(OPT_OUT_COOKIE, domain=settings.SESSION_COOKIE_DOMAIN, samesite="Lax")


def user_visitor(pk: object) -> bytes | None:
    """Return the id of a signed-in user, or None."""
    return None if pk is None else f"u:{pk}".encode()


def cookie_visitor(request: HttpRequest, response: HttpResponseBase) -> bytes:
    """Return the id in the visitor's cookie; without one, set the cookie in this response."""
    cookie = request.COOKIES.get(COOKIE, "")
    if _COOKIE_VALUE.fullmatch(cookie):
        return cookie.encode()
    fresh = secrets.token_hex(16)
    _set_cookie(response, COOKIE, fresh, secure=request.is_secure() or settings.SESSION_COOKIE_SECURE)
    patch_vary_headers(response, ("Cookie",))
    return fresh.encode()


def hash_id(salt: bytes, site: str, address: str, agent: str) -> bytes:
    """Return the id of a browser at an address: 16 bytes of keyed BLAKE2b."""
    text = f"{site}\0{address}\0{agent}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=salt, digest_size=16).digest()


def read_salt(site: str, using: str, unit: Unit, day: date) -> Flow[bytes]:
    """Return the salt of the day, week or month; the first process generates it. A process reads it once in CACHE_S.

    It is random, and deleted from Redis a day after its period and from each process (idle ones included) after
    CACHE_S. After that, a hash cannot be traced back to an address.
    """
    key = keys.key("analytics", site, "salt", label(unit, day))
    cached = _salts.get((using, key))
    if cached is not None and time.monotonic() < cached[0]:
        return cached[1]
    fresh = secrets.token_hex(16).encode()
    found: bytes | None = yield Command("SET", key, fresh, "NX", "GET", "PX", _salt_ttl_ms(unit, day), retry=True)
    salt = found or fresh
    _cache(using, key, salt)
    return salt


def _salt_ttl_ms(unit: Unit, day: date) -> int:
    """Return the milliseconds until a salt is deleted; at least CACHE_S, for a batch of an older period."""
    end = following(unit, start_of(unit, day)) + SALT_KEPT
    midnight = datetime(end.year, end.month, end.day, tzinfo=timezone.get_default_timezone())
    return int(1_000 * max(midnight.timestamp() - time.time(), CACHE_S))


def _set_cookie(response: HttpResponseBase, name: str, value: str, *, secure: bool) -> None:
    response.set_cookie(
        name,
        value,
        max_age=COOKIE_AGE_S,
        domain=settings.SESSION_COOKIE_DOMAIN,
        secure=secure,
        httponly=True,
        samesite="Lax",
    )


def _cache(using: str, key: str, salt: bytes) -> None:
    """Cache a salt until a timer removes it; in an idle process nothing else would."""
    timer = threading.Timer(CACHE_S, _salts.pop, ((using, key), None))
    timer.daemon, timer.name = True, "remove-salt"
    _salts[using, key] = time.monotonic() + CACHE_S, salt
    try:
        timer.start()
    except RuntimeError:  # no thread available: do not cache
        _salts.pop((using, key), None)
