"""Expiry: cached return values, and jittered TTLs that prevent simultaneous expiry.

`cached` caches what a function returns. Guarantees: among all processes and threads one caller computes a value at a
time, and the others wait for it and receive it. With `early` one caller recomputes the value before it expires, and
the others do not wait. A caller that dies delays the waiters by `lease` at most, and no caller waits longer than twice
that. Exceptions are not cached: they are raised in the call that computed, and one of the waiters computes next, also
if the call was cancelled or interrupted at any point. `invalidate` is final: a value that is being computed from older
data is not stored.

Limits. A value may be computed more than once: work that takes longer than `lease` may be started by a second caller
concurrently.

`jitter` shortens a duration by a random share. `django_redis_components.expiry.cache.JitteredRedisCache` does so with
every timeout of a Django cache: values that were loaded together do not expire together.

Keys, all in the slot of ``{name}``:

=============================================  ======  ==============================================================
``drc:expiry:{name}``                          hash    body, computing time, expiry time; TTL: `timeout` less jitter
``drc:expiry:{name}:lease``                    hash    computing caller, end of its lease, waiters; ten times `lease`
``drc:expiry:{name}:lease:wakeup:<token>``     list    wakeup key of the waiters; 2 s
``drc:expiry:{name}:lease:cancelled:<token>``  string  the call was interrupted, a late request is rejected; 5 s
=============================================  ======  ==============================================================

Example::

    from django_redis_components.expiry import cached, jitter

    @cached("report:{year}", ttl=3600)
    def report(year: int) -> dict[str, int]:
        return {"year": year, "sold": 7}

    print(report(2026), report.invalidate(2026), jitter(60, spread=0.5))

See also: docs/components/expiry.md; `django_redis_components.locks` for work without a result to cache.
"""

from __future__ import annotations

from django_redis_components.expiry.decorator import CachedFunction, cached
from django_redis_components.expiry.jitter import jitter

__all__ = ["CachedFunction", "cached", "jitter"]
