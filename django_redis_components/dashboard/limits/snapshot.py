"""The data of the page of rate limits: the limits registered in this process, and the state of one key."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.ratelimits import Decision, RateLimit, RateLimitPolicy
from django_redis_components.ratelimits.limit import read_flow, registered_limits, reset_flow


@dataclasses.dataclass(frozen=True, slots=True)
class LimitSnapshot:
    """The registered limits and the result of a query.

    Attributes:
        policies: registered limits, by name.
        selected: the limit in the query; None without one.
        is_unknown: whether the limit in the query is not registered in this process.
        key: the key in the query, or "".
        decision: for the next hit of the key; None without a key.
        address: of the limit's server, without credentials.
        is_cluster: whether that is a Cluster.
    """

    at: datetime
    policies: list[RateLimitPolicy]
    selected: RateLimitPolicy | None
    is_unknown: bool
    key: str
    decision: Decision | None
    cost: Cost
    address: str
    is_cluster: bool


def read(limit_id: str, key: str) -> LimitSnapshot:
    """Read the state of a key, in one round trip; none without a limit and a key.

    Args:
        limit_id: id of a limit, or "".
        key: the key, or "".

    Raises:
        SnapshotFailed: Redis cannot be read.
    """
    limits, cost = registered_limits(), Cost()
    limit = limits.get(limit_id)
    decision, address, is_cluster = None, "", False
    if limit is not None and key:
        decision, address, is_cluster = _peek(limit, key, cost)
    return LimitSnapshot(
        at=datetime.now(UTC),
        policies=[each.policy for each in limits.values()],
        selected=limit.policy if limit else None,
        is_unknown=bool(limit_id) and limit is None,
        key=key,
        decision=decision,
        cost=cost,
        address=address,
        is_cluster=is_cluster,
    )


def reset(limit: RateLimit, key: str) -> None:
    """Delete the counters of a key, and its penalty block. It is safe to repeat.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    run(clients.client(limit.using), reset_flow(limit, key))


def _peek(limit: RateLimit, key: str, cost: Cost) -> tuple[Decision, str, bool]:
    address, using = "", limit.using
    try:
        endpoint = connections.endpoint(using)
        address = str(endpoint)
        decision = run(BoundedClient(clients.client(using), cost), read_flow(limit, key))
    except (RedisError, RedisComponentsError) as exc:
        raise SnapshotFailed(exc, address) from exc
    return decision, address, endpoint.kind == "cluster"
