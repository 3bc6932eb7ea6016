"""Expiry: values that are kept for a while, and do not all end at the same moment.

`cached` keeps what a function returns. Guarantees: among all processes and threads one computes a value at
a time, and the others wait for it and get it; with `early` one caller renews it before it ends, so that
nobody waits. Who computes and dies holds the others up for `lease` at most, and nobody waits longer than twice
that. An error is not kept: it is raised in the call that computed, and one of those who wait computes next, also
when the call was cancelled or interrupted, at any point.
`forget` is final: what is being computed of older data is not kept.

Not guaranteed: that a value is computed only once, ever. Work that takes longer than `lease` may be begun by a
second caller beside the first.

`jitter` shortens a duration by a random share, and `django_redis_components.expiry.cache.JitteredRedisCache` does so
with every timeout of a Django cache: what was loaded together is not missed together.

Keys, all in the slot of ``{name}``:

==========================================  ======  ============================================================
``drc:expiry:{name}``                       hash    body, how long it took, and its end; lives for `timeout`
``drc:expiry:{name}:flight``                hash    who computes, until when others wait; ten times `lease`
``drc:expiry:{name}:flight:bell:<token>``   list    wakes those who wait; 2 s
``drc:expiry:{name}:flight:void:<token>``   string  its call was interrupted, a late request is refused; 5 s
==========================================  ======  ============================================================

Example::

    from django_redis_components.expiry import cached, jitter

    @cached("report:{year}", timeout=3600)
    def report(year: int) -> dict[str, int]:
        return {"year": year, "sold": 7}

    print(report(2026), report.forget(2026), jitter(60, spread=0.5))

See also: docs/components/expiry.md; `django_redis_components.locks` for work whose result is not kept.
"""

from __future__ import annotations

from django_redis_components.expiry.decorator import CachedFunction, cached
from django_redis_components.expiry.spreading import jitter

__all__ = ["CachedFunction", "cached", "jitter"]
