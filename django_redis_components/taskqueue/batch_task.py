"""`BatchTask`: a task whose function gets a list of calls."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Unpack

from asgiref.sync import async_to_sync, sync_to_async

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.decorators import without_stop_iteration
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.batches import Batch, BatchCall, settle_rest
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.options import SendingOptions
from django_redis_components.taskqueue.sealing import without_text
from django_redis_components.taskqueue.task import P, R, Task, V

_ANY_ARGUMENTS = inspect.Signature(
    [
        inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD),
    ]
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class BatchTask(Task[P, R, V]):
    """A task whose function gets a list of calls. `func` runs one call alone, so that it runs wherever a task does.

    Attributes:
        batch: the option.
        batch_func: the function.
    """

    batch: Batch[...]
    batch_func: Callable[[list[BatchCall]], Any]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function in this process, with a list of `BatchCall` objects."""
        return self.batch_func(*args, **kwargs)

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """See `Task.call`; the argument is a list of `BatchCall` objects."""
        if inspect.iscoroutinefunction(self.batch_func):
            return async_to_sync(functools.partial(self.batch_func, *args, **kwargs))()
        return self.batch_func(*args, **kwargs)

    async def acall(self, /, *args: Any, **kwargs: Any) -> Any:
        """See `call`."""
        if inspect.iscoroutinefunction(self.batch_func):
            return await self.batch_func(*args, **kwargs)
        called_here = functools.partial(without_stop_iteration(self.batch_func), *args, **kwargs)
        return await sync_to_async(called_here)()

    def using(self, **options: Unpack[SendingOptions]) -> BatchTask[P, R, V]:
        """See `Task.using`.

        Raises:
            InvalidTask: an option is unknown, its value is not accepted, it is `fair`, or a call would expire while it
                waits for others.
        """
        if "fair" in options:
            raise _not_with_batch(f"fair={short_repr(options['fair'])}", self.name, _NO_FAIR)
        changed: Any = Task.using(self, **options)
        check_expiry(self.name, self.batch, changed.declared_options.expires)
        made: BatchTask[P, R, V] = changed
        return made


_NO_FAIR = "the calls of a batch are a group of the queue. Batch(key=…) makes one for each value"
_NO_CONTEXT = "a context belongs to one call. BatchCall.id and BatchCall.attempt tell about each"


def check_batch(path: str, function: Callable[..., Any], batch: Any, *, takes_context: bool, fair: Any) -> None:
    """Validate the option `batch`, and the options that cannot be combined with it.

    Args:
        path: of the function.
        fair: the option of this name; None without it.

    Raises:
        InvalidTask: one is not accepted.
    """
    if not isinstance(batch, Batch):
        raise InvalidTask(f"batch={short_repr(batch)}: expected a Batch, such as Batch(100, wait=1.0).")
    if takes_context:
        raise _not_with_batch("takes_context=True", path, _NO_CONTEXT)
    if fair is not None:
        raise _not_with_batch(f"fair={short_repr(fair)}", path, _NO_FAIR)
    try:
        inspect.signature(function).bind([])
    except TypeError:
        text = f"{path} has the option batch: it is called with one argument, a list of calls, and does not accept it."
        raise InvalidTask(text) from None


def check_expiry(name: str, batch: Batch[...], expires: Any) -> None:
    """Raise InvalidTask if a call would expire while it waits for others.

    Args:
        name: of the task.
        expires: the option.
    """
    if expires is None or isinstance(expires, datetime):
        return
    if to_ms(expires, "expires") <= to_ms(batch.wait, "wait", zero=True):
        raise InvalidTask(
            f"{name}: expires={short_repr(expires)} with Batch(wait={short_repr(batch.wait)}): a call would expire"
            " while it waits for others. Set expires to a longer time, or wait to a shorter one."
        )


def runner_of_one(function: Callable[..., Any], name: str, batch: Batch[...]) -> Callable[..., Any]:
    """Return a function, or a coroutine function, that runs one call alone. Its parameters are those of a call."""
    runner: Callable[..., Any]
    if inspect.iscoroutinefunction(function):

        async def run_coroutine(*args: Any, **kwargs: Any) -> Any:
            call = _call_of_this_run(args, kwargs)
            try:
                settle_rest([call], await function([call]), name)
            except Exception as exc:  # noqa: BLE001 - it is the outcome of a call that is not settled
                return _outcome_of(call, name, exc)
            return _outcome_of(call, name)

        runner = run_coroutine
    else:

        def run(*args: Any, **kwargs: Any) -> Any:
            call = _call_of_this_run(args, kwargs)
            try:
                settle_rest([call], function([call]), name)
            except Exception as exc:  # noqa: BLE001 - it is the outcome of a call that is not settled
                return _outcome_of(call, name, exc)
            return _outcome_of(call, name)

        runner = run
    made: Any = functools.update_wrapper(runner, function)
    made.__signature__ = _ANY_ARGUMENTS if batch.signature is None else inspect.signature(batch.signature)
    found: Callable[..., Any] = made
    return found


def log_if_lost(exc: BaseException, calls: Iterable[BatchCall], name: str, *, is_sealed: bool) -> None:
    """Log what the function has raised if no call fails with it, since all are settled.

    Args:
        is_sealed: whether the arguments of a call are sealed: then the text is not logged.
    """
    others = [call for call in calls if not call.is_cancelled]
    if others and all(call.is_settled for call in others):
        shown = without_text(exc) if is_sealed else exc
        logger.log_exception(shown, "Task %s has raised after all calls of its batch were settled.", name)


def _not_with_batch(option: str, name: str, reason: str) -> InvalidTask:
    return InvalidTask(f"{name}: {option} cannot be combined with batch: {reason}.")


def _call_of_this_run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> BatchCall:
    run = logs.current_run.get(None)
    return (
        BatchCall(args, kwargs) if run is None else BatchCall(args, kwargs, id=run.job.id, attempt=run.job.attempts + 1)
    )


def _outcome_of(call: BatchCall, name: str, exc: Exception | None = None) -> Any:
    """Return the value of a call, or raise the exception that it has failed with.

    Args:
        exc: what the function has raised.
    """
    if exc is not None:
        if not call.is_settled:
            raise exc
        run = logs.current_run.get(None)
        log_if_lost(exc, [call], name, is_sealed=run is not None and run.job.is_sealed)
    if call.exception is not None:
        raise call.exception
    return call.value
