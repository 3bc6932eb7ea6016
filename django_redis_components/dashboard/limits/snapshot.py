"""The data of the page of rate limits: the limits that the site uses, and the state of one key."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import TypeVar

from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.gather import gather
from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import clients
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.snapshot import read_snapshot
from django_redis_components.ratelimits import Decision, RateLimit, RateLimitPolicy
from django_redis_components.ratelimits.hit_counts import LimitCounts, digest_of, read_counts
from django_redis_components.ratelimits.limit import block_flow, limits_flow, read_flow, reset_flow, unblock_flow
from django_redis_components.ratelimits.limiter import key_of_text
from django_redis_components.taskqueue.stats.deploys import Deploy, read_deploys
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts

T = TypeVar("T")

#: Limits whose counts are read, and keys of the selected one that were denied most.
MAX_COUNTED, MAX_DENIED = 50, 10


@dataclasses.dataclass(frozen=True, slots=True)
class LimitSnapshot:
    """The limits and the result of a query.

    Attributes:
        policies: limits that the site uses, by name.
        selected: the limit in the query; None without one.
        is_unknown: whether the limit in the query is not known.
        key: the key in the query, or "".
        decision: for the next hit of the key; None without a key.
        address: of the server of the limit in the query, or of the dashboard's connection; without credentials.
        is_cluster: whether that is a Cluster.
        counts: of hits, by the id of the policy, for the first `MAX_COUNTED` limits.
        has_all_counts: whether all of these could be read.
        shows_keys: whether denied keys that are stored as text are text; else they are replaced by their hashes.
        deploys: of the site's code, oldest first; without any if they cannot be read.
        failure_counts: what the tabs show beside their labels; None if it could not be read.
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
    counts: dict[str, LimitCounts]
    has_all_counts: bool
    shows_keys: bool
    deploys: list[Deploy]
    failure_counts: FailureCounts | None


def read(limit_id: str, key: str, *, shows_keys: bool) -> LimitSnapshot:
    """Read the limits in one round trip, their counts in one for each connection, and the state of a key in another.

    The deploys and the counts of the tabs are read with the limits.

    Args:
        limit_id: id of a limit, or "".
        key: the key, or "".
        shows_keys: whether the user may view the denied keys as text.

    Raises:
        SnapshotFailed: Redis cannot be read.
    """
    first = read_snapshot(_limits_and_deploys())
    (limits, deploys), cost = first.value, first.cost
    limit = limits.get(limit_id)
    decision, address, is_cluster = None, first.address, first.is_cluster
    if limit is not None and key:
        decision, address, is_cluster = _peek(limit, key, cost)
    counts, has_all_counts = _read_counts(list(limits.values())[:MAX_COUNTED], limit, cost)
    if not shows_keys:
        counts = {each: _without_keys(found) for each, found in counts.items()}
    return LimitSnapshot(
        at=timezone.now(),
        policies=[each.policy for each in limits.values()],
        selected=limit.policy if limit else None,
        is_unknown=bool(limit_id) and limit is None,
        key=key,
        decision=decision,
        cost=cost,
        address=address,
        is_cluster=is_cluster,
        counts=counts,
        has_all_counts=has_all_counts,
        shows_keys=shows_keys,
        deploys=deploys,
        failure_counts=first.failure_counts,
    )


def read_limits() -> dict[str, RateLimit]:
    """Return the limits that the site uses, by the id of their policy.

    Raises:
        SnapshotFailed: Redis cannot be read.
    """
    return _read(conf.settings().dashboard.using, limits_flow(), Cost())


def _limits_and_deploys() -> Flow[tuple[dict[str, RateLimit], list[Deploy]]]:
    limits, deploys = yield from gather([limits_flow(), read_deploys(queue_shard())])
    return limits.unwrap(), deploys.value or []


def peek(limit: RateLimit, key: str) -> Decision:
    """Return what the next hit of a key would get.

    Raises:
        SnapshotFailed: Redis cannot be read.
    """
    return _peek(limit, key, Cost())[0]


def reset(limit: RateLimit, key: str) -> None:
    """Delete the counters of a key, and its penalty block. It is safe to repeat.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    run(clients.client(limit.using), reset_flow(limit, key_of_text(key)))


def block(limit: RateLimit, key: str, seconds: int | None, author: str) -> None:
    """Block a key for this time; None: until `unblock`. It is safe to repeat.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    run(clients.client(limit.using), block_flow(limit, key_of_text(key), seconds, author))


def unblock(limit: RateLimit, key: str) -> bool:
    """End the block of a key, and return whether there was one. It is safe to repeat.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    return run(clients.client(limit.using), unblock_flow(limit, key_of_text(key)))


def _read_counts(
    limits: list[RateLimit], selected: RateLimit | None, cost: Cost
) -> tuple[dict[str, LimitCounts], bool]:
    """Return the counts, of the selected limit also the keys that were denied most, and whether all could be read."""
    counts: dict[str, LimitCounts] = {}
    is_complete = True
    for using in dict.fromkeys(limit.using for limit in limits):
        ids = [limit.policy.id for limit in limits if limit.using == using and limit is not selected]
        flows = [read_counts(ids)]
        if selected is not None and selected.using == using:
            flows.append(read_counts([selected.policy.id], MAX_DENIED))
        try:
            outcomes = run(BoundedClient(clients.client(using), cost), gather(flows))
        except (RedisError, RedisComponentsError):
            is_complete = False
            continue
        is_complete &= not any(outcome.error for outcome in outcomes)
        for outcome in outcomes:
            counts |= outcome.value or {}
    return counts, is_complete


def _without_keys(counts: LimitCounts) -> LimitCounts:
    """Return counts with the hashes of the denied keys."""
    hashed = [(digest_of(stored), times) for stored, times in counts.denied_keys]
    return dataclasses.replace(counts, denied_keys=hashed)


def _peek(limit: RateLimit, key: str, cost: Cost) -> tuple[Decision, str, bool]:
    decision = _read(limit.using, read_flow(limit, key_of_text(key)), cost)
    endpoint = connections.endpoint(limit.using)
    return decision, str(endpoint), endpoint.kind == "cluster"


def _read(using: str, flow: Flow[T], cost: Cost) -> T:
    address = ""
    try:
        address = str(connections.endpoint(using))
        return run(BoundedClient(clients.client(using), cost), flow)
    except (RedisError, RedisComponentsError) as exc:
        raise SnapshotFailed(exc, address) from exc
