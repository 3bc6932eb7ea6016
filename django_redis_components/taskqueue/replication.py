"""The option `min_replicas`: an enqueued task is waited for until replicas have it.

A task that they do not acknowledge in time is accepted all the same: the caller is not told by an error, which would
make it enqueue the task again, but by `TaskResult.replicas`; and the log by a warning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from django_redis_components.core.protocol import Batch, Call, Command, Flow, Request
from django_redis_components.core.replicas import acknowledgement, wait_limit_ms
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import OutageLog
from django_redis_components.taskqueue.shards import HOME, Shard

_outages: dict[Shard, OutageLog] = {}
conf.on_change(_outages.clear)


@dataclasses.dataclass(slots=True)
class Replication:
    """How many replicas have a task. The message and the result of a call share one.

    Attributes:
        wanted: the option `min_replicas`.
        acknowledged: how many have acknowledged it; None before it was sent.
    """

    wanted: int
    acknowledged: int | None = None


def send_replicated(
    shard: Shard,
    requests: Sequence[Call | Command],
    replications: Sequence[Replication],
    bound: Callable[[Batch], Request] | None = None,
) -> Flow[list[Any]]:
    """Send requests in one round trip that ends when replicas have what they have written; return their replies.

    Args:
        replications: of the tasks; at least one.
        bound: returns what is sent in place of the batch.

    Raises:
        redis.exceptions.RedisError: a request has failed. That replicas are away raises nothing.
    """
    wanted, limit_ms = max(each.wanted for each in replications), wait_limit_ms(shard.alias)
    batch = Batch([*requests, *acknowledgement(shard.key(Key.ack), wanted, limit_ms)], return_exceptions=True)
    found: list[Any] = yield bound(batch) if bound else batch
    *replies, mark, count = found
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    error = next((reply for reply in (mark, count) if isinstance(reply, Exception)), None)
    acknowledged = 0 if error else count
    for replication in replications:
        replication.acknowledged = acknowledged
    _log(shard, wanted, acknowledged, error or f"no more within {limit_ms:,} ms")
    return replies


def _log(shard: Shard, wanted: int, acknowledged: int, reason: object) -> None:
    place = "" if shard.name == HOME else f" of shard {shard.name}"
    outage = _outages.get(shard)
    if outage is None:
        end = f"Enough replicas{place} acknowledge tasks again"
        outage = _outages.setdefault(shard, OutageLog(logger.warning, logger.info, end=end))
    if acknowledged >= wanted:
        outage.succeeded()
        return
    counted = f"{acknowledged} of {wanted} replicas{place} have acknowledged a task ({reason})."
    outage.failed(f"{counted} It is accepted, and lost if the primary fails before a replica has it.")
