"""The data of the overview, read in two or three round trips."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.analytics import Estimate
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.signins import sign_in_series_flow
from django_redis_components.analytics.visitors import visitor_count_flow
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.dashboard.clients import shown_shards
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
from django_redis_components.dashboard.problems.shard_states import ShardState, shard_states
from django_redis_components.dashboard.shard_reads import of_shards
from django_redis_components.taskqueue.schedules import status
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.deploys import Deploy, read_deploys
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts
from django_redis_components.taskqueue.stats.history import History, read_history, read_last_hours
from django_redis_components.taskqueue.stats.merging import merged_history, merged_hours, merged_overview
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
        others: data of the shards beside the home shard, if the page shows all.
        merged: the queues of all shards that answer, as those of one, if the page shows several.
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
    others: Mapping[Shard, ProblemFacts] = dataclasses.field(default_factory=dict)
    merged: TaskQueueOverview | None = None

    @property
    def at(self) -> datetime:
        """The time of the first shard that answers; see `ProblemFacts`."""
        return next((each.at for each in self.overviews.values()), self.facts.at)

    @property
    def states(self) -> list[ShardState]:
        """The states of all shards, if the page shows several; else none."""
        if not self.others:
            return []
        return shard_states({self.facts.shard: self.facts, **self.others}, self.facts.incidents)

    @property
    def overviews(self) -> dict[Shard, TaskQueueOverview]:
        """The queues of each shard that answers; see `ProblemFacts`."""
        found = {self.facts.shard: self.facts, **self.others}
        return {shard: facts.queues for shard, facts in found.items() if facts.queues is not None}

    @property
    def queues(self) -> TaskQueueOverview | None:
        """The queues of all shards that answer, as those of one; see `ProblemFacts`."""
        return self.merged if self.others else self.facts.queues

    @property
    def schedules(self) -> status.ScheduleSnapshot | None:
        """The schedules of all shards that answer; see `ProblemFacts`."""
        found = [facts.schedules for facts in (self.facts, *self.others.values()) if facts.schedules is not None]
        return found[0] if len(found) == 1 else status.merged_schedules(found) if found else None

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
    others = shown_shards().shards[1:]
    of_facts = fact_parts()
    parts: dict[Any, PagePart] = {
        **of_facts,
        **PARTS,
        "history": PagePart(_dashboard_alias, lambda: _history(range_name)),
        **{(shard, name): part for shard in others for name, part in fact_parts("", shard).items()},
    }
    all_outcomes = read_parts([*parts.values(), *panel_parts(panels, budget_of("overview"), query)], cost)
    outcomes = dict(zip(parts, all_outcomes, strict=False))
    if all(outcome.error for outcome in outcomes.values()):
        raise SnapshotFailed(outcomes["queues"].error or RedisError(), str(endpoint_of()))
    history, last_hours = outcomes["history"].value or (None, None)
    facts = facts_of({name: outcomes[name] for name in of_facts}, started)
    facts_of_others = {
        shard: facts_of({name: outcomes[shard, name] for name in of_facts}, started, "", shard) for shard in others
    }
    return OverviewSnapshot(
        facts=facts,
        history=history,
        visitors=outcomes["visitors"].value,
        sign_ins=outcomes["sign_ins"].value,
        panels=panel_results(panels, all_outcomes[len(parts) :]),
        errors={name: error for name in (*PARTS, "history") if (error := outcomes[name].error) is not None},
        cost=cost,
        deploys=outcomes["deploys"].value,
        last_hours=last_hours,
        others=facts_of_others,
        merged=_merged([facts, *facts_of_others.values()]) if others else None,
    )


def _history(range_name: str) -> Flow[tuple[History, tuple[Counts, Counts] | None]]:
    found = yield from of_shards(lambda shard: gather_values([read_history(shard, range_name), read_last_hours(shard)]))
    return merged_history([each for each, _ in found.values()]), merged_hours([hours for _, hours in found.values()])


def _merged(found: Sequence[ProblemFacts]) -> TaskQueueOverview | None:
    """Return the queues of the shards that answer, and record the others as away."""
    away = shown_shards().away
    away.update({facts.shard: facts.errors["queues"] for facts in found if "queues" in facts.errors})
    overviews = [facts.queues for facts in found if facts.queues is not None]
    return merged_overview(overviews) if overviews else None


def _deploys() -> Flow[list[Deploy]]:
    """Read the deploys. Each worker registers in all shards, so that those of one that answers are those of all."""
    return next(iter((yield from of_shards(read_deploys)).values()))


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
    "deploys": PagePart(_dashboard_alias, _deploys),
    "visitors": PagePart(_analytics_alias, _visitors),
    "sign_ins": PagePart(_analytics_alias, _sign_ins),
}
