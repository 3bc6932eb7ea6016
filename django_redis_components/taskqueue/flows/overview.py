"""A flow as operators see it: how many tasks are in each state, and its first tasks; a round trip for 500 tasks."""

from __future__ import annotations

import dataclasses
from collections import Counter
from datetime import datetime
from typing import Any

from django_redis_components.core.protocol import Flow
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.exceptions import FlowDoesNotExist
from django_redis_components.taskqueue.flows.callback import START_FLOW
from django_redis_components.taskqueue.flows.parents import parse_followers
from django_redis_components.taskqueue.flows.result import FlowResult
from django_redis_components.taskqueue.flows.tree import Branch, parse_tree
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.scripts import READ_FLOW

#: Tasks whose states are read in one round trip, and in all: a page must not take the server's time.
CHUNK, MAX_COUNTED = 500, 5_000
#: Branches and tasks of the tree of steps, and tasks below it that running members have added.
MAX_NODES, MAX_ADDED = 200, 100


@dataclasses.dataclass(frozen=True, slots=True)
class FlowMember:
    """A task of a flow.

    Attributes:
        number: its place in the flow's order.
        followers: numbers of the tasks that depend on it; of more than 600 the first ones.
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
        unfinished: how many of these have not finished.
        states: number of tasks by state, of the first `counted` ones.
        counted: how many these are.
        members: its first tasks, in its order.
        failed: the first tasks that failed themselves; a retry of them continues the flow.
        on_error: the task that runs when another fails; None without one, or if it was not needed.
        on_complete, on_success: the other callbacks; None without one.
        tree: the steps that it was made of, with `MAX_NODES` branches and tasks at most; None if no chain and no
            group is among them. Tasks that running members have added are not in it.
        callback_of: id of the flow whose callback it is; "" if it is none.
        started: ids of the flows that its callbacks have started, by "on_error", "on_complete" and "on_success".
    """

    id: str
    at: datetime
    tasks: int
    unfinished: int
    states: dict[str, int]
    counted: int
    members: list[FlowMember]
    failed: list[FlowMember]
    on_error: FlowMember | None
    on_complete: FlowMember | None
    on_success: FlowMember | None
    tree: Branch | None
    callback_of: str
    started: dict[str, str]

    @property
    def added(self) -> int:
        """How many tasks running members have added to a flow with a tree."""
        return max(0, self.tasks - self.tree.tasks) if self.tree else 0


def read_flow(shard: Shard, flow_id: str, limit: int) -> Flow[FlowOverview]:
    """Read a flow.

    Args:
        limit: how many tasks, and failed tasks, are read.

    Raises:
        FlowDoesNotExist: no flow has this id, or it has expired.
    """
    states, members, failed = Counter[str](), list[FlowMember](), list[FlowMember]()
    tasks, first = 1, 0
    while first < min(tasks, MAX_COUNTED):
        reply = yield READ_FLOW(
            base=shard.base, flow_id=encodable(flow_id), limit=limit, first=first, last=first + CHUNK - 1
        )
        if not reply:
            raise FlowDoesNotExist(flow_id)
        now_us, tasks, unfinished, counts, rows, failed_rows, callbacks, tree, callback_of = reply
        states.update(dict(zip(map(bytes.decode, counts[::2]), counts[1::2], strict=True)))
        members += map(_member, rows)
        failed += map(_member, failed_rows)
        first += CHUNK
    on_error, on_complete, on_success = [_member(row[:-1]) if row else None for row in callbacks]
    names = ("on_error", "on_complete", "on_success")
    started = {name: flow for name, row in zip(names, callbacks, strict=True) if row and (flow := _started_by(row))}
    return FlowOverview(
        id=flow_id,
        at=moment_of(now_us),
        tasks=tasks,
        unfinished=unfinished,
        states=dict(states),
        counted=min(tasks, MAX_COUNTED),
        members=members,
        failed=failed[:limit],
        on_error=on_error,
        on_complete=on_complete,
        on_success=on_success,
        tree=parse_tree(tree, MAX_NODES),
        callback_of=callback_of.decode(errors="replace"),
        started=started,
    )


def tree_of(flow: FlowResult) -> Branch | None:
    """Return the steps that a flow was made of, as `FlowOverview.tree`, if it was read with `get_flow`."""
    return parse_tree(flow._tree, MAX_NODES)


def started_by(flow: FlowResult) -> dict[str, str]:
    """Return the flows that the callbacks of a flow have started, as `FlowOverview.started`."""
    callbacks = {"on_error": flow.on_error_result, "on_complete": flow.on_complete_result}
    callbacks["on_success"] = flow.on_success_result
    return {
        name: str(result.return_value)
        for name, result in callbacks.items()
        if result and result.name == START_FLOW and result.state == "successful"
    }


def _started_by(row: Any) -> str:
    """Return the id of the flow that a callback has started: the task that starts one returns it."""
    callback, result = _member(row[:-1]), row[-1]
    return str(unpack(result)) if callback.name == START_FLOW and callback.state == "successful" and result else ""


def _member(row: Any) -> FlowMember:
    number, task_id, followers, state, name, queue = row
    return FlowMember(
        number=number,
        id=task_id.decode(),
        followers=tuple(parse_followers(followers.decode())),
        state=state.decode(),
        name=name.decode(errors="replace"),
        queue=queue.decode(errors="replace"),
    )
