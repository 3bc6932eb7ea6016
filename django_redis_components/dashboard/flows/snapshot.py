"""The data of a flow's page, read in one round trip."""

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
from django_redis_components.taskqueue.exceptions import FlowDoesNotExist
from django_redis_components.taskqueue.flows.overview import FlowOverview, read_flow

#: Tasks that are drawn and listed, and failed tasks that are listed.
MAX_MEMBERS = 500


@dataclasses.dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """A flow, the address of the server without credentials, and the cost of reading it."""

    flow: FlowOverview
    cost: Cost
    address: str
    is_cluster: bool


def read(flow_id: str) -> FlowSnapshot:
    """Read a flow.

    Raises:
        FlowDoesNotExist: no flow has this id, or it has expired.
        SnapshotFailed: Redis cannot be read.
    """
    address, cost, using = "", Cost(), conf.settings().dashboard.using
    try:
        endpoint = connections.endpoint(using)
        address = str(endpoint)
        client = BoundedClient(clients.client(using), cost)
    except RedisComponentsError as exc:
        raise SnapshotFailed(exc, address) from exc
    [outcome] = run(client, gather([read_flow(queue_shard(), flow_id, MAX_MEMBERS)]))
    if isinstance(outcome.error, FlowDoesNotExist):
        raise outcome.error
    if outcome.error is not None:
        raise SnapshotFailed(outcome.error, address) from outcome.error
    return FlowSnapshot(outcome.value, cost, address, endpoint.kind == "cluster")
