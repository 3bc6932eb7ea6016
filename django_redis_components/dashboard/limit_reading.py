"""The rate limits that this process knows, and how a key stands in one of them."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import run
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.counting import Cost, CountingDoor
from django_redis_components.dashboard.reading import NothingRead
from django_redis_components.ratelimits import Decision, RateLimit, RateLimitPolicy
from django_redis_components.ratelimits.limit import read_flow, registered_limits, reset_flow


@dataclasses.dataclass(frozen=True, slots=True)
class LimitSnapshot:
    """What was read.

    Attributes:
        policies: what this process knows, by name.
        chosen: the limit that was asked for; None without one.
        is_unknown: whether a limit was asked for that this process does not know.
        key: whose state was asked for, or "".
        decision: what the next hit of the key would be told; None if none was asked for.
        address: where that stands, without credentials.
    """

    at: datetime
    policies: list[RateLimitPolicy]
    chosen: RateLimitPolicy | None
    is_unknown: bool
    key: str
    decision: Decision | None
    cost: Cost
    address: str
    nodes: bool


def read(chosen: str, key: str) -> LimitSnapshot:
    """Read it: nothing without a limit and a key, else in one round trip.

    Args:
        chosen: id of a limit, or "".
        key: whose state, or "".

    Raises:
        NothingRead: it could not be read.
    """
    limits, cost = registered_limits(), Cost()
    limit = limits.get(chosen)
    decision, address, nodes = None, "", False
    if limit is not None and key:
        decision, address, nodes = _state(limit, key, cost)
    return LimitSnapshot(
        at=datetime.now(UTC),
        policies=[each.policy for each in limits.values()],
        chosen=limit.policy if limit else None,
        is_unknown=bool(chosen) and limit is None,
        key=key,
        decision=decision,
        cost=cost,
        address=address,
        nodes=nodes,
    )


def reset(limit: RateLimit, key: str) -> None:
    """Forget what was counted for a key, and a block. It may be repeated.

    Raises:
        redis.exceptions.RedisError: the server does not answer.
    """
    run(clients.client(limit.using), reset_flow(limit, key))


def _state(limit: RateLimit, key: str, cost: Cost) -> tuple[Decision, str, bool]:
    address, using = "", limit.using
    try:
        endpoint = connections.endpoint(using)
        address = str(endpoint)
        decision = run(CountingDoor(clients.client(using), cost), read_flow(limit, key))
    except (RedisError, RedisComponentsError) as exc:
        raise NothingRead(exc, address) from exc
    return decision, address, endpoint.kind == "cluster"
