"""The country of an address as a plain function, for settings that take a dotted path."""

from __future__ import annotations

import functools
import time

from redis.exceptions import RedisError

from django_redis_components.aggregation.ip_lookup import IpLookup, lookup_flow
from django_redis_components.aggregation.mmdb import mmdb_file
from django_redis_components.aggregation.places import UNKNOWN_COUNTRY, pack_public, unpacked
from django_redis_components.core import conf
from django_redis_components.core.circuit_breaker import CircuitBreaker
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run

#: Addresses whose country a process remembers, about 250 bytes each.
CACHE_SIZE = 10_000
#: Seconds for which a country is remembered: new ranges are used after that time.
CACHE_TTL_S = 300.0
#: Longest delay of a page by a look-up in Redis, in seconds.
TIMEOUT_S = 0.25

_breaker = CircuitBreaker()


def country_of(ip: str) -> str:
    """Return the country code of an address, "ZZ" if it is unknown.

    The source is ``REDIS_COMPONENTS["AGGREGATION"]``: the database file `MMDB`, or the ranges "default" in Redis.
    Countries from Redis are remembered for up to 5 minutes. While Redis is unavailable or slow, countries that are not
    remembered are "ZZ". A view on an event loop should use the file: a look-up in Redis blocks it for up to 0.25 s.

    Raises:
        DatabaseUnavailable: the database file is missing or damaged.
    """
    packed = pack_public(ip)
    if packed is None:
        return UNKNOWN_COUNTRY
    if (path := conf.settings().aggregation.mmdb) is not None:
        return mmdb_file(path).place(unpacked(packed)).country
    started_at = time.monotonic()
    try:
        return _from_ranges(packed, int(started_at // CACHE_TTL_S))
    except (_Skipped, RedisError) as exc:
        if isinstance(exc, RedisError):
            _breaker.record_failure()
        return UNKNOWN_COUNTRY


class _Skipped(Exception):
    """Redis has failed or was slow, and is not asked."""


@functools.lru_cache(CACHE_SIZE)
def _from_ranges(packed: bytes, _period: int) -> str:
    """Look a country up in Redis. The cache keeps no errors; a new period looks up again."""
    if not _breaker.allows_request():
        raise _Skipped
    started_at = time.monotonic()
    using = conf.settings().aggregation.using
    client = connections.client_with_timeout(using, TIMEOUT_S, retries=0)
    [place] = run(client, lookup_flow(_ranges(using), [unpacked(packed)]))
    _breaker.record_success(time.monotonic() - started_at)
    return place.country


@functools.cache
def _ranges(using: str) -> IpLookup:
    return IpLookup(source="ranges", using=using)


def _forget() -> None:
    _breaker.reset()
    _from_ranges.cache_clear()


conf.on_change(_forget)
