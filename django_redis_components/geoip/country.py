"""The country of an address as a plain function, for settings that take a dotted path."""

from __future__ import annotations

import functools
import threading
import time

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.geoip.lookup import IpLookup, lookup_flow
from django_redis_components.geoip.mmdb import mmdb_file
from django_redis_components.geoip.places import UNKNOWN_COUNTRY, pack_public, unpacked

#: Addresses whose country a process remembers, about 250 bytes each.
CACHE_SIZE = 10_000
#: Seconds for which a country is remembered: new ranges are used after that time.
CACHE_TTL_S = 300.0
#: Longest delay of a page by a look-up in Redis, in seconds.
TIMEOUT_S = 0.25

#: Packed address -> period of the look-up, and country. The one looked up longest ago is the first.
_cache: dict[bytes, tuple[int, str]] = {}
_mutex = threading.Lock()


def country_of(ip: str) -> str:
    """Return the country code of an address, "ZZ" if it is unknown.

    The source is ``REDIS_COMPONENTS["GEOIP"]``: the database file `MMDB`, or the ranges "default" in Redis.
    Countries from Redis are remembered for up to 5 minutes, and longer while Redis is unavailable or slow; then those
    that are not remembered are "ZZ". A view on an event loop should use the file: a look-up in Redis blocks it for up
    to 0.25 s.

    Raises:
        DatabaseUnavailable: the database file is missing or damaged.
    """
    packed = pack_public(ip)
    if packed is None:
        return UNKNOWN_COUNTRY
    if (path := conf.settings().geoip.mmdb) is not None:
        return mmdb_file(path).place(unpacked(packed)).country
    period, cached = int(time.monotonic() // CACHE_TTL_S), _cache.get(packed)
    if cached is not None and cached[0] == period:
        return cached[1]
    country = _look_up(packed)
    if country is None:
        return UNKNOWN_COUNTRY if cached is None else cached[1]
    with _mutex:
        _cache.pop(packed, None)
        _cache[packed] = period, country
        if len(_cache) > CACHE_SIZE:
            del _cache[next(iter(_cache))]
    return country


def _look_up(packed: bytes) -> str | None:
    """Look a country up in Redis; None if Redis is skipped or does not answer."""
    using = conf.settings().geoip.using
    try:
        [place] = run(connections.page_client(using, TIMEOUT_S), lookup_flow(_ranges(using), [unpacked(packed)]))
    except RedisError:
        return None
    return place.country


@functools.cache
def _ranges(using: str) -> IpLookup:
    return IpLookup(source="ranges", using=using)


conf.on_change(_cache.clear)


def _after_fork() -> None:
    global _mutex
    _mutex = threading.Lock()


after_fork_in_child(_after_fork)
