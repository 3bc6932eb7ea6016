"""From the steps of a flow to its tasks: which one waits for which. Knows neither Redis nor ids."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.flows.parents import Shape, flat

#: Most tasks of one flow: one call on the server may have to set off, or to fail, all of them (some 0.1 s then).
MAX_TASKS = 5_000
#: Most pairs of a task and one that waits for it.
MAX_LINKS = 10_000


@dataclasses.dataclass(slots=True)
class Node:
    """One task of a flow.

    Attributes:
        call: its signature.
        gets: the tasks whose results it gets; None if it gets none.
        parents: numbers of the tasks that it waits for.
        followers: numbers of the tasks that wait for it.
    """

    call: Any
    gets: Shape[int] | None
    parents: list[int]
    followers: list[int]


class Plan:
    """The tasks of a flow, each after those that it waits for.

    Attributes:
        nodes: in order of their numbers.
        ends: the tasks whose results are the flow's.
    """

    def __init__(self, step: Any) -> None:
        """Args: step: a `signatures.Step`.

        Raises:
            InvalidTask: the flow is too large, or its tasks are sent over different connections.
        """
        self.nodes: list[Node] = []
        self._links = 0
        self.ends = self._add(step, None)
        self.check(*[node.call for node in self.nodes])

    @property
    def using(self) -> str:
        """Alias of the connection."""
        alias: str = self.nodes[0].call.task.connection
        return alias

    @property
    def database(self) -> str | None:
        """Alias of the database whose commit is waited for, if a task says one.

        Raises:
            InvalidTask: two tasks say different ones.
        """
        said = sorted({node.call.task.options.database for node in self.nodes} - {None})
        if len(said) > 1:
            raise InvalidTask(
                f"The tasks of the flow wait for commits of different databases ({', '.join(map(repr, said))}):"
                " they are sent together."
            )
        return said[0] if said else None

    def check(self, *calls: Any) -> None:
        """Raise InvalidTask when a call goes over another connection than the first, or cannot be part of a flow."""
        for call in calls:
            if call.task.options.unique is not None:
                raise InvalidTask(
                    f"{call.task.name} is unique, and a task of a flow cannot be: the one that is there already would"
                    " know nothing of the flow. Send task.using(unique=None)."
                )
            if call.task.connection != self.using:
                raise InvalidTask(
                    f"{self.nodes[0].call.task.name} is sent over connection {self.using!r} and {call.task.name} over"
                    f" {call.task.connection!r}: the tasks of a flow share one."
                )

    def _add(self, step: Any, before: Shape[int] | None) -> Shape[int]:
        """Append what a step consists of; the value is where its results come from."""
        if step.kind == "task":
            return self._append(step, before)
        if step.kind == "group":
            return [self._add(each, before) for each in step.steps]
        ends = self._add(step.steps[0], before)
        for each in step.steps[1:]:
            ends = self._add(each, ends)
        return ends

    def _append(self, call: Any, before: Shape[int] | None) -> int:
        number = len(self.nodes)
        parents: Sequence[int] = () if before is None else flat(before)
        self._links += len(parents)
        if number >= MAX_TASKS:
            raise InvalidTask(f"The flow has more than {MAX_TASKS:,} tasks: send several, or let a task send more.")
        if self._links > MAX_LINKS:
            raise InvalidTask(
                f"Too many tasks of the flow wait for too many others (more than {MAX_LINKS:,} pairs):"
                " put one task between two large groups, which collects the results of the first."
            )
        for parent in parents:
            self.nodes[parent].followers.append(number)
        self.nodes.append(Node(call, None if call.immutable else before, list(parents), []))
        return number
