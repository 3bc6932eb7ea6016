"""Batches: the option `batch` of `@task`, by which one run gets several calls of a task.

The calls of a batch are a group of their queue, as those of the option `fair` are. Its turn comes when it is full
or has waited as long as it may. The scripts collect the calls; this module validates the option, builds their
arguments, and has the object by which a function settles each call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, overload

from django_redis_components.core.arguments import check_int, short_repr
from django_redis_components.core.name_templates import template_of
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.taskqueue.fair_share import OF_BATCHES, FairShare
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.limits import Key, escaped, key_of_call

#: Most calls of a batch: the server leases all of them in one script.
MAX_SIZE = 500

P = ParamSpec("P")


@dataclasses.dataclass(frozen=True, slots=True)
class Batch(Generic[P]):
    """Run the function with a list of calls: with `size` of them, or with fewer when the oldest has waited for `wait`.

    Attributes:
        size: how many calls a run gets at most, 2 to 500.
        wait: seconds or a timedelta that a call waits for others; 0: a run gets the calls that are ready.
        key: a template over the arguments of a call (``"{customer_id}"``), or a function of them: the calls of a run
            have the same text. None: any calls of the task.
        signature: a function with the parameters of a call, which type checkers compare, too; None: `enqueue` accepts
            any arguments.
    """

    size: int
    wait: Seconds = dataclasses.field(default=0, kw_only=True)
    key: Key | None = dataclasses.field(default=None, kw_only=True)
    signature: Callable[P, Any] | None = dataclasses.field(default=None, kw_only=True, repr=False)

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: Batch[...], size: int, *, wait: Seconds = 0, key: Key | None = None, signature: None = None
        ) -> None: ...
        @overload
        def __init__(
            self, size: int, *, wait: Seconds = 0, key: Key | None = None, signature: Callable[P, Any]
        ) -> None: ...
        def __init__(self, size: int, **options: Any) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_int(self.size, "size", 2, MAX_SIZE))
        to_ms(self.wait, "wait", zero=True)
        if not (self.key is None or isinstance(self.key, str) or callable(self.key)):
            raise TypeError(f"key={short_repr(self.key)}: expected a template such as '{{id}}', a function or None.")
        if not (self.signature is None or callable(self.signature)):
            raise TypeError(f"signature={short_repr(self.signature)}: expected a function or None.")


@dataclasses.dataclass(slots=True, eq=False)
class BatchCall:
    """One call of a task that runs in a batch.

    The function settles it by `succeed` or `fail`. Otherwise the end of the function does: an exception fails the calls
    that are not settled; so do they succeed, with the values of a list that the function returns, or without a value.

    Attributes:
        args, kwargs: the arguments of the call.
        id: the task's id; the result of `enqueue` has the same.
        attempt: the number of this attempt, from 1, as for `max_attempts`.
        value: what it has succeeded with.
        exception: what it has failed with; None without one.
        is_settled: whether its outcome is decided.
        is_cancelled: whether the task was cancelled while the batch ran: its outcome is decided, and work for it may be
            left out.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    id: str = dataclasses.field(default="", kw_only=True)
    attempt: int = dataclasses.field(default=1, kw_only=True)
    value: Any = dataclasses.field(default=None, init=False)
    exception: BaseException | None = dataclasses.field(default=None, init=False)
    is_settled: bool = dataclasses.field(default=False, init=False)
    is_cancelled: bool = dataclasses.field(default=False, init=False)

    def succeed(self, value: Any = None) -> None:
        """Let the call succeed with this return value.

        Raises:
            RuntimeError: its outcome is decided.
        """
        self._settle()
        self.value = value

    def fail(self, exception: BaseException) -> None:
        """Let the call fail with this exception, as if a function had raised it for this call alone.

        The options `max_attempts` and `backoff` decide whether it is retried; `TaskDelayed` delays it.

        Raises:
            TypeError: this is no exception.
            RuntimeError: its outcome is decided.
        """
        if not isinstance(exception, BaseException):
            raise TypeError(f"fail({short_repr(exception)}): expected an exception.")
        self._settle()
        self.exception = exception

    def _settle(self) -> None:
        if self.is_settled and not self.is_cancelled:
            raise RuntimeError(f"The outcome of the call {self.id} is decided.")
        self.is_settled = True


@dataclasses.dataclass(frozen=True, slots=True)
class BatchGroup(FairShare):
    """The group of the queue to which a call of a batch belongs.

    Attributes:
        batch: the option.
    """

    batch: Batch[...] = dataclasses.field(kw_only=True)

    def _check_key(self, func: Callable[..., Any]) -> None:
        if self.batch.key is not None:
            template_of(self.batch.key, func, "batch key")

    def _fields(
        self, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[str, ...]:
        batch, group = self.batch, OF_BATCHES + escaped(name)
        if batch.key is not None:
            group += f":{key_of_call(batch.key, 'batch key', name, func, args, kwargs)}"
        return Field.fair_share, f"1/{group}", Field.batch, f"{batch.size}/{to_ms(batch.wait, 'wait', zero=True)}"


def group_of_batch(batch: Batch[...]) -> BatchGroup:
    """Return the group of a batch as the value of the option `fair`."""
    return BatchGroup(batch.key or "batch", batch=batch)


def settle_rest(calls: Sequence[BatchCall], value: Any, name: str) -> None:
    """Let the calls succeed that the function has not settled, with what it has returned.

    Args:
        name: of the task, for the error.

    Raises:
        TypeError: it is neither None nor a list with a value for each call.
    """
    if value is not None and (not isinstance(value, list | tuple) or len(value) != len(calls)):
        found = f"a list of {len(value)}" if isinstance(value, list | tuple) else short_repr(value)
        raise TypeError(
            f"{name} has returned {found}: expected None, or a list with a value for each of {len(calls)} calls."
        )
    for call, own in zip(calls, value if value is not None else [None] * len(calls), strict=True):
        if not call.is_settled:
            call.succeed(own)
