"""`chain` and `group`: tasks that wait for others and get what these return."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

from asgiref.sync import sync_to_async

from django_redis_components.core import conf
from django_redis_components.taskqueue.enqueue import call_on_commit as _send_on_commit
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.flows import enqueue as planting
from django_redis_components.taskqueue.flows.graph import Plan
from django_redis_components.taskqueue.flows.result import FlowResult


class Step:
    """What a flow is made of: one call of a task, a chain, or a group."""

    __slots__ = ()
    kind: ClassVar[str]

    def then(self, *steps: Step) -> Chain:
        """This, and then those: what comes first gives its result to what comes next."""
        return chain(self, *steps)


@dataclasses.dataclass(frozen=True, slots=True)
class Signature(Step):
    """One call of a task in a flow; made by `task.s(…)` and `task.si(…)`.

    Attributes:
        task: the task, with the options that `using` gave it.
        immutable: whether it gets these arguments only, whatever came before it.
    """

    kind: ClassVar[str] = "task"
    task: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    immutable: bool = False


class Sendable(Step):
    """Steps that can be sent."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps

    def __repr__(self) -> str:
        return f"<{self.kind} of {len(self.steps)}>"

    def enqueue(self, *, on_error: Signature | None = None) -> FlowResult:
        """Send all tasks; none begins before all are there. TASKQUEUE["ENQUEUE_ON_COMMIT"] holds as for a task.

        Args:
            on_error: runs once, with a dict that says which task went wrong, when the first task of the flow
                fails, is cancelled, expires or is deleted.

        Raises:
            TypeError: an argument is not JSON; the message names task and place.
            InvalidTask: the flow is too large, or its tasks are sent over different connections.
            redis.exceptions.RedisError: Redis did not answer. Nothing, or everything, was accepted.
        """
        if conf.settings().taskqueue.enqueue_on_commit:
            return self.enqueue_on_commit(on_error=on_error)
        prepared = self._prepared(on_error)
        planting.send(prepared)
        return prepared.result

    async def aenqueue(self, *, on_error: Signature | None = None) -> FlowResult:
        """See `enqueue`."""
        if conf.settings().taskqueue.enqueue_on_commit:
            return await self.aenqueue_on_commit(on_error=on_error)
        prepared = self._prepared(on_error)
        await planting.asend(prepared)
        return prepared.result

    def enqueue_on_commit(self, *, on_error: Signature | None = None) -> FlowResult:
        """Send all tasks when the surrounding transaction commits; never if it is rolled back. The ids are real.

        With several databases the option `database` of a task says whose transaction is meant.
        """
        prepared = self._prepared(on_error)
        if not _send_on_commit(partial(planting.send, prepared), prepared.database):
            planting.send(prepared)
        return prepared.result

    async def aenqueue_on_commit(self, *, on_error: Signature | None = None) -> FlowResult:
        """See `enqueue_on_commit`."""
        prepared = self._prepared(on_error)
        if not await sync_to_async(_send_on_commit)(partial(planting.send, prepared), prepared.database):
            await planting.asend(prepared)
        return prepared.result

    def _prepared(self, on_error: Signature | None) -> planting.Prepared:
        if on_error is not None and not isinstance(on_error, Signature):
            raise InvalidTask(f"on_error={on_error!r}: expected a call of a task, such as task.s().")
        return planting.prepare(Plan(self), on_error)


class Chain(Sendable):
    """Steps that run one after the other; see `chain`."""

    __slots__ = ()
    kind = "chain"


class Group(Sendable):
    """Steps that run side by side; see `group`."""

    __slots__ = ()
    kind = "group"

    def enqueue(self, *, callback: Signature | None = None, on_error: Signature | None = None) -> FlowResult:
        """See `Sendable.enqueue`.

        Args:
            callback: runs when all have succeeded, with the list of what they returned, in order.
        """
        return (
            super().enqueue(on_error=on_error) if callback is None else self.then(callback).enqueue(on_error=on_error)
        )

    async def aenqueue(self, *, callback: Signature | None = None, on_error: Signature | None = None) -> FlowResult:
        """See `enqueue`."""
        if callback is None:
            return await super().aenqueue(on_error=on_error)
        return await self.then(callback).aenqueue(on_error=on_error)


def chain(*steps: Step) -> Chain:
    """Steps that run one after the other: each gets what the one before returned as its first argument.

    Raises:
        InvalidTask: there are no steps, or one is no step.
    """
    return Chain(_steps("chain", steps))


def group(*steps: Step | Iterable[Step]) -> Group:
    """Steps that run side by side: `group(a.s(1), a.s(2))` or `group(a.s(n) for n in numbers)`.

    What comes next gets the list of what they returned, in order.

    Raises:
        InvalidTask: there are no steps, or one is no step.
    """
    if len(steps) == 1 and isinstance(steps[0], Iterable):
        return Group(_steps("group", tuple(steps[0])))
    return Group(_steps("group", steps))


def _steps(what: str, steps: tuple[Any, ...]) -> tuple[Step, ...]:
    if not steps:
        raise InvalidTask(
            f"{what}() has no tasks: a flow needs one at least. Look before whether there is anything to do."
        )
    for number, step in enumerate(steps):
        if not isinstance(step, Step):
            raise InvalidTask(
                f"{what}: step {number} is {step!r}; expected task.s(…), task.si(…), chain(…) or group(…)."
            )
    return steps
