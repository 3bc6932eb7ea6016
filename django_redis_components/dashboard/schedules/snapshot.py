"""The data of the page of schedules, read in one round trip."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from redis.exceptions import RedisError

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.gather import gather
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.taskqueue.schedules.status import ScheduleInfo, read_registered
from django_redis_components.taskqueue.stats.due import DueCounts, read_due


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulePageData:
    """The schedules, and how many scheduled tasks are due in each hour.

    Attributes:
        address: of the server, without credentials.
        is_cluster: whether each round trip goes to several nodes.
    """

    at: datetime
    schedules: list[ScheduleInfo]
    due: DueCounts
    cost: Cost
    address: str
    is_cluster: bool


def read() -> SchedulePageData:
    """Read the schedules.

    Raises:
        SnapshotFailed: Redis cannot be read.
    """
    address, cost, using = "", Cost(), conf.settings().dashboard.using
    try:
        endpoint = connections.endpoint(using)
        address = str(endpoint)
        schedules, due = run(
            BoundedClient(clients.client(using), cost),
            gather([read_registered(queue_shard()), read_due(queue_shard())]),
        )
    except (RedisError, RedisComponentsError) as exc:
        raise SnapshotFailed(exc, address) from exc
    for outcome in (schedules, due):
        if outcome.error is not None:
            raise SnapshotFailed(outcome.error, address) from outcome.error
    found = schedules.value
    return SchedulePageData(found.at, found.schedules, due.value, cost, address, endpoint.kind == "cluster")
