"""The places of IP addresses: from a database file, or from ranges in Redis.

Guarantees:

- An address in no range, a private one and text that is no address have the unknown place, country "ZZ". Nothing is
  resolved by DNS.
- Ranges are replaced in one step: a look-up sees all ranges of the former load or all of the new one. A load without
  ranges is refused.

Keys:

==================================  ======  ==================================================================
``<prefix>:geoip:{<name>}``         hash    the loaded ranges: generation, numbers, source; no TTL
``…:<generation>``                  zset    blocks of 64 ranges; no TTL once they are in use, 15 minutes while
                                            they are loaded, or after they were replaced
==================================  ======  ==================================================================

Example::

    from django_redis_components.geoip import IpLookup, IpRange, Place

    places = IpLookup("example", source="ranges")
    places.load([IpRange("8.8.8.0", "8.8.8.255", Place("US", "California", "Mountain View"))])
    assert places.lookup("8.8.8.8").country == "US"
    assert places.lookup("192.168.0.1").country == "ZZ"

See also: docs/components/geoip.md; ``GEOIP`` in `core.sections` for the settings.
"""

from __future__ import annotations

from django_redis_components.geoip.blocks import IpRange
from django_redis_components.geoip.country import country_of
from django_redis_components.geoip.exceptions import DatabaseUnavailable, GeoIpError, InvalidRange, RangesLoadExpired
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
    "RangesLoadExpired",
    "country_of",
]
