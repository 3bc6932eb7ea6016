"""The retention triangle: how many users of each day signed in on each later day.

Numbers of days that are over change only if a sign-in is added or removed later. `roll_up_retention` stores them, and
such a change deletes the rows that it affects, in the script that makes the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from django_redis_components.analytics import bits
from django_redis_components.analytics.cohorts import Cohort
from django_redis_components.analytics.counter import ttl_ms
from django_redis_components.analytics.dates import local_date, site_date
from django_redis_components.analytics.scripts import EVALUATE, ROLL_UP_RETENTION
from django_redis_components.analytics.signins import SignIns
from django_redis_components.core import keys
from django_redis_components.core.arguments import check_instance, check_int
from django_redis_components.core.keys import day_stamp
from django_redis_components.core.protocol import Batch, Flow, Read

#: Rows of a triangle, and days of a row after its own; the same as in lua/shared/retention_rows.lua.
MAX_DAYS = 60


def retention_triangle(sign_ins: SignIns, *, days: int = 14, end: date | None = None) -> list[Cohort]:
    """Return a row for each day: its users, and how many of them signed in on it, on the next day, and so on.

    It takes one round trip if all is stored, else a second for what is not. Nothing is stored.

    Args:
        days: number of rows, up to 60; each row ends with `end`.
        end: the last day; today if None.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    return _checked(sign_ins)._run(triangle_flow(sign_ins, days, end))


async def aretention_triangle(sign_ins: SignIns, *, days: int = 14, end: date | None = None) -> list[Cohort]:
    """See `retention_triangle`."""
    return await _checked(sign_ins)._arun(triangle_flow(sign_ins, days, end))


def roll_up_retention(sign_ins: SignIns, *, days: int = 30, end: date | None = None) -> int:
    """Store the numbers of a triangle whose days are over, with the TTL of `ANALYTICS["TTL"]`. Idempotent.

    Call it once a day. One row is computed in one step of the server: with 1,000,000 users about 2 ms for 30 days, and
    less for a row that is only continued.

    Args:
        days: rows, up to 60.
        end: the last day, at most yesterday in TIME_ZONE; that if None.

    Returns:
        How many numbers were added.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    return _checked(sign_ins)._run(_roll_up(sign_ins, days, end))


async def aroll_up_retention(sign_ins: SignIns, *, days: int = 30, end: date | None = None) -> int:
    """See `roll_up_retention`."""
    return await _checked(sign_ins)._arun(_roll_up(sign_ins, days, end))


def _checked(sign_ins: object) -> SignIns:
    return check_instance(sign_ins, "sign_ins", SignIns, "a SignIns object")


def triangle_flow(sign_ins: SignIns, days: int, end: date | None) -> Flow[list[Cohort]]:
    """Return the flow of `retention_triangle`."""
    starts = _days_until(local_date(end, "end"), days)
    stored = yield from stored_counts_flow(sign_ins, starts)
    programs = []
    for number, counts in enumerate(stored):
        following = [f"si:d:{day_stamp(day)}" for day in starts[number:]]
        missing = following[len(counts) :]
        programs += [(name,) if name == following[0] else (following[0], name, "&") for name in missing]
    base = keys.key("analytics", sign_ins.name)
    found = iter((yield Batch([EVALUATE(base=base, program=each) for each in programs])) if programs else [])
    rows = []
    for number, (start, counts) in enumerate(zip(starts, stored, strict=True)):
        later = (*counts, *(next(found) for _ in range(days - number - len(counts))))
        rows.append(Cohort(start, later[0], later))
    return rows


def stored_counts_flow(sign_ins: SignIns, starts: Sequence[date]) -> Flow[list[list[int]]]:
    """Return for each day the numbers that are stored of it and of the days up to the last of `starts`, in order."""
    rows = yield Read("MGET", *(_row_key(sign_ins, day) for day in starts))
    return [
        [int(count) for count in (row or b"").split(b",") if count][: len(starts) - number]
        for number, row in enumerate(rows)
    ]


def _roll_up(sign_ins: SignIns, days: int, end: date | None) -> Flow[int]:
    yesterday = site_date() - timedelta(days=1)
    last = yesterday if end is None else min(local_date(end, "end"), yesterday)
    starts, base = _days_until(last, days), keys.key("analytics", sign_ins.name)
    calls = [
        ROLL_UP_RETENTION(
            base=base,
            offset=bits.offset_of(start),
            ttl_ms=ttl_ms(),
            days=[day_stamp(day) for day in starts[number:]],
        )
        for number, start in enumerate(starts)
    ]
    added: list[int] = yield Batch(calls)
    return sum(added)


def _days_until(last: date, count: int) -> list[date]:
    check_int(count, "days", 1, MAX_DAYS)
    bits.offset_of(last, "end")  # raises for a day out of range
    days = [last - timedelta(days=count - 1 - number) for number in range(count)]
    bits.offset_of(days[0], f"end={last} with days={count}: first day")
    return days


def _row_key(sign_ins: SignIns, day: date) -> str:
    return keys.key("analytics", sign_ins.name, "si", "r", str(bits.offset_of(day)))
