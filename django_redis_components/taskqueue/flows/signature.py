"""`chain` and `group`: tasks that depend on others and receive their results."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, Self, get_args

from asgiref.sync import sync_to_async

from django_redis_components.core.arguments import check_int, short_repr
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.flows.callback import callback_of
from django_redis_components.taskqueue.flows.enqueue import (
    Callbacks,
    Messages,
    PreparedFlow,
    asend,
    prepare_flow,
    send,
    send_on_commit,
)
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.flows.result import FlowResult

#: What follows when a member fails, see `Signature.on_failure`.
FailureAction = Literal["cancel", "continue", "ignore"]


#: Default of `Signature.by_reference`, in bytes.
REFERENCE_BYTES = 65_536


class Step:
    """A part of a flow: a call of a task, a chain, or a group."""

    __slots__ = ()
    kind: ClassVar[str]

    def on_failure(self, action: FailureAction) -> Self:
        """Return the step with another action when it fails; see the method of `Signature` and of `Sendable`."""
        raise NotImplementedError

    def _uncounted(self) -> Self:
        """Return the step as one whose failure does not count as a failure of the flow."""
        raise NotImplementedError

    def then(self, *steps: Step) -> Chain:
        """Return a chain of this step and further ones; each receives the result of the step before it."""
        return chain(self, *steps)


@dataclasses.dataclass(frozen=True, slots=True)
class Signature(Step):
    """A call of a task in a flow; created by `task.s(…)` and `task.si(…)`.

    Attributes:
        task: the task, with the options of `using`.
        immutable: whether it receives only these arguments, and no result of the step before it.
        failure_action: what follows when it fails, see `on_failure`.
        reference_above: bytes above which it receives a result as a reference, see `by_reference`; None: never.
        failure_counts: whether its failure counts as one of the flow; not within a chain whose failure is ignored.
    """

    kind: ClassVar[str] = "task"
    task: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    immutable: bool = False
    failure_action: FailureAction = "cancel"
    reference_above: int | None = None
    failure_counts: bool = True

    def on_failure(self, action: FailureAction) -> Signature:
        """Return the call with another action when it fails, is cancelled, expires, is deleted or is not run.

        Args:
            action: "cancel", the default: the tasks after it are not run. "continue": they run, with a `MemberFailure`
                in place of its result, and the flow has failed. "ignore": they run without its result, and the flow
                can succeed.

        Raises:
            InvalidTask: there is no such action.
        """
        _check_action(action)
        return dataclasses.replace(self, failure_action=action)

    def _uncounted(self) -> Signature:
        return dataclasses.replace(self, failure_counts=False)

    def by_reference(self, above: int = REFERENCE_BYTES) -> Signature:
        """Return the call with large results of the steps before it passed as references.

        The task receives a `ResultReference` in place of each, and reads the result with its `get()`.

        Args:
            above: bytes of JSON; smaller results are passed as they are. 0: none is.

        Raises:
            InvalidTask: the call receives no result.
            TypeError, ValueError: `above` is not an integer, or below 0.
        """
        if self.immutable:
            raise InvalidTask(f"{self.task.name}: a call of si() receives no result. Use s(…).by_reference().")
        return dataclasses.replace(self, reference_above=check_int(above, "above", 0))


class Sendable(Step):
    """Steps that can be enqueued."""

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps

    def __repr__(self) -> str:
        return f"<{self.kind} of {len(self.steps)}>"

    def _uncounted(self) -> Self:
        return type(self)(tuple(step._uncounted() for step in self.steps))

    def enqueue(
        self,
        *,
        on_error: Step | None = None,
        on_complete: Step | None = None,
        on_success: Step | None = None,
    ) -> FlowResult:
        """Enqueue all tasks; none starts before all are stored. ``TASKQUEUE["ENQUEUE_ON_COMMIT"]`` applies.

        Args:
            on_error: runs once when the first task of the flow fails, is cancelled, expires or is deleted, with a
                dict that describes that task.
            on_complete: runs once when all tasks have finished, successfully or not, with a dict that describes the
                flow.
            on_success: runs once when all tasks have succeeded, but for those whose failure is ignored; also after a
                retry of what had failed. It receives the same dict.
            Each is a step. A chain or a group starts as a separate flow, of which the first tasks receive the dict.

        Raises:
            TypeError: an argument is not JSON; the message names task and place.
            InvalidTask: the flow is too large or nested too deeply, or its tasks use different connections.
            redis.exceptions.RedisError: Redis did not answer. The flow was accepted completely or not at all.
        """
        callbacks = Callbacks(on_error, on_complete, on_success)
        if conf.settings().taskqueue.enqueue_on_commit:
            return self._enqueue_on_commit(callbacks)
        prepared = self._prepared(callbacks)
        send(prepared)
        return prepared.result

    async def aenqueue(
        self,
        *,
        on_error: Step | None = None,
        on_complete: Step | None = None,
        on_success: Step | None = None,
    ) -> FlowResult:
        """See `enqueue`."""
        callbacks = Callbacks(on_error, on_complete, on_success)
        if conf.settings().taskqueue.enqueue_on_commit:
            return await self._aenqueue_on_commit(callbacks)
        prepared = self._prepared(callbacks)
        await asend(prepared)
        return prepared.result

    def enqueue_on_commit(
        self,
        *,
        on_error: Step | None = None,
        on_complete: Step | None = None,
        on_success: Step | None = None,
    ) -> FlowResult:
        """Enqueue all tasks when the current transaction commits; never if it is rolled back. The ids are final.

        With several databases, the option `database` of a task selects the transaction. See `enqueue`.
        """
        return self._enqueue_on_commit(Callbacks(on_error, on_complete, on_success))

    async def aenqueue_on_commit(
        self,
        *,
        on_error: Step | None = None,
        on_complete: Step | None = None,
        on_success: Step | None = None,
    ) -> FlowResult:
        """See `enqueue_on_commit`."""
        return await self._aenqueue_on_commit(Callbacks(on_error, on_complete, on_success))

    def _enqueue_on_commit(self, callbacks: Callbacks) -> FlowResult:
        prepared = self._prepared(callbacks, on_commit=True)
        if not send_on_commit(prepared):
            send(prepared)
        return prepared.result

    async def _aenqueue_on_commit(self, callbacks: Callbacks) -> FlowResult:
        prepared = self._prepared(callbacks, on_commit=True)
        if not await sync_to_async(send_on_commit)(prepared):
            await asend(prepared)
        return prepared.result

    def _prepared(self, callbacks: Callbacks, *, on_commit: bool = False) -> PreparedFlow:
        for name, step in callbacks._asdict().items():
            if step is not None and not isinstance(step, Step):
                raise InvalidTask(
                    f"{name}={short_repr(step)}: expected a call of a task, such as task.s(), a chain or a group."
                )
        graph = FlowGraph(self)
        if not any(isinstance(step, Sendable) for step in callbacks):
            return prepare_flow(graph, callbacks, on_commit=on_commit)
        calls, later = _started(graph, callbacks)
        return prepare_flow(graph, calls, on_commit=on_commit, later=later)


class Chain(Sendable):
    """Steps that run in sequence; see `chain`."""

    __slots__ = ()
    kind = "chain"

    def on_failure(self, action: FailureAction) -> Chain:
        """Return the chain with another action when it fails: when one of its steps fails, those after it are not run.

        Args:
            action: for what comes after the chain, see `Signature.on_failure`: it gets one result, or `MemberFailure`,
                of the chain. "ignore": the flow can succeed, whichever step has failed.

        Raises:
            InvalidTask: there is no such action.
        """
        *first, last = self.steps
        if action == "ignore":
            first = [step._uncounted() for step in first]
        return Chain((*first, last.on_failure(action)))


class Group(Sendable):
    """Steps that run in parallel; see `group`."""

    __slots__ = ()
    kind = "group"

    def on_failure(self, action: FailureAction) -> Group:
        """Return the group with another action when a member fails, for all members that have none of their own.

        Args:
            action: see `Signature.on_failure`. What comes after the group gets the list, with a `MemberFailure` for
                each member that failed, or without it.

        Raises:
            InvalidTask: there is no such action.
        """
        _check_action(action)
        return Group(tuple(step if _has_action(step) else step.on_failure(action) for step in self.steps))

    def enqueue(
        self,
        *,
        callback: Step | None = None,
        on_error: Step | None = None,
        on_complete: Step | None = None,
        on_success: Step | None = None,
    ) -> FlowResult:
        """See `Sendable.enqueue`.

        Args:
            callback: runs after all have succeeded, with the list of their results, in order.
        """
        step = self._followed_by(callback)
        return Sendable.enqueue(step, on_error=on_error, on_complete=on_complete, on_success=on_success)

    async def aenqueue(
        self,
        *,
        callback: Step | None = None,
        on_error: Step | None = None,
        on_complete: Step | None = None,
        on_success: Step | None = None,
    ) -> FlowResult:
        """See `enqueue`."""
        step = self._followed_by(callback)
        return await Sendable.aenqueue(step, on_error=on_error, on_complete=on_complete, on_success=on_success)

    def enqueue_on_commit(
        self,
        *,
        callback: Step | None = None,
        on_error: Step | None = None,
        on_complete: Step | None = None,
        on_success: Step | None = None,
    ) -> FlowResult:
        """See `Sendable.enqueue_on_commit`, and `enqueue` for the callback."""
        step = self._followed_by(callback)
        return Sendable.enqueue_on_commit(step, on_error=on_error, on_complete=on_complete, on_success=on_success)

    async def aenqueue_on_commit(
        self,
        *,
        callback: Step | None = None,
        on_error: Step | None = None,
        on_complete: Step | None = None,
        on_success: Step | None = None,
    ) -> FlowResult:
        """See `enqueue_on_commit`."""
        step = self._followed_by(callback)
        return await Sendable.aenqueue_on_commit(
            step, on_error=on_error, on_complete=on_complete, on_success=on_success
        )

    def _followed_by(self, callback: Step | None) -> Sendable:
        return self if callback is None else self.then(callback)


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


def _started(graph: FlowGraph, callbacks: Callbacks) -> tuple[Callbacks, Messages]:
    """Return the callbacks of a flow with calls in place of those that are flows, and the tasks of these.

    Raises:
        InvalidTask: such a flow is too large, or its tasks use another connection.
    """
    calls: list[Any] = []
    later: Messages = []
    for step in callbacks:
        call = step
        if isinstance(step, Sendable):
            inner = FlowGraph(step)
            graph.check(*[node.call for node in inner.nodes])
            call, messages = callback_of(inner)
            later += messages
        calls.append(call)
    return Callbacks(*calls), later


def _check_action(action: object) -> None:
    if action not in get_args(FailureAction):
        raise InvalidTask(f'on_failure({short_repr(action)}): expected "cancel", "continue" or "ignore".')


def _has_action(step: Step) -> bool:
    """Return whether what comes after a step runs although it fails: a group has no action if a member has none."""
    if isinstance(step, Group):
        return all(_has_action(each) for each in step.steps)
    if isinstance(step, Chain):
        return _has_action(step.steps[-1])
    return isinstance(step, Signature) and step.failure_action != "cancel"


def _steps(what: str, steps: tuple[Any, ...]) -> tuple[Step, ...]:
    if not steps:
        raise InvalidTask(f"{what}() has no tasks: expected at least one.")
    for number, step in enumerate(steps):
        if not isinstance(step, Step):
            raise InvalidTask(
                f"{what}: step {number} is {short_repr(step)}; expected task.s(…), task.si(…), chain(…) or group(…)."
            )
    return steps
