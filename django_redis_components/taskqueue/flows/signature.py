"""`chain` and `group`: tasks that depend on others and receive their results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

from asgiref.sync import sync_to_async

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.flows.enqueue import PreparedFlow, asend, prepare_flow, send, send_on_commit
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.flows.result import FlowResult


class Step:
    """A part of a flow: a call of a task, a chain, or a group."""

    __slots__ = ()
    kind: ClassVar[str]

    def then(self, *steps: Step) -> Chain:
        """Return a chain of this step and further ones; each receives the result of the step before it."""
        return chain(self, *steps)


@dataclasses.dataclass(frozen=True, slots=True)
class Signature(Step):
    """A call of a task in a flow; created by `task.s(…)` and `task.si(…)`.

    Attributes:
        task: the task, with the options of `using`.
        immutable: whether it receives only these arguments, and no result of the step before it.
    """

    kind: ClassVar[str] = "task"
    task: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    immutable: bool = False


class Sendable(Step):
    """Steps that can be enqueued."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps

    def __repr__(self) -> str:
        return f"<{self.kind} of {len(self.steps)}>"

    def enqueue(self, *, on_error: Signature | None = None) -> FlowResult:
        """Enqueue all tasks; none starts before all are stored. ``TASKQUEUE["ENQUEUE_ON_COMMIT"]`` applies.

        Args:
            on_error: runs once when the first task of the flow fails, is cancelled, expires or is deleted, with a
                dict that describes that task.

        Raises:
            TypeError: an argument is not JSON; the message names task and place.
            InvalidTask: the flow is too large or nested too deeply, or its tasks use different connections.
            redis.exceptions.RedisError: Redis did not answer. The flow was accepted completely or not at all.
        """
        if conf.settings().taskqueue.enqueue_on_commit:
            return self.enqueue_on_commit(on_error=on_error)
        prepared = self._prepared(on_error)
        send(prepared)
        return prepared.result

    async def aenqueue(self, *, on_error: Signature | None = None) -> FlowResult:
        """See `enqueue`."""
        if conf.settings().taskqueue.enqueue_on_commit:
            return await self.aenqueue_on_commit(on_error=on_error)
        prepared = self._prepared(on_error)
        await asend(prepared)
        return prepared.result

    def enqueue_on_commit(self, *, on_error: Signature | None = None) -> FlowResult:
        """Enqueue all tasks when the current transaction commits; never if it is rolled back. The ids are final.

        With several databases, the option `database` of a task selects the transaction.
        """
        prepared = self._prepared(on_error, on_commit=True)
        if not send_on_commit(prepared):
            send(prepared)
        return prepared.result

    async def aenqueue_on_commit(self, *, on_error: Signature | None = None) -> FlowResult:
        """See `enqueue_on_commit`."""
        prepared = self._prepared(on_error, on_commit=True)
        if not await sync_to_async(send_on_commit)(prepared):
            await asend(prepared)
        return prepared.result

    def _prepared(self, on_error: Signature | None, *, on_commit: bool = False) -> PreparedFlow:
        if on_error is not None and not isinstance(on_error, Signature):
            raise InvalidTask(f"on_error={short_repr(on_error)}: expected a call of a task, such as task.s().")
        try:
            return prepare_flow(FlowGraph(self), on_error, on_commit=on_commit)
        except RecursionError:
            raise InvalidTask("The steps of the flow are nested too deeply.") from None


class Chain(Sendable):
    """Steps that run in sequence; see `chain`."""

    __slots__ = ()
    kind = "chain"


class Group(Sendable):
    """Steps that run in parallel; see `group`."""

    __slots__ = ()
    kind = "group"

    def enqueue(self, *, callback: Signature | None = None, on_error: Signature | None = None) -> FlowResult:
        """See `Sendable.enqueue`.

        Args:
            callback: runs after all have succeeded, with the list of their results, in order.
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
    """Return steps that run in sequence; each receives the result of the step before it as its first argument.

    Raises:
        InvalidTask: there are no steps, or one has another type.
    """
    steps = _steps("chain", steps)
    # A chain in a chain is the same as its steps, and a loop that adds one at a time nests none.
    return Chain(tuple(each for step in steps for each in (step.steps if isinstance(step, Chain) else (step,))))


def group(*steps: Step | Iterable[Step]) -> Group:
    """Return steps that run in parallel: `group(a.s(1), a.s(2))` or `group(a.s(n) for n in numbers)`.

    The next step receives the list of their results, in order.

    Raises:
        InvalidTask: there are no steps, or one has another type.
    """
    if len(steps) == 1 and isinstance(steps[0], Iterable):
        return Group(_steps("group", tuple(steps[0])))
    return Group(_steps("group", steps))


def _steps(what: str, steps: tuple[Any, ...]) -> tuple[Step, ...]:
    if not steps:
        raise InvalidTask(f"{what}() has no tasks: expected at least one.")
    for number, step in enumerate(steps):
        if not isinstance(step, Step):
            raise InvalidTask(
                f"{what}: step {number} is {short_repr(step)}; expected task.s(…), task.si(…), chain(…) or group(…)."
            )
    return steps
