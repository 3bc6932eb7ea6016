"""The collector: reads Redis in two round trips per scrape, more with over 500 queues; keeps no state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from django_redis_components.contrib.prometheus.families import families_of, up_family
from django_redis_components.core.exceptions import RedisComponentsError, missing_extra
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.core.text import one_line
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.gather import gather
from django_redis_components.dashboard.problems.incidents import Incident
from django_redis_components.dashboard.problems.storage import read_state
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview, read_overview
from django_redis_components.taskqueue.stats.totals import QueueTotals, read_totals

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

logger = guarded_logger("django_redis_components.prometheus")


class RedisComponentsCollector:
    """Collects the metrics of the task queue; a Collector of ``prometheus_client``.

    While Redis cannot be read, the only metric is ``redis_components_up`` with the value 0, and a warning is logged.

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
            overview, totals, incidents = self._read()
        except (RedisError, RedisComponentsError) as exc:
            logger.warning("The metrics cannot be read: %s", one_line(str(exc)))
            yield up_family(is_up=False)
        else:
            yield up_family(is_up=True)
            yield from families_of(overview, totals, incidents)

    def _read(self) -> tuple[TaskQueueOverview, list[QueueTotals], list[Incident]]:
        alias = self._using or conf.settings().dashboard.using
        client, shard = BoundedClient(clients.client(alias), self.cost), home(alias)
        outcomes = run(
            client,
            gather(
                [
                    read_overview(shard, with_metrics=False, with_all_workers=True),
                    read_totals(shard),
                    read_state(alias),
                ]
            ),
        )
        for outcome in outcomes:
            if outcome.error is not None:
                raise outcome.error
        return outcomes[0].value, outcomes[1].value, list(outcomes[2].value.incidents.values())
