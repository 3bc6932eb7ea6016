"""`inline()` and `captured()`: tests without Redis."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

from django_redis_components.core.protocol import Call, Command
from django_redis_components.taskqueue import TaskResult
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.middleware import Middleware, pipeline
from django_redis_components.taskqueue.sealing import open_body
from django_redis_components.testing import request_parser
from django_redis_components.testing.block_decorator import BlockDecorator
from django_redis_components.testing.client_proxies import NOT_INTERCEPTED, ClientPatch
from django_redis_components.testing.enqueued_tasks import SentTask, SentTasks, parse_run_after
from django_redis_components.testing.memory import MemoryQueue

#: The active captures, the innermost last.
_active_captures: list[_TaskCapture] = []


class _TaskCapture(SentTasks, BlockDecorator):
    """Records the tasks that are enqueued while it is active.

    A context manager, and a decorator for functions and coroutine functions.
    """

    def __init__(self) -> None:
        super().__init__()
        self._patch = ClientPatch(self._intercept)

    def __enter__(self) -> Self:
        self._patch.install()
        _active_captures.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _active_captures.remove(self)
        self._patch.restore()

    def _intercept(self, request: Call | Command, using: str) -> Any:
        """Return the reply to a request of the task queue; see `client_proxies.Intercept`."""
        for sent in request_parser.parse_enqueued_tasks(request) if isinstance(request, Call) else ():
            self.add(_to_sent_task(sent, using))
        return self._reply(request)

    @abstractmethod
    def _reply(self, request: Call | Command) -> Any: ...

    @abstractmethod
    def _copy(self) -> _TaskCapture: ...


class inline(_TaskCapture):  # noqa: N801 - used as a function is
    """Run each task in this thread when it is enqueued, without Redis.

    Arguments and return values are converted to JSON and back. Retries follow without a delay, and delayed tasks run
    immediately. The object is the sequence of the enqueued tasks (`SentTasks`); their results can be read
    inside the block: after it, `refresh` and `get` ask the server, which does not have them.

    Args:
        raise_errors: whether `enqueue` raises the exception of a task that failed for good. The result records it in
            either case.
    """

    def __init__(self, *, raise_errors: bool = True) -> None:
        super().__init__()
        self._raise_errors = raise_errors
        self._queue = MemoryQueue()
        self._runner = _RunEnqueued(self)

    def __enter__(self) -> Self:
        pipeline.install(self._runner)
        return super().__enter__()

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        pipeline.uninstall(self._runner)

    def _reply(self, request: Call | Command) -> Any:
        reply = self._queue.answer(request)
        # Enqueued tasks run later, in `_RunEnqueued`: after the result is updated and task_enqueued is sent.
        if not (isinstance(request, Call) and request_parser.parse_enqueued_tasks(request)):
            self._run_all()
        return reply

    def _run_all(self) -> None:
        raised = self._queue.run_all()
        if raised is not None and self._raise_errors:
            raise raised

    def _copy(self) -> inline:
        return inline(raise_errors=self._raise_errors)


class _RunEnqueued(Middleware):
    """Runs the tasks of an `inline`."""

    raises_after_enqueue = True

    def __init__(self, capture: inline) -> None:
        self._capture = capture

    def after_enqueue(self, result: TaskResult) -> None:
        """Run all tasks that are not finished."""
        self._capture._run_all()


class captured(_TaskCapture):  # noqa: N801 - used as a function is
    """Collect the tasks that are enqueued, in memory and without Redis; `run` runs them.

    Args:
        deliver: whether to send the tasks to Redis as well. `drain` runs them then.
    """

    def __init__(self, *, deliver: bool = False) -> None:
        super().__init__()
        self._queue = None if deliver else MemoryQueue()

    def run(self, *, raise_errors: bool = True) -> None:
        """Run the collected tasks in the order in which they were enqueued, and the tasks that these enqueue.

        Args:
            raise_errors: whether to raise, after all have run, the exception of the first that failed for good.

        Raises:
            RuntimeError: the tasks were sent to Redis (`deliver=True`); call `drain` instead.
        """
        if self._queue is None:
            raise RuntimeError("captured(deliver=True) sent the tasks to Redis. Call drain() to run them.")
        raised = self._queue.run_all()
        if raised is not None and raise_errors:
            raise raised

    def _reply(self, request: Call | Command) -> Any:
        return NOT_INTERCEPTED if self._queue is None else self._queue.answer(request)

    def _copy(self) -> captured:
        return captured(deliver=self._queue is None)


def sent_tasks() -> SentTasks:
    """Return the tasks that were enqueued inside the innermost `captured()` or `inline()`.

    Raises:
        RuntimeError: neither is active.
    """
    if not _active_captures:
        raise RuntimeError("No capture is active: enter captured() or inline() first.")
    return _active_captures[-1]


def assert_enqueued(
    task: Any,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue_name: str | None = None,
    count: int | None = None,
) -> list[SentTask]:
    """Assert that the task was enqueued inside `captured()` or `inline()`.

    Args:
        task: a task of this package or of Django, its function, or its dotted name.
        args, kwargs, queue_name: exact values that it must have been enqueued with; None matches any.
        count: exact number of matches; None means at least one.

    Returns:
        The matching tasks.

    Raises:
        AssertionError: it was not; the message lists what was enqueued.
        RuntimeError: neither is active.
    """
    return sent_tasks().assert_enqueued(task, args=args, kwargs=kwargs, queue_name=queue_name, count=count)


def assert_nothing_enqueued() -> None:
    """Assert that no task was enqueued inside `captured()` or `inline()`. See `assert_enqueued`."""
    sent_tasks().assert_nothing_enqueued()


def _to_sent_task(sent: dict[str, Any], using: str) -> SentTask:
    record = request_parser.build_record(sent)
    args, kwargs, *_ = open_body(record[Field.body])
    return SentTask(
        id=sent["id"],
        name=record[Field.task_name].decode(),
        args=args,
        kwargs=kwargs,
        queue_name=sent["queue"],
        priority=sent["priority"],
        run_after=parse_run_after(sent["due"]),
        using=using,
    )
