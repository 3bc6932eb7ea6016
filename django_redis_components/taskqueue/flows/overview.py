"""A flow as operators see it: how many tasks are in each state, and its first tasks, in one round trip."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django_redis_components.core.protocol import Flow
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.exceptions import FlowDoesNotExist
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.scripts import READ_FLOW


@dataclasses.dataclass(frozen=True, slots=True)
class FlowMember:
    """A task of a flow.

    Attributes:
        number: its place in the flow's order.
        followers: numbers of the tasks that depend on it.
        state: as of a task; "not_run" if a task before it has failed or was cancelled; "ignored" if it ended without
            success and its failure is ignored.
        name, queue: "" if its record has expired or was deleted; it counts as cancelled.
    """

    number: int
    id: str
    followers: tuple[int, ...]
    state: str
    name: str
    queue: str


@dataclasses.dataclass(frozen=True, slots=True)
class FlowOverview:
    """A flow at one moment.

    Attributes:
        tasks: how many it has, without the callbacks.
        states: number of tasks by state.
        members: its first tasks, in its order.
        failed: the first tasks that failed themselves; a retry of them continues the flow.
        on_error: the task that runs when another fails; None without one, or if it was not needed.
        on_complete, on_success: the other callbacks; None without one.
    """

    id: str
    at: datetime
    tasks: int
    states: dict[str, int]
    members: list[FlowMember]
    failed: list[FlowMember]
    on_error: FlowMember | None
    on_complete: FlowMember | None
    on_success: FlowMember | None


def read_flow(shard: Shard, flow_id: str, limit: int) -> Flow[FlowOverview]:
    """Read a flow.

    Args:
        limit: how many tasks, and failed tasks, are read.

    Raises:
        FlowDoesNotExist: no flow has this id, or it has expired.
    """
    reply = yield READ_FLOW(base=shard.base, flow_id=encodable(flow_id), limit=limit)
    if not reply:
        raise FlowDoesNotExist(flow_id)
    now_us, tasks, states, rows, failed, callbacks = reply
    on_error, on_complete, on_success = [_member(row) if row else None for row in callbacks]
    return FlowOverview(
        id=flow_id,
        at=moment_of(now_us),
        tasks=tasks,
        states={state.decode(): count for state, count in zip(states[::2], states[1::2], strict=True)},
        members=[_member(row) for row in rows],
        failed=[_member(row) for row in failed],
        on_error=on_error,
        on_complete=on_complete,
        on_success=on_success,
    )


def _member(row: Any) -> FlowMember:
    number, task_id, followers, state, name, queue = row
    return FlowMember(
        number=number,
        id=task_id.decode(),
        followers=tuple(int(follower) for follower in followers.split(b",") if follower),
        state=state.decode(),
        name=name.decode(errors="replace"),
        queue=queue.decode(errors="replace"),
    )
