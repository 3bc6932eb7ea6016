"""The data of the overview, read in two or three round trips."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.analytics import Estimate
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.signins import sign_in_series_flow
from django_redis_components.analytics.visitors import visitor_count_flow
from django_redis_components.core.client import connections
from django_redis_components.core.client.endpoint import Endpoint
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.analytics import sign_ins_counter, visitors_counter
from django_redis_components.dashboard.panels.budget import budget_of
from django_redis_components.dashboard.panels.reading import (
    PagePart,
    PanelResult,
    panel_parts,
    panel_results,
    read_parts,
)
from django_redis_components.taskqueue.schedules import status
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts
from django_redis_components.taskqueue.stats.history import History, read_history
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview, read_overview

#: Range of the history that is shown without a choice.
DEFAULT_RANGE = "1h"


@dataclasses.dataclass(frozen=True, slots=True)
class OverviewSnapshot:
    """The parts of the page. A part that could not be read is None and has an entry in `errors`.

    Attributes:
        at: the server's time, or the local time if the task queue could not be read.
        visitors, sign_ins: of today.
        panels: the registered panels that the user may view.
        history: of all queues, in the range of the request.
        errors: the error by part: "queues", "history", "schedules", "visitors", "sign_ins".
        address: of the task queue's server, without credentials.
        redis_cli: see `Endpoint.redis_cli`.
        is_cluster: whether each round trip goes to several nodes.
        clock_offset_s: the least difference between the server's clock and this host's that explains their times;
            above 0 if the server's is ahead, None if unknown.
    """

    at: datetime
    queues: TaskQueueOverview | None
    history: History | None
    schedules: status.ScheduleSnapshot | None
    visitors: Estimate | None
    sign_ins: int | None
    panels: list[PanelResult]
    errors: dict[str, Exception]
    cost: Cost
    address: str
    redis_cli: str
    is_cluster: bool
    clock_offset_s: float | None = None

    @property
    def failure_counts(self) -> FailureCounts | None:
        """What the tabs show beside their labels; None if the queues could not be read."""
        found = self.queues
        if found is None:
            return None
        return FailureCounts(sum(queue.failed for queue in found.queues), found.worker_count - found.live_count)


def read_overview_snapshot(
    panels: Sequence[Panel] = (), range_name: str = DEFAULT_RANGE, query: Mapping[str, str] | None = None
) -> OverviewSnapshot:
    """Read all parts in two round trips (three if analytics uses another connection).

    Args:
        panels: registered panels to read with them.
        range_name: of the history, see `RANGES`.
        query: the parameters of the page, for the panels.

    Raises:
        SnapshotFailed: no part could be read.
    """
    cost, started = Cost(), time.time()
    endpoint = _endpoint()
    parts = {**PARTS, "history": PagePart(_dashboard_alias, lambda: read_history(queue_shard(), range_name))}
    all_outcomes = read_parts([*parts.values(), *panel_parts(panels, budget_of("overview"), query)], cost)
    outcomes = dict(zip(parts, all_outcomes, strict=False))
    errors = {name: outcome.error for name, outcome in outcomes.items()}
    if all(errors.values()):
        raise SnapshotFailed(errors["queues"] or RedisError(), str(endpoint))
    queues = outcomes["queues"].value
    return OverviewSnapshot(
        at=queues.at if queues else timezone.now(),
        queues=queues,
        history=outcomes["history"].value,
        schedules=outcomes["schedules"].value,
        visitors=outcomes["visitors"].value,
        sign_ins=outcomes["sign_ins"].value,
        panels=panel_results(panels, all_outcomes[len(parts) :]),
        errors={name: error for name, error in errors.items() if error is not None},
        cost=cost,
        address=str(endpoint),
        redis_cli=endpoint.redis_cli(),
        is_cluster=endpoint.kind == "cluster",
        clock_offset_s=_clock_offset(queues.at.timestamp(), started, time.time()) if queues else None,
    )


def _clock_offset(server: float, started: float, finished: float) -> float:
    """Return how far the server's time lies outside of the interval in which it was read."""
    return min(server - started, 0.0) + max(server - finished, 0.0)


def _endpoint() -> Endpoint:
    """Return the server of the task queue."""
    try:
        return connections.endpoint(conf.settings().dashboard.using)
    except RedisComponentsError as exc:
        raise SnapshotFailed(exc, "") from exc


def _visitors() -> Flow[Estimate]:
    return (yield from visitor_count_flow(visitors_counter(), site_date()))


def _sign_ins() -> Flow[int]:
    return sum((yield from sign_in_series_flow(sign_ins_counter(), site_date(), site_date())).values())


def _dashboard_alias() -> str:
    return conf.settings().dashboard.using


def _analytics_alias() -> str:
    return conf.settings().analytics.using


#: The parts of the page but the history.
PARTS: dict[str, PagePart] = {
    "queues": PagePart(_dashboard_alias, lambda: read_overview(queue_shard())),
    "schedules": PagePart(_dashboard_alias, lambda: status.read_registered(queue_shard())),
    "visitors": PagePart(_analytics_alias, _visitors),
    "sign_ins": PagePart(_analytics_alias, _sign_ins),
}
