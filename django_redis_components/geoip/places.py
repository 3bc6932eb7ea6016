"""Places, and addresses in the form in which they are looked up."""

from __future__ import annotations

import socket
from bisect import bisect_right
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import NamedTuple

from django_redis_components.core.client_address import bare_address

#: The country code of an address without a known place: reserved in ISO 3166 for users' own purposes.
UNKNOWN_COUNTRY = "ZZ"
#: The first 12 bytes of an IPv4 address as an IPv6 one, ``::ffff:0:0/96``.
_IPV4_MAPPED = b"\0" * 10 + b"\xff\xff"
#: Networks of addresses that are not routed on the internet, from IANA's registries of special-purpose addresses.
_SPECIAL_NETWORKS = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
    "::/80", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7",
    "fe80::/10", "ff00::/8",
)  # fmt: skip

#: An IP address: text in any notation, or the standard library's types.
Address = str | IPv4Address | IPv6Address


class Place(NamedTuple):
    """Where an address is.

    Attributes:
        country: ISO 3166 code of two letters; ``"ZZ"`` if it is unknown.
        region: name of the state or province; "" if it is unknown.
        city: its name; "" if it is unknown.
    """

    country: str
    region: str = ""
    city: str = ""


#: The place of private addresses, of addresses in gaps between ranges, and of text that is no address.
UNKNOWN = Place(UNKNOWN_COUNTRY)


def pack(address: object) -> bytes | None:
    """Return the 16 bytes of an address, IPv4 as IPv4-mapped IPv6; None if it is none. Never asks the DNS."""
    if isinstance(address, IPv4Address):
        return _IPV4_MAPPED + address.packed
    if isinstance(address, IPv6Address):
        return address.packed
    if not isinstance(address, str):
        return None
    try:
        if ":" in address:
            return socket.inet_pton(socket.AF_INET6, address)
        return _IPV4_MAPPED + socket.inet_pton(socket.AF_INET, address)
    except (OSError, ValueError):  # ValueError: a null character, or text that is not ASCII
        return None


def pack_public(address: object) -> bytes | None:
    """Return the 16 bytes of an address that is routed on the internet; None for others and for other text.

    Text may have the forms that `bare_address` knows.
    """
    packed = pack(_bare(address))
    if packed is None:
        return None
    index = bisect_right(_STARTS, packed) - 1
    return None if index >= 0 and packed <= _ENDS[index] else packed


def public_address(address: Address) -> str | None:
    """Return an address as a database file has it, IPv4 also inside of IPv6; None if it is not public."""
    packed = pack_public(address)
    return None if packed is None else unpacked(packed)


def _bare(address: object) -> str | None:
    if isinstance(address, IPv4Address | IPv6Address):
        return bare_address(str(address))
    return bare_address(address) if isinstance(address, str) else None


def is_ipv4(packed: bytes) -> bool:
    """Return whether 16 bytes are an IPv4 address."""
    return packed.startswith(_IPV4_MAPPED)


def unpacked(packed: bytes) -> str:
    """Return the text of 16 bytes."""
    if is_ipv4(packed):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def _bounds() -> tuple[list[bytes], list[bytes]]:
    networks = [ip_network(text) for text in _SPECIAL_NETWORKS]
    pairs = sorted((pack(each[0]) or b"", pack(each[-1]) or b"") for each in networks)
    return [start for start, _ in pairs], [end for _, end in pairs]


_STARTS, _ENDS = _bounds()
