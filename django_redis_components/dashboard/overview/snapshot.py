"""The data of the overview, read in two or three round trips."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.analytics import Estimate, SignIns, UniqueVisitors
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.signins import series_flow as sign_in_series_flow
from django_redis_components.analytics.visitors import count_flow
from django_redis_components.analytics.visitors import series_flow as visitor_series_flow
from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Flow, run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.gather import GatherResult, gather
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.taskqueue.schedules import status
from django_redis_components.taskqueue.stats.overview import TaskQueueOverview, read_overview

logger = logging.getLogger("django_redis_components.dashboard")

#: Days in the charts, including today.
DAYS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class DailyVisitors:
    """Visitors per day, and in the whole range (`Estimate.exact_range` tells whether they are unique)."""

    name: str
    days: dict[date, Estimate]
    range: Estimate


@dataclasses.dataclass(frozen=True, slots=True)
class DailySignIns:
    """Users who signed in, per day."""

    name: str
    days: dict[date, int]


@dataclasses.dataclass(frozen=True, slots=True)
class OverviewSnapshot:
    """The parts of the page. A part that could not be read is None and has an entry in `errors`.

    Attributes:
        at: the server's time, or the local time if the task queue could not be read.
        errors: the error by part: "queues", "schedules", "visitors", "sign_ins".
        address: of the task queue's server, without credentials.
        is_cluster: whether each round trip goes to several nodes.
        clock_offset_s: the least difference between the server's clock and this host's that explains their times;
            above 0 if the server's is ahead, None if unknown.
    """

    at: datetime
    queues: TaskQueueOverview | None
    schedules: status.ScheduleSnapshot | None
    visitors: DailyVisitors | None
    sign_ins: DailySignIns | None
    errors: dict[str, Exception]
    cost: Cost
    address: str
    is_cluster: bool
    clock_offset_s: float | None = None


def read() -> OverviewSnapshot:
    """Read all parts in two round trips (three if analytics uses another connection).

    Raises:
        SnapshotFailed: no part could be read.
    """
    cost, started = Cost(), time.time()
    address, is_cluster = _address()
    outcomes: dict[str, GatherResult] = {}
    for alias, names in _parts_by_alias().items():
        found = _read_parts(alias, [PARTS[name] for name in names], cost)
        outcomes.update(zip(names, found, strict=True))
    errors = {name: outcomes[name].error for name in PARTS}
    if all(errors.values()):
        raise SnapshotFailed(errors["queues"] or RedisError(), address)
    queues = outcomes["queues"].value
    return OverviewSnapshot(
        at=queues.at if queues else datetime.now(UTC),
        queues=queues,
        schedules=outcomes["schedules"].value,
        visitors=outcomes["visitors"].value,
        sign_ins=outcomes["sign_ins"].value,
        errors={name: error for name, error in errors.items() if error is not None},
        cost=cost,
        address=address,
        is_cluster=is_cluster,
        clock_offset_s=_clock_offset(queues.at.timestamp(), started, time.time()) if queues else None,
    )


def _clock_offset(server: float, started: float, finished: float) -> float:
    """Return how far the server's time lies outside of the interval in which it was read."""
    return min(server - started, 0.0) + max(server - finished, 0.0)


def _address() -> tuple[str, bool]:
    """Return the address of the task queue's server, and whether it is a Cluster."""
    try:
        endpoint = connections.endpoint(conf.settings().dashboard.using)
    except RedisComponentsError as exc:
        raise SnapshotFailed(exc, "") from exc
    return str(endpoint), endpoint.kind == "cluster"


def _parts_by_alias() -> dict[str, list[str]]:
    settings = conf.settings()
    parts: dict[str, list[str]] = {settings.dashboard.using: ["queues", "schedules"]}
    parts.setdefault(settings.analytics.using, []).extend(["visitors", "sign_ins"])
    return parts


def _read_parts(alias: str, parts: list[Callable[[], Flow[object]]], cost: Cost) -> list[GatherResult]:
    try:
        client = BoundedClient(clients.client(alias), cost)
    except RedisComponentsError as exc:
        return [GatherResult(error=exc) for _ in parts]
    outcomes = run(client, gather([part() for part in parts]))
    for outcome in outcomes:
        if outcome.error is not None and not isinstance(outcome.error, RedisError | RedisComponentsError):
            logger.error("A part of the dashboard failed.", exc_info=outcome.error)
    return outcomes


def _visitors() -> Flow[DailyVisitors]:
    """Read the days and the range in one round trip."""
    settings = conf.settings()
    visitors = UniqueVisitors(settings.dashboard.visitors or settings.analytics.site, using=settings.analytics.using)
    start, end = _days()
    outcomes = yield from gather([visitor_series_flow(visitors, start, end), count_flow(visitors, start, end)])
    days, total = (_value_of(outcome) for outcome in outcomes)
    return DailyVisitors(visitors.name, days, total)


def _sign_ins() -> Flow[DailySignIns]:
    settings = conf.settings()
    sign_ins = SignIns(settings.dashboard.sign_ins or settings.analytics.site, using=settings.analytics.using)
    return DailySignIns(sign_ins.name, (yield from sign_in_series_flow(sign_ins, *_days())))


def _value_of(outcome: GatherResult) -> Any:
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


def _days() -> tuple[date, date]:
    """Return the first and the last day of the charts, as dates in TIME_ZONE."""
    today = site_date()
    return today - timedelta(days=DAYS - 1), today


#: The flow that reads each part of the page.
PARTS: dict[str, Callable[[], Flow[object]]] = {
    "queues": read_overview,
    "schedules": status.read_registered,
    "visitors": _visitors,
    "sign_ins": _sign_ins,
}
