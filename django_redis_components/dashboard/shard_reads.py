"""Read the same from each shard that a page shows, in the round trips that one shard takes.

A shard that does not answer is recorded as away (`clients.shown_shards`): the page shows what the others have, and says
which is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import RedisError

from django_redis_components.core.gather import GatherResult, gather
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import clients
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts, read_failure_counts

T = TypeVar("T")


def of_shards(flow_of: Callable[[Shard], Flow[T]]) -> Flow[dict[Shard, T]]:
    """Run a flow in each shard that the page shows; return the values of those that answer.

    Raises:
        redis.exceptions.RedisError: none answers.
        Exception: what a flow has raised besides errors of Redis.
    """
    shown = clients.shown_shards()
    if len(shown.shards) == 1:
        return {shown.shards[0]: (yield from flow_of(shown.shards[0]))}
    shards = [shard for shard in shown.shards if shard not in shown.away] or shown.shards
    outcomes = yield from gather([flow_of(shard) for shard in shards])
    return answers(dict(zip(shards, outcomes, strict=True)))


def answers(outcomes: dict[Shard, GatherResult]) -> dict[Shard, T]:
    """Return the values of the shards that have answered, and record the others as away; see `of_shards`."""
    away = clients.shown_shards().away
    for shard, outcome in outcomes.items():
        if isinstance(outcome.error, RedisError):
            away[shard] = outcome.error
        else:
            outcome.unwrap()
    found = {shard: outcome.value for shard, outcome in outcomes.items() if outcome.error is None}
    if not found:
        next(iter(outcomes.values())).unwrap()
    return found


def read_all_counts() -> Flow[FailureCounts]:
    """Read what the tabs show beside their labels, of all shards that the page shows."""
    found = yield from of_shards(read_failure_counts)
    return merged_counts(found)


def merged_counts(found: dict[Shard, FailureCounts]) -> FailureCounts:
    """Return the counts of several shards as those of one. Each worker is registered in all of them."""
    counts = list(found.values())
    if len(counts) == 1:
        return counts[0]
    by_queue: Counter[str] = Counter()
    for each in counts:
        by_queue.update(each.by_queue)
    return FailureCounts(
        sum(each.failed for each in counts),
        max(each.lost_workers for each in counts),
        any(each.is_partial for each in counts),
        by_queue,
    )
