"""Where a view comes from: the site that links here, the campaign, and the kind of device. Without Redis."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.core.exceptions import DisallowedHost

if TYPE_CHECKING:
    from django.http import HttpRequest

#: Maximum characters of a value; longer ones are not counted.
MAX_VALUE = 100
#: Most characters of a User-Agent that are looked at and kept. Browsers send up to about 400.
MAX_AGENT_CHARS = 512
#: Scheme and host of a URL, which are cached without the rest.
_ORIGIN = re.compile(r"https?://[^/?#\s]{1,200}(?=[/?#\s]|$)", re.IGNORECASE)
#: A host name or an address.
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]")
_TABLET = re.compile(r"ipad|tablet|kindle|silk/|playbook|android(?!.*mobi)")


def referrer(request: HttpRequest) -> str | None:
    """Return the host of the other site that links here, without "www."; None without one or for this site itself."""
    header = request.META.get("HTTP_REFERER", "")
    if not header:
        return None
    try:
        own = _bare(request.get_host())
    except DisallowedHost:
        return None
    origin = _ORIGIN.match(header)
    host = None if origin is None else _host_of(origin[0])
    return None if host is None or host == own else host


def user_agent(request: HttpRequest) -> str:
    """Return the User-Agent, truncated: it is cached, and kept while Redis is unavailable."""
    header: str = request.META.get("HTTP_USER_AGENT", "")
    return header[:MAX_AGENT_CHARS]


def utm_source(request: HttpRequest) -> str | None:
    """Return the campaign's ``utm_source`` in lower case; None without one."""
    if "utm_source=" not in request.META.get("QUERY_STRING", ""):
        return None
    value = request.GET.get("utm_source", "").strip().lower()
    return value if 0 < len(value) <= MAX_VALUE and value.isprintable() else None


def device(request: HttpRequest) -> str:
    """Return "desktop", "mobile", "tablet" or "other", by the client hint or the User-Agent."""
    if request.META.get("HTTP_SEC_CH_UA_MOBILE") == "?1":
        return "mobile"
    return _device_of(user_agent(request))


@lru_cache(maxsize=1_000)
def _device_of(agent: str) -> str:
    lower = agent.lower()
    if _TABLET.search(lower):
        return "tablet"
    if "mobi" in lower or "iphone" in lower:
        return "mobile"
    return "desktop" if any(system in lower for system in ("windows", "macintosh", "x11", "cros")) else "other"


@lru_cache(maxsize=1_000)
def _host_of(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
        host = _bare(parts.netloc.rpartition("@")[2])
    except ValueError:
        return None
    fits = parts.scheme in ("http", "https") and len(host) <= MAX_VALUE and _HOST.fullmatch(host)
    return host if fits else None


def _bare(netloc: str) -> str:
    """Return a host in lower case, without port, "www." and the dot of a full name."""
    host = netloc.lower()
    if not host.endswith("]"):
        host = host.rpartition(":")[0] if ":" in host else host
    return host.removesuffix(".").removeprefix("www.")
