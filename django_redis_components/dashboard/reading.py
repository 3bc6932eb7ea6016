"""The snapshot: everything that the page shows, read at one moment."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.analytics import Estimate, SignIns, UniqueVisitors
from django_redis_components.analytics.dates import site_date
from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Flow, run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.counting import Cost, CountingDoor
from django_redis_components.dashboard.together import Outcome, together
from django_redis_components.taskqueue.schedules import status as timetable
from django_redis_components.taskqueue.stats import overview as inspect

logger = logging.getLogger("django_redis_components.dashboard")

#: Days in the charts, today included.
DAYS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class Visitors:
    """Visitors by day, and of all the days together (`Estimate.exact_range` says what that means)."""

    name: str
    days: dict[date, Estimate]
    range: Estimate


@dataclasses.dataclass(frozen=True, slots=True)
class SignInDays:
    """Users who signed in, by day."""

    name: str
    days: dict[date, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """What was read. A part that could not be read is None, and its error stands in `errors` by name.

    Attributes:
        at: the server's time, or this machine's if the queue could not be read.
        errors: "queues", "schedules", "visitors", "sign_ins" to the error.
        address: where the queue stands, without credentials.
        nodes: whether a round trip is one for each node (Cluster).
    """

    at: datetime
    queues: inspect.Overview | None
    schedules: timetable.Timetable | None
    visitors: Visitors | None
    sign_ins: SignInDays | None
    errors: dict[str, Exception]
    cost: Cost
    address: str
    nodes: bool


class NothingRead(RedisComponentsError):
    """No part of the page could be read.

    Attributes:
        error: why; the queue's error.
        address: where, without credentials; "" if that is not known.
    """

    def __init__(self, error: Exception, address: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.address = address


def read() -> Snapshot:
    """Read everything, in two round trips (three if the visitors stand on another connection).

    Raises:
        NothingRead: no part of it could be read.
    """
    cost = Cost()
    address, nodes = _place()
    outcomes: dict[str, Outcome] = {}
    for alias, names in _by_alias().items():
        found = _read_from(alias, [PARTS[name] for name in names], cost)
        outcomes.update(zip(names, found, strict=True))
    errors = {name: outcomes[name].error for name in PARTS}
    if all(errors.values()):
        raise NothingRead(errors["queues"] or RedisError(), address)
    queues = outcomes["queues"].value
    return Snapshot(
        at=queues.at if queues else datetime.now(UTC),
        queues=queues,
        schedules=outcomes["schedules"].value,
        visitors=outcomes["visitors"].value,
        sign_ins=outcomes["sign_ins"].value,
        errors={name: error for name, error in errors.items() if error is not None},
        cost=cost,
        address=address,
        nodes=nodes,
    )


def _place() -> tuple[str, bool]:
    """Where the queue stands, and whether that is a Cluster."""
    try:
        endpoint = connections.endpoint(conf.settings().dashboard.using)
    except RedisComponentsError as exc:
        raise NothingRead(exc, "") from exc
    return str(endpoint), endpoint.kind == "cluster"


def _by_alias() -> dict[str, list[str]]:
    """The parts of the page by the connection that they stand on."""
    settings = conf.settings()
    found: dict[str, list[str]] = {settings.dashboard.using: ["queues", "schedules"]}
    found.setdefault(settings.analytics.using, []).extend(["visitors", "sign_ins"])
    return found


def _read_from(alias: str, parts: list[Callable[[], Flow[object]]], cost: Cost) -> list[Outcome]:
    try:
        door = CountingDoor(clients.client(alias), cost)
    except RedisComponentsError as exc:
        return [Outcome(error=exc) for _ in parts]
    outcomes = run(door, together([part() for part in parts]))
    for outcome in outcomes:
        if outcome.error is not None and not isinstance(outcome.error, RedisError | RedisComponentsError):
            logger.error("A part of the dashboard failed.", exc_info=outcome.error)
    return outcomes


def _queues() -> Flow[inspect.Overview]:
    return (yield from inspect.overview())


def _schedules() -> Flow[timetable.Timetable]:
    return (yield from timetable.known())


def _visitors() -> Flow[Visitors]:
    """Both questions go in one round trip: the days one by one, and what they are together."""
    settings = conf.settings()
    visitors = UniqueVisitors(settings.dashboard.visitors or settings.analytics.site, using=settings.analytics.using)
    start, end = _days()
    by_day, together_ = yield from _both(visitors.series_flow(start, end), visitors.count_flow(start, end))
    return Visitors(visitors.name, by_day, together_)


def _sign_ins() -> Flow[SignInDays]:
    settings = conf.settings()
    sign_ins = SignIns(settings.dashboard.sign_ins or settings.analytics.site, using=settings.analytics.using)
    return SignInDays(sign_ins.name, (yield from sign_ins.series_flow(*_days())))


def _both(first: Flow[Any], second: Flow[Any]) -> Flow[list[Any]]:
    outcomes = yield from together([first, second])
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.value for outcome in outcomes]


def _days() -> tuple[date, date]:
    """First and last day of the charts: today is the day of what is counted now, in TIME_ZONE."""
    today = site_date()
    return today - timedelta(days=DAYS - 1), today


#: The parts of the page, each a flow of its own.
PARTS: dict[str, Callable[[], Flow[object]]] = {
    "queues": _queues,
    "schedules": _schedules,
    "visitors": _visitors,
    "sign_ins": _sign_ins,
}
