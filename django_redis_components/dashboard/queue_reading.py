"""One queue: everything its page shows, read at one moment."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.counting import Cost, CountingDoor
from django_redis_components.dashboard.reading import NothingRead
from django_redis_components.dashboard.together import together
from django_redis_components.taskqueue import ErrorGroup, Metrics
from django_redis_components.taskqueue.stats import errors, metrics
from django_redis_components.taskqueue.stats import overview as inspect

#: Minutes and hours of the past, and kinds of errors, that the page shows.
MINUTES, HOURS, ERRORS = 60, 24, 50


@dataclasses.dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """What was read of a queue.

    Attributes:
        at: the server's time.
        address: where it stands, without credentials.
        nodes: whether a round trip is one for each node (Cluster).
    """

    at: datetime
    depth: inspect.QueueDepth
    minutes: Metrics
    hours: Metrics
    errors: list[ErrorGroup]
    cost: Cost
    address: str
    nodes: bool


def read(name: str) -> QueueSnapshot:
    """Read it, in one round trip.

    Raises:
        NothingRead: it could not be read.
    """
    address = ""
    cost = Cost()
    using = conf.settings().dashboard.using
    try:
        endpoint = connections.endpoint(using)
        address = str(endpoint)
        door = CountingDoor(clients.client(using), cost)
    except RedisComponentsError as exc:
        raise NothingRead(exc, address) from exc
    flows = [
        inspect.depths(name),
        metrics.minutes(name, MINUTES),
        metrics.hours(name, HOURS),
        errors.errors(name, ERRORS),
    ]
    outcomes = run(door, together(flows))
    for outcome in outcomes:
        if outcome.error is not None:
            raise NothingRead(outcome.error, address) from outcome.error
    [depth], minutes, hours, failures = (outcome.value for outcome in outcomes)
    return QueueSnapshot(minutes.at, depth, minutes, hours, failures, cost, address, endpoint.kind == "cluster")
