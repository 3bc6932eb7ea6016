"""The data of the overview, read in two or three round trips."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from datetime import datetime

from redis.exceptions import RedisError

from django_redis_components.analytics import Estimate
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.signins import sign_in_series_flow
from django_redis_components.analytics.visitors import visitor_count_flow
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.gather import gather_values
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
from django_redis_components.dashboard.problems.facts import ProblemFacts, endpoint_of, fact_parts, facts_of
from django_redis_components.taskqueue.schedules import status
from django_redis_components.taskqueue.stats.deploys import Deploy, read_deploys
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts
from django_redis_components.taskqueue.stats.history import History, read_history, read_last_hours
from django_redis_components.taskqueue.stats.metrics import Counts
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview

#: Range of the history that is shown without a choice.
DEFAULT_RANGE = "1h"


@dataclasses.dataclass(frozen=True, slots=True)
class OverviewSnapshot:
    """The parts of the page. A part that could not be read is None and has an entry in `errors`.

    Attributes:
        facts: what problems are found in.
        visitors, sign_ins: of today.
        panels: the registered panels that the user may view.
        history: of all queues, in the range of the request.
        errors: by part, beside those of the facts: "history", "visitors", "sign_ins", "deploys".
        deploys: of the site's code, oldest first.
        last_hours: what finished in the last hour and in the one before, both to ten minutes; None if it is not known.
    """

    facts: ProblemFacts
    history: History | None
    visitors: Estimate | None
    sign_ins: int | None
    panels: list[PanelResult]
    errors: dict[str, Exception]
    cost: Cost
    deploys: list[Deploy] | None = None
    last_hours: tuple[Counts, Counts] | None = None

    @property
    def at(self) -> datetime:
        """See `ProblemFacts`."""
        return self.facts.at

    @property
    def queues(self) -> TaskQueueOverview | None:
        """See `ProblemFacts`."""
        return self.facts.queues

    @property
    def schedules(self) -> status.ScheduleSnapshot | None:
        """See `ProblemFacts`."""
        return self.facts.schedules

    @property
    def address(self) -> str:
        """The task queue's server, without credentials."""
        return str(self.facts.endpoint)

    @property
    def is_cluster(self) -> bool:
        """Whether each round trip goes to several nodes."""
        return self.facts.endpoint.kind == "cluster"

    @property
    def failure_counts(self) -> FailureCounts | None:
        """What the tabs show beside their labels; None if the queues could not be read."""
        return None if self.queues is None else self.queues.failure_counts


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
    endpoint_of()
    of_facts = fact_parts()
    parts = {
        **of_facts,
        **PARTS,
        "history": PagePart(_dashboard_alias, lambda: _history(range_name)),
    }
    all_outcomes = read_parts([*parts.values(), *panel_parts(panels, budget_of("overview"), query)], cost)
    outcomes = dict(zip(parts, all_outcomes, strict=False))
    if all(outcome.error for outcome in outcomes.values()):
        raise SnapshotFailed(outcomes["queues"].error or RedisError(), str(endpoint_of()))
    history, last_hours = outcomes["history"].value or (None, None)
    return OverviewSnapshot(
        facts=facts_of({name: outcomes[name] for name in of_facts}, started),
        history=history,
        visitors=outcomes["visitors"].value,
        sign_ins=outcomes["sign_ins"].value,
        panels=panel_results(panels, all_outcomes[len(parts) :]),
        errors={name: error for name in (*PARTS, "history") if (error := outcomes[name].error) is not None},
        cost=cost,
        deploys=outcomes["deploys"].value,
        last_hours=last_hours,
    )


def _history(range_name: str) -> Flow[tuple[History, tuple[Counts, Counts] | None]]:
    shard = queue_shard()
    history, last_hours = yield from gather_values([read_history(shard, range_name), read_last_hours(shard)])
    return history, last_hours


def _visitors() -> Flow[Estimate]:
    return (yield from visitor_count_flow(visitors_counter(), site_date()))


def _sign_ins() -> Flow[int]:
    return sum((yield from sign_in_series_flow(sign_ins_counter(), site_date(), site_date())).values())


def _dashboard_alias() -> str:
    return conf.settings().dashboard.using


def _analytics_alias() -> str:
    return conf.settings().analytics.using


#: The parts of the page but the history, and what problems are found in.
PARTS: dict[str, PagePart] = {
    "deploys": PagePart(_dashboard_alias, lambda: read_deploys(queue_shard())),
    "visitors": PagePart(_analytics_alias, _visitors),
    "sign_ins": PagePart(_analytics_alias, _sign_ins),
}
