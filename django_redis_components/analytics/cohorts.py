"""Cohorts and funnels: what the users of one period did later."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import date

from django_redis_components.analytics import periods
from django_redis_components.analytics.events import Events
from django_redis_components.analytics.expressions import UserSet, count_all
from django_redis_components.analytics.periods import Unit
from django_redis_components.core.arguments import check_instance, check_int
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, arun, run

#: Rows and columns of a table of cohorts.
MAX_PERIODS = 53


@dataclasses.dataclass(frozen=True, slots=True)
class Cohort:
    """The users of one period.

    Attributes:
        start: of the period.
        size: users who did the first thing in it.
        later: of these, users who did the other thing in that period, in the next one, and so on.
    """

    start: date
    size: int
    later: tuple[int, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The later ones as parts of the size; 0 for an empty cohort."""
        return tuple(count / self.size if self.size else 0.0 for count in self.later)


def cohorts(
    first: Events, later: Events, periods: int = 8, *, unit: Unit = "week", end: date | None = None
) -> list[Cohort]:
    """Return a row for each period: its users of the first event, and how many of them did the later one then.

    Args:
        unit: length of a period, which both events keep.
        periods: number of rows, up to 53; each row ends with the period of `end`.
        end: a day of the last period; today if None.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    return check_events(first, "first")._run(cohorts_flow(first, later, unit, periods, end))


async def acohorts(
    first: Events, later: Events, periods: int = 8, *, unit: Unit = "week", end: date | None = None
) -> list[Cohort]:
    """See `cohorts`."""
    return await check_events(first, "first")._arun(cohorts_flow(first, later, unit, periods, end))


def funnel(*steps: UserSet) -> list[int]:
    """Return how many users are in the first set, in the first two, and so on. Their order in time is not looked at.

    Raises:
        ValueError: there is no set, or the sets are not of one site.
    """
    return run(connections.client(_using(steps)), count_all(_narrowed(steps)))


async def afunnel(*steps: UserSet) -> list[int]:
    """See `funnel`."""
    return await arun(connections.aclient(_using(steps)), count_all(_narrowed(steps)))


def check_events(value: object, what: str) -> Events:
    """Return an argument that is an `Events`; see `check_instance`."""
    return check_instance(value, what, Events, "an Events object")


def cohorts_flow(first: Events, later: Events, unit: Unit, count: int, end: date | None) -> Flow[list[Cohort]]:
    """Return the flow of `cohorts`, in one round trip."""
    check_events(later, "later")
    check_int(count, "periods", 1, MAX_PERIODS)
    periods.check_unit(unit)
    last = periods.start_of(unit, end)
    starts = [periods.following(unit, last, number - count + 1) for number in range(count)]
    rows = [(start, starts[number:]) for number, start in enumerate(starts)]
    sets = []
    for start, following in rows:
        members = first.period(unit=unit, at=start)
        sets += [members, *(members & later.period(unit=unit, at=each) for each in following)]
    counts = iter((yield from count_all(sets)))
    return [Cohort(start, next(counts), tuple(next(counts) for _ in following)) for start, following in rows]


def _using(steps: Sequence[UserSet]) -> str:
    if not steps:
        raise ValueError("funnel() without steps: expected sets of users.")
    for number, step in enumerate(steps):
        check_instance(step, f"steps[{number}]", UserSet, "a set of users, such as Events(…).day()")
    return steps[0].using


def _narrowed(steps: Sequence[UserSet]) -> list[UserSet]:
    found = [steps[0]]
    for step in steps[1:]:
        found.append(found[-1] & step)
    return found
