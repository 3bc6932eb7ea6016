"""The collector: reads Redis in two round trips per scrape, more with over 500 queues; keeps no state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from django.db import Error as DatabaseError
from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.contrib.prometheus.families import (
    families_of,
    outbox_families,
    shard_families,
    up_family,
)
from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.exceptions import RedisComponentsError, missing_extra
from django_redis_components.core.gather import GatherResult, gather
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.core.text import one_line
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.problems.incidents import Incident
from django_redis_components.dashboard.problems.storage import read_state
from django_redis_components.taskqueue import outbox
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.stats.merging import merged_overview, merged_totals
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview, read_overview
from django_redis_components.taskqueue.stats.totals import QueueTotals, read_totals

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

logger = guarded_logger("django_redis_components.prometheus")


class RedisComponentsCollector:
    """Collects the metrics of the task queue; a Collector of ``prometheus_client``.

    While Redis cannot be read, the only metric is ``redis_components_up`` with the value 0, and a warning is logged.
    With the outbox its metrics follow: they are read from the database.

    Attributes:
        cost: commands and round trips of all scrapes of this collector.
    """

    def __init__(self, using: str | None = None) -> None:
        """
        Args:
            using: alias of the connection; None: the one of the dashboard.
        """
        self._using = using
        self.cost = Cost()

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering the collector does not read Redis."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read Redis and yield the metrics.

        Raises:
            ImportError: ``prometheus_client`` is not installed.
        """
        try:
            import prometheus_client  # noqa: F401 - this says what to install
        except ModuleNotFoundError as exc:
            raise missing_extra("RedisComponentsCollector", "prometheus-client", "prometheus") from exc
        try:
            overviews, totals, incidents = self._read()
        except (RedisError, RedisComponentsError) as exc:
            if should_log_failure("metrics"):
                logger.warning("The metrics cannot be read: %s", one_line(str(exc)))
            yield up_family(is_up=False)
        else:
            yield up_family(is_up=True)
            overview = merged_overview([found for found in overviews.values() if found is not None])
            yield from families_of(overview, totals, incidents)
            if len(overviews) > 1:
                yield from shard_families(overviews)
        if outbox.is_installed():
            yield from self._outbox()

    def _outbox(self) -> Iterator[Metric]:
        """Yield the metrics of the outbox; none if a database cannot be read."""
        from django_redis_components.contrib.outbox import storage  # a site without the app has no such model

        try:
            with storage.databases_closed_again():
                backlog = storage.read_backlog(self._using or conf.settings().dashboard.using)
        except DatabaseError as exc:
            if should_log_failure("metrics of the outbox"):
                logger.warning("The metrics of the outbox cannot be read: %s", one_line(str(exc)))
            return
        waited_s = 0.0 if backlog.oldest_at is None else (timezone.now() - backlog.oldest_at).total_seconds()
        yield from outbox_families(backlog.count, max(0.0, waited_s))

    def _read(self) -> tuple[dict[str, TaskQueueOverview | None], list[QueueTotals], list[Incident]]:
        """Read all shards: the overview of each by its name, None if it does not answer; totals; incidents.

        While a shard does not answer there are no totals: sums without it would look like counters that were reset.
        """
        alias = self._using or conf.settings().dashboard.using
        client, shards = BoundedClient(clients.client(alias), self.cost), shards_of(alias)
        overviews = [read_overview(shard, with_metrics=False, with_all_workers=True) for shard in shards]
        outcomes = run(client, gather([*overviews, *map(read_totals, shards), read_state(alias)]))
        found, totals, [state] = outcomes[: len(shards)], outcomes[len(shards) : -1], outcomes[-1:]
        if len(shards) == 1 or all(outcome.error is not None for outcome in found):
            raise_if_any_failed(outcomes)
        for shard, outcome in zip(shards, found, strict=True):
            if outcome.error is not None and should_log_failure(f"metrics of shard {shard.name}"):
                logger.warning("The metrics of shard %s are missing: %s", shard.name, one_line(str(outcome.error)))
        is_complete = all(outcome.error is None for outcome in totals)
        return (
            {shard.name: outcome.value for shard, outcome in zip(shards, found, strict=True)},
            merged_totals([outcome.value for outcome in totals]) if is_complete else [],
            list(state.value.incidents.values()) if state.error is None else [],
        )


def raise_if_any_failed(outcomes: Sequence[GatherResult]) -> None:
    """Raise the first error."""
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
