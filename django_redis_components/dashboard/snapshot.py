"""`Snapshot`: what a page has read, when, from which server, and at what cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from typing import Generic, TypeVar

from django.http import Http404
from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.gather import gather
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.shard_reads import read_all_counts
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts

logger = guarded_logger("django_redis_components.dashboard")

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot(Generic[T]):
    """A value that was read.

    Attributes:
        at: the server's time if the value has it, as `taskqueue` has; else the local time.
        address: of the server, without credentials.
        is_cluster: whether each round trip goes to several nodes.
        failure_counts: what the tabs show beside their labels; None if it was not read.
    """

    value: T
    at: datetime
    cost: Cost
    address: str
    is_cluster: bool
    failure_counts: FailureCounts | None = None


def read_snapshot(flow: Flow[T], using: str = "", counts_of: Callable[[T], FailureCounts] | None = None) -> Snapshot[T]:
    """Read a value, by default from the connection of the dashboard.

    Args:
        counts_of: returns the counts of the tabs from the value; None: they are read with it.

    Raises:
        SnapshotFailed: Redis cannot be read, or has a value that the flow does not expect.
        Http404: the flow has raised it.
    """
    using, cost, address = using or conf.settings().dashboard.using, Cost(), ""
    try:
        is_of_queue = using == conf.settings().dashboard.using
        endpoint = connections.endpoint(clients.queue_alias() if is_of_queue else using)
        address = str(endpoint)
        value, counts = run(BoundedClient(clients.client(using), cost), _with_counts(flow, using, counts_of))
    except Http404:
        raise
    except Exception as exc:
        if not isinstance(exc, RedisError | RedisComponentsError):
            logger.log_exception(exc, "A page of the dashboard cannot be read.")
        raise SnapshotFailed(exc, address) from exc
    at = getattr(value, "at", None) or timezone.now()
    return Snapshot(value, at, cost, address, endpoint.kind == "cluster", counts)


def _with_counts(
    flow: Flow[T], using: str, counts_of: Callable[[T], FailureCounts] | None
) -> Flow[tuple[T, FailureCounts | None]]:
    """Read the counts of the tabs in the first round trip of a flow, if the tasks are on the same connection."""
    if using != conf.settings().dashboard.using:
        return (yield from flow), None
    if counts_of is not None:
        value = yield from flow
        return value, counts_of(value)
    outcome, counts = yield from gather([flow, read_all_counts()])
    return outcome.unwrap(), counts.value
