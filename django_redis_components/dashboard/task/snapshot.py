"""The data of one task's page, read in one round trip."""

from __future__ import annotations

import dataclasses

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.gather import gather
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.taskqueue.exceptions import TaskResultDoesNotExist
from django_redis_components.taskqueue.stats.explain import Explanation, explain


@dataclasses.dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task at one moment.

    Attributes:
        address: of the server, without credentials.
        is_cluster: whether each round trip goes to several nodes.
    """

    task: Explanation
    cost: Cost
    address: str
    is_cluster: bool


def read(task_id: str) -> TaskSnapshot:
    """Read the snapshot of a task.

    Raises:
        TaskResultDoesNotExist: no task has this id, or its result has expired.
        SnapshotFailed: Redis cannot be read.
    """
    address, cost, using = "", Cost(), conf.settings().dashboard.using
    try:
        endpoint = connections.endpoint(using)
        address = str(endpoint)
        client = BoundedClient(clients.client(using), cost)
    except RedisComponentsError as exc:
        raise SnapshotFailed(exc, address) from exc
    [outcome] = run(client, gather([explain(queue_shard(), task_id)]))
    if isinstance(outcome.error, TaskResultDoesNotExist):
        raise outcome.error
    if outcome.error is not None:
        raise SnapshotFailed(outcome.error, address) from outcome.error
    return TaskSnapshot(outcome.value, cost, address, endpoint.kind == "cluster")
