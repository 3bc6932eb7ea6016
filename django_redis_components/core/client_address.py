"""The address of a visitor, behind proxies that the site trusts."""

from __future__ import annotations

import ipaddress
import logging
import re
from typing import TYPE_CHECKING

from django_redis_components.core import conf

if TYPE_CHECKING:
    from django.http import HttpRequest

#: How many leading bits of an IPv6 address belong to one customer: whoever has one address has at least all of these.
IPV6_BITS = 64

#: What `REMOTE_ADDR` is when the server, or the proxy in front of it, listens on a Unix socket.
NO_ADDRESS = ("", "unix:")

_log = logging.getLogger("django_redis_components.addresses")

#: Whether the missing address was logged. One line in a process is enough: each request would write it.
_logged: list[bool] = []
conf.on_change(_logged.clear)

#: An address with a port, as some proxies write it: 192.0.2.1:4711 or [2001:db8::1]:4711.
_WITH_PORT = re.compile(r"\[(.+)\](?::\d+)?|([\d.]+):\d+")


def client_address(request: HttpRequest, trusted_proxies: int | None = None) -> str:
    """The visitor's address: what the outermost trusted proxy saw.

    Each proxy appends the address it was called from to ``X-Forwarded-For``. What stands further to
    the left was sent by the visitor, and may be anything. `META` is read at each call: a middleware may change it,
    and `request.headers` keeps what it was at its first use. If there is no address, a warning is logged once.

    Args:
        trusted_proxies: how many proxies in front of the site are its own; None: `TRUSTED_PROXIES`.
    """
    proxies = conf.settings().trusted_proxies if trusted_proxies is None else trusted_proxies
    remote: str = request.META.get("REMOTE_ADDR") or ""
    address = remote
    if proxies:
        forwarded: str = request.META.get("HTTP_X_FORWARDED_FOR") or ""
        chain = [*(part.strip() for part in forwarded.split(",") if part.strip()), remote]
        address = chain[max(0, len(chain) - 1 - proxies)]
    if address in NO_ADDRESS and not _logged:
        _logged.append(True)
        _log.warning(
            "REMOTE_ADDR is %r and X-Forwarded-For gives no address (TRUSTED_PROXIES = %d): visitors without an "
            "address share one limit and count as one. Behind a Unix socket, have the proxy send X-Forwarded-For and "
            'set REDIS_COMPONENTS["TRUSTED_PROXIES"] to the number of proxies.',
            request.META.get("REMOTE_ADDR"),
            proxies,
        )
    return address


def client_network(address: str) -> str:
    """What an address is limited by: an IPv4 address itself, the first 64 bits of an IPv6 address.

    Other text, which only a proxy can have written, is returned as it is.
    """
    found = _WITH_PORT.fullmatch(address)
    bare = (found[1] or found[2]) if found else address
    try:
        parsed = ipaddress.ip_address(bare.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_BITS), strict=False))
