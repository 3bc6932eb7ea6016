"""Aggregation: the places of IP addresses, and counts of log lines by day.

Guarantees:

- An address in no range, a private one and text that is no address have the unknown place, country "ZZ". Nothing is
  resolved by DNS.
- Ranges are replaced in one step: a look-up sees all ranges of the former load or all of the new one.

Keys:

==========================================  ======  ==========================================================
``<prefix>:aggregation:{<name>}:ip``        hash    the loaded ranges: generation, numbers, source; no TTL
``…:ip:<generation>``                       zset    blocks of 64 ranges; no TTL once they are in use, 15
                                                    minutes while they are loaded, or after they were replaced
==========================================  ======  ==========================================================

Example::

    from django_redis_components.aggregation import IpLookup, IpRange, Place

    places = IpLookup("example", source="ranges")
    places.load([IpRange("8.8.8.0", "8.8.8.255", Place("US", "California", "Mountain View"))])
    assert places.lookup("8.8.8.8").country == "US"
    assert places.lookup("192.168.0.1").country == "ZZ"

See also: docs/components/aggregation.md; ``AGGREGATION`` in `core.sections` for the settings.
"""

from __future__ import annotations

from django_redis_components.aggregation.blocks import IpRange
from django_redis_components.aggregation.country import country_of
from django_redis_components.aggregation.exceptions import (
    AggregationError,
    DatabaseUnavailable,
    InvalidRange,
    RangesLoadExpired,
)
from django_redis_components.aggregation.ip_lookup import IpLookup, RangesInfo
from django_redis_components.aggregation.places import UNKNOWN, Place

__all__ = [
    "UNKNOWN",
    "AggregationError",
    "DatabaseUnavailable",
    "InvalidRange",
    "IpLookup",
    "IpRange",
    "Place",
    "RangesInfo",
    "RangesLoadExpired",
    "country_of",
]
