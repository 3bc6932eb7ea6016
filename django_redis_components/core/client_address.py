"""The IP address of a visitor, behind trusted proxies, and the one form in which all components write an address."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf

if TYPE_CHECKING:
    from django.http import HttpRequest

#: Prefix length of an IPv6 network. Providers assign at least a /64 to each customer.
IPV6_PREFIX = 64

#: Values of `REMOTE_ADDR` when the server, or the proxy in front of it, listens on a Unix socket.
NO_ADDRESS = ("", "unix:")

_log = guarded_logger("django_redis_components.addresses")

#: Not empty once a missing address was logged: one line per process, not one per request.
_logged: list[bool] = []
conf.on_change(_logged.clear)

#: Most characters of an address. Other text in its place is truncated: a visitor can have sent it.
MAX_CHARS = 64
#: An address with what proxies write around it: 192.0.2.1:4711, [2001:db8::1]:4711, fe80::1%eth0.
_DECORATED = re.compile(r'"?(?:\[([^\]%]+)(?:%[^\]]*)?\](?::\d+)?|([\d.]+)(?::\d+)?|([^"%]+)(?:%[^"]*)?)"?')
#: The first 12 bytes of IPv6 addresses whose last four are an IPv4 address: IPv4-mapped, IPv4-translated (SIIT), and of
#: a NAT64 translator with the well-known prefix.
_IPV4_PREFIXES = (b"\0" * 10 + b"\xff\xff", b"\0" * 8 + b"\xff\xff\0\0", b"\0\x64\xff\x9b" + b"\0" * 8)
#: The first 6 bytes of the prefixes that a network may choose for its own translator, 64:ff9b:1::/48 (RFC 8215).
_LOCAL_NAT64 = b"\0\x64\xff\x9b\0\1"


def bare_address(address: str) -> str | None:
    """Return the address in a text as all components write it; None if the text is not one address.

    A port, brackets, a zone, quotes and spaces around it are removed. An IPv4 address inside of an IPv6 one
    (``::ffff:192.0.2.1``, ``::ffff:0:192.0.2.1``, and ``64:ff9b::192.0.2.1`` or ``64:ff9b:1::192.0.2.1`` of a NAT64
    translator) is returned as IPv4. Nothing is resolved by DNS.
    """
    try:
        return _normal_form(address)
    except (OSError, ValueError):  # ValueError: a null character, or text that is not ASCII
        match = _DECORATED.fullmatch(address.strip()) if len(address) <= 2 * MAX_CHARS else None
    try:
        return _normal_form(next(filter(None, match.groups()))) if match else None
    except (OSError, ValueError):
        return None


def _normal_form(address: str) -> str:
    if ":" not in address:
        socket.inet_pton(socket.AF_INET, address)  # it accepts the normal form only
        return address
    packed = socket.inet_pton(socket.AF_INET6, address)
    if packed.startswith(_IPV4_PREFIXES) or (packed.startswith(_LOCAL_NAT64) and packed[8:12] == bytes(4)):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def client_address(request: HttpRequest, trusted_proxies: int | None = None) -> str:
    """Return the visitor's address, as seen by the outermost trusted proxy, in the form of `bare_address`.

    Each proxy appends the address of its client to ``X-Forwarded-For``. The entries further to the left come from the
    visitor and cannot be trusted. `META` is read on each call, because a middleware may change it and `request.headers`
    is cached. Without an address, a warning is logged once. Text that is not an address is returned, truncated.

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
    return bare_address(address) or address[:MAX_CHARS]


def client_network(address: str) -> str:
    """Return the network that counts as one visitor: an IPv4 address, or the /64 of an IPv6 address.

    Text that is not an address, which only a proxy can have sent, is returned unchanged.
    """
    bare = bare_address(address)
    if bare is None or ":" not in bare:
        return address if bare is None else bare
    packed = socket.inet_pton(socket.AF_INET6, bare)
    kept = IPV6_PREFIX // 8
    return f"{socket.inet_ntop(socket.AF_INET6, packed[:kept] + bytes(16 - kept))}/{IPV6_PREFIX}"
