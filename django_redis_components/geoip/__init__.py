"""The places of IP addresses: from a database file, or from ranges in Redis.

Guarantees:

- An address in no range, a private one and text that is no address have the unknown place, country "ZZ". Nothing is
  resolved by DNS.
- Ranges are replaced in one step: a look-up sees all former ranges or all new ones. A rebuild without ranges is
  refused.
- A later rebuild supersedes an earlier one. What a process that was killed has loaded expires.

Keys:

==================================  ======  ==================================================================
``<prefix>:geoip:{<name>}``         hash    the loaded ranges: generation, numbers, source; no TTL
``…:<generation>``                  zset    blocks of 64 ranges; no TTL once they are in use, 15 minutes after
                                            the last block while they are loaded
``…:build``                         string  token of the active rebuild; 15 minutes after its last block
``…:built``                         string  token of the last rebuild that was finished; 10 minutes
==================================  ======  ==================================================================

Example::

    from django_redis_components.geoip import IpLookup, IpRange, Place

    places = IpLookup("example", source="ranges")
    places.rebuild([IpRange("8.8.8.0", "8.8.8.255", Place("US", "California", "Mountain View"))])
    assert places.lookup("8.8.8.8").country == "US"
    assert places.lookup("192.168.0.1").country == "ZZ"

See also: docs/components/geoip.md; ``GEOIP`` in `core.settings.sections` for the settings.
"""

from __future__ import annotations

from django_redis_components.geoip.blocks import IpRange
from django_redis_components.geoip.country import country_of
from django_redis_components.geoip.exceptions import DatabaseUnavailable, GeoIpError, InvalidRange
from django_redis_components.geoip.lookup import IpLookup, RangesInfo
from django_redis_components.geoip.places import UNKNOWN, Place

__all__ = [
    "UNKNOWN",
    "DatabaseUnavailable",
    "GeoIpError",
    "InvalidRange",
    "IpLookup",
    "IpRange",
    "Place",
    "RangesInfo",
    "country_of",
]
