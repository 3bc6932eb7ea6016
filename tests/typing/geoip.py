"""Places of IP addresses."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.geoip import IpLookup, IpRange, Place


async def right() -> None:
    assert_type(IpLookup().lookup("192.0.2.1"), Place)
    assert_type(await IpLookup(source="ranges").arebuild([IpRange("192.0.2.0", "192.0.2.9", Place("DE"))]), int)


def wrong() -> None:
    IpLookup(source="file")  # type: ignore[arg-type]
    IpRange("192.0.2.0", "192.0.2.9", "DE")  # type: ignore[arg-type]
    IpLookup().lookup(None)  # type: ignore[arg-type]
