"""The flows that have not finished, in two round trips."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.fields import FlowField, Key
from django_redis_components.taskqueue.shards import Shard

_FIELDS = (FlowField.enqueued_at_us, FlowField.tasks, FlowField.added, FlowField.unfinished, FlowField.has_failed)


@dataclasses.dataclass(frozen=True, slots=True)
class ListedFlow:
    """A flow that has not finished.

    Attributes:
        tasks, unfinished: how many tasks it has, those that running members have added among them; how many of them
            have not finished.
        has_failed: whether a task cannot succeed any more.
    """

    id: str
    enqueued_at: datetime
    tasks: int
    unfinished: int
    has_failed: bool


@dataclasses.dataclass(frozen=True, slots=True)
class FlowListing:
    """The unfinished flows, newest first.

    Attributes:
        at: the server's time.
        total: how many there are.
        flows: `limit` of them at most.
    """

    at: datetime
    total: int
    flows: list[ListedFlow]


def list_flows(shard: Shard, limit: int) -> Flow[FlowListing]:
    """Read the unfinished flows."""
    index = shard.key(Key.unfinished_flows)
    time, total, ids = yield Batch(
        [Read("TIME", key=shard.base), Read("ZCARD", index), Read("ZREVRANGE", index, 0, limit - 1)]
    )
    names = [flow_id.decode(errors="replace") for flow_id in ids]
    rows = (yield Batch([Read("HMGET", shard.key(Key.flow, name), *_FIELDS) for name in names])) if names else []
    flows = [
        ListedFlow(
            name, moment_of(int(enqueued_us)), int(tasks) + int(added or 0), int(unfinished), has_failed is not None
        )
        for name, (enqueued_us, tasks, added, unfinished, has_failed) in zip(names, rows, strict=True)
        if enqueued_us is not None and tasks is not None and unfinished is not None
    ]
    flows.sort(key=lambda flow: flow.enqueued_at, reverse=True)
    at = moment_of(int(time[0]) * 1_000_000 + int(time[1]))
    return FlowListing(at, total, flows)
