"""The IP address of a visitor, behind trusted proxies."""

from __future__ import annotations

import ipaddress
import logging
import re
from typing import TYPE_CHECKING

from django_redis_components.core import conf

if TYPE_CHECKING:
    from django.http import HttpRequest

#: Prefix length of an IPv6 network. Providers assign at least a /64 to each customer.
IPV6_PREFIX = 64

#: Values of `REMOTE_ADDR` when the server, or the proxy in front of it, listens on a Unix socket.
NO_ADDRESS = ("", "unix:")

_log = logging.getLogger("django_redis_components.addresses")

#: Not empty once a missing address was logged: one line per process, not one per request.
_logged: list[bool] = []
conf.on_change(_logged.clear)

#: An address with a port, as some proxies write it: 192.0.2.1:4711 or [2001:db8::1]:4711.
_WITH_PORT = re.compile(r"\[(.+)\](?::\d+)?|([\d.]+):\d+")


def client_address(request: HttpRequest, trusted_proxies: int | None = None) -> str:
    """Return the visitor's address, as seen by the outermost trusted proxy.

    Each proxy appends the address of its client to ``X-Forwarded-For``. The entries further to the left come from the
    visitor and cannot be trusted. `META` is read on each call, because a middleware may change it and `request.headers`
    is cached. Without an address, a warning is logged once.

    Args:
        trusted_proxies: number of proxies in front of the site that it trusts; None: `TRUSTED_PROXIES`.
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
    """Return the network that counts as one visitor: an IPv4 address, or the /64 of an IPv6 address.

    Text that is not an address, which only a proxy can have sent, is returned unchanged.
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
    return str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))
