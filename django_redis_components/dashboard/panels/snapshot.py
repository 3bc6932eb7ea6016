"""The data of a page that consists of registered panels."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime

from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.budget import budget_of
from django_redis_components.dashboard.panels.reading import PanelResult, panel_parts, panel_results, read_parts


@dataclasses.dataclass(frozen=True, slots=True)
class PanelSnapshot:
    """The panels of a page.

    Attributes:
        address: of the dashboard's server, without credentials.
        is_cluster: whether each round trip goes to several nodes.
    """

    at: datetime
    panels: list[PanelResult]
    cost: Cost
    address: str
    is_cluster: bool


def read(page: str, panels: list[Panel], query: Mapping[str, str] | None = None) -> PanelSnapshot:
    """Read panels.

    Args:
        query: the parameters of the page.

    Raises:
        SnapshotFailed: Redis could not be read for any of them.
    """
    cost = Cost()
    try:
        endpoint = connections.endpoint(conf.settings().dashboard.using)
    except ConfigurationError as exc:
        raise SnapshotFailed(exc, "") from exc
    results = panel_results(panels, read_parts(panel_parts(panels, budget_of(page), query), cost))
    errors = [result.error for result in results if result.error is not None or result.was_read]
    if errors and all(isinstance(error, RedisError | ConfigurationError) for error in errors):
        raise SnapshotFailed(errors[0] or RedisError(), str(endpoint))
    return PanelSnapshot(timezone.now(), results, cost, str(endpoint), endpoint.kind == "cluster")
