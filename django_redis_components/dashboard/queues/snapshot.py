"""The data of one queue's page, read in one round trip."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.gather import gather
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.taskqueue import ErrorGroup, Metrics
from django_redis_components.taskqueue.stats import errors, metrics
from django_redis_components.taskqueue.stats.overview import QueueDepth, read_depths

#: Minutes, hours and error groups that the page shows.
MINUTES, HOURS, ERRORS = 60, 24, 50


@dataclasses.dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """The state and the metrics of a queue.

    Attributes:
        at: the server's time.
        address: of the server, without credentials.
        is_cluster: whether each round trip goes to several nodes.
    """

    at: datetime
    depth: QueueDepth
    minutes: Metrics
    hours: Metrics
    errors: list[ErrorGroup]
    cost: Cost
    address: str
    is_cluster: bool


def read(name: str) -> QueueSnapshot:
    """Read the snapshot of a queue in one round trip.

    Raises:
        SnapshotFailed: Redis cannot be read.
    """
    address, cost, using = "", Cost(), conf.settings().dashboard.using
    try:
        endpoint = connections.endpoint(using)
        address = str(endpoint)
        client = BoundedClient(clients.client(using), cost)
    except RedisComponentsError as exc:
        raise SnapshotFailed(exc, address) from exc
    flows = [
        read_depths(name),
        metrics.read_minutes(name, MINUTES),
        metrics.read_hours(name, HOURS),
        errors.read_errors(name, ERRORS),
    ]
    outcomes = run(client, gather(flows))
    for outcome in outcomes:
        if outcome.error is not None:
            raise SnapshotFailed(outcome.error, address) from outcome.error
    [depth], minutes, hours, groups = (outcome.value for outcome in outcomes)
    return QueueSnapshot(minutes.at, depth, minutes, hours, groups, cost, address, endpoint.kind == "cluster")
