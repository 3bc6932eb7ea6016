"""The graph of a flow: which task depends on which. Without Redis and ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from django_redis_components.taskqueue import outbox
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.flows.parents import Shape, flatten
from django_redis_components.taskqueue.flows.tree import encode_tree

#: Maximum tasks of one flow.
MAX_TASKS = 200_000
#: Levels of chains in groups and groups in chains.
MAX_DEPTH = 100
#: Maximum dependencies, as pairs of a task and a dependent one; a flow of more than half as many tasks may have two
#: more for each task.
MAX_LINKS = 10_000
#: Why the parts of a flow that were sent before may be gone.
PARTS_GONE = "They are deleted if sending takes more than an hour, and a server whose memory is full may evict them."


@dataclasses.dataclass(slots=True)
class FlowNode:
    """One task of a flow.

    Attributes:
        call: its signature.
        inputs: the tasks whose results are its first argument; None without one.
        parents: numbers of the tasks that it depends on.
        followers: numbers of the tasks that depend on it.
    """

    call: Any
    inputs: Shape[int] | None
    parents: list[int]
    followers: list[int]


class FlowGraph:
    """The tasks of a flow in topological order.

    Attributes:
        nodes: in order of their numbers.
        ends: the tasks whose results are the result of the flow.
        tree: the steps as `encode_tree` writes them; empty if no chain or group is among them.
    """

    def __init__(self, step: Any) -> None:
        """Args: step: a `signature.Step`.

        Raises:
            InvalidTask: the flow is too large or nested too deeply, or its tasks use different connections.
        """
        self.nodes: list[FlowNode] = []
        self._links = 0
        self._is_nested = False
        self.ends = self._add(step, None, 0)
        self.tree = encode_tree(step) if self._is_nested else ""
        self.check(*[node.call for node in self.nodes])

    @property
    def using(self) -> str:
        """The connection alias."""
        alias: str = self.nodes[0].call.task.connection
        return alias

    @property
    def database(self) -> str | None:
        """Alias of the database whose commit is awaited, if a task sets it.

        Raises:
            InvalidTask: two tasks set different ones.
        """
        databases = sorted({node.call.task.options.database for node in self.nodes} - {None})
        if len(databases) > 1:
            raise InvalidTask(
                f"The tasks of the flow have different databases ({', '.join(map(repr, databases))}):"
                " a flow is enqueued on the commit of one."
            )
        return databases[0] if databases else None

    @property
    def uses_outbox(self) -> bool:
        """Whether the flow is stored in the outbox when it is enqueued on commit: a task of it is."""
        return any(outbox.is_used(node.call.task.options) for node in self.nodes)

    def check(self, *calls: Any) -> None:
        """Raise InvalidTask for a call with another connection, or one that cannot be in a flow."""
        for call in calls:
            if call.task.options.unique is not None:
                raise InvalidTask(
                    f"{call.task.name} is unique, but a task of a flow cannot be: a task that is already queued is not"
                    " part of the flow. Use task.using(unique=None)."
                )
            if call.task.connection != self.using:
                raise InvalidTask(
                    f"{self.nodes[0].call.task.name} uses connection {self.using!r} and {call.task.name} uses"
                    f" {call.task.connection!r}: the tasks of a flow must share one."
                )

    def _add(self, step: Any, before: Shape[int] | None, depth: int) -> Shape[int]:
        """Append the tasks of a step; return the tasks whose results are its result."""
        if step.kind == "task":
            return self._append(step, before)
        if depth == MAX_DEPTH:
            raise InvalidTask(f"The steps of the flow are nested too deeply: expected {MAX_DEPTH} levels at most.")
        self._is_nested = self._is_nested or depth > 0
        if step.kind == "group":
            return [self._add(each, before, depth + 1) for each in step.steps]
        ends = self._add(step.steps[0], before, depth + 1)
        for each in step.steps[1:]:
            ends = self._add(each, ends, depth + 1)
        return ends

    def _append(self, call: Any, before: Shape[int] | None) -> int:
        number = len(self.nodes)
        parents: Sequence[int] = () if before is None else flatten(before)
        self._links += len(parents)
        if number >= MAX_TASKS:
            raise InvalidTask(
                f"The flow has more than {MAX_TASKS:,} tasks: split it, or let a task enqueue further ones."
            )
        if self._links > MAX_LINKS + (2 * number if number >= MAX_LINKS // 2 else 0):
            raise InvalidTask(
                f"The flow has more than {MAX_LINKS:,} dependencies:"
                " put a task that collects the results between two large groups."
            )
        for parent in parents:
            self.nodes[parent].followers.append(number)
        self.nodes.append(FlowNode(call, None if call.immutable else before, list(parents), []))
        return number
