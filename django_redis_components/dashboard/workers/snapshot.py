"""The data of the page of workers, read in one round trip; in two if any worker is lost."""

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
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.taskqueue.stats.workers import WorkerPage, read_workers


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerSnapshot:
    """A page of workers.

    Attributes:
        after: its cursor.
        address: of the server, without credentials.
        is_cluster: whether each round trip goes to several nodes.
    """

    listed: WorkerPage
    after: str
    cost: Cost
    address: str
    is_cluster: bool

    @property
    def at(self) -> datetime:
        """The server's time."""
        return self.listed.at


def read(after: str) -> WorkerSnapshot:
    """Read the page that starts after a worker's id.

    Raises:
        SnapshotFailed: Redis cannot be read.
    """
    address, cost, using = "", Cost(), conf.settings().dashboard.using
    try:
        endpoint = connections.endpoint(using)
        address = str(endpoint)
        listed = run(BoundedClient(clients.client(using), cost), read_workers(queue_shard(), after))
    except (RedisError, RedisComponentsError) as exc:
        raise SnapshotFailed(exc, address) from exc
    return WorkerSnapshot(listed, after, cost, address, endpoint.kind == "cluster")
