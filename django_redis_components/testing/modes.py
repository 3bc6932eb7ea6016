"""`inline()` and `captured()`: tests without Redis."""

from __future__ import annotations

import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from django_redis_components.core.protocol import Call, Command
from django_redis_components.taskqueue import enqueue as sending
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.testing import calls
from django_redis_components.testing.doors import NOT_TAKEN, Doors
from django_redis_components.testing.memory import MemoryQueue
from django_redis_components.testing.sent import SentTask, SentTasks, moment

F = TypeVar("F", bound=Callable[..., Any])

#: The modes that are entered, the innermost last.
_entered: list[_Watched] = []


class _Watched(SentTasks):
    """Notes what is sent while it is entered. A context manager, and a decorator for functions, `async def` too."""

    def __init__(self) -> None:
        super().__init__()
        self._doors = Doors(self)

    def __enter__(self) -> Self:
        self._doors.put_up()
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _entered.remove(self)
        self._doors.take_down()

    def __call__(self, func: F) -> F:
        """Have it entered, a new one each time, while the function runs."""
        if not inspect.isfunction(func):
            raise TypeError(f"{func!r}: expected a function. In a TestCase, use self.enterContext(…) in setUp.")
        if inspect.iscoroutinefunction(func):

            @functools.wraps(func)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with self._again():
                    return await func(*args, **kwargs)

            return awaited  # type: ignore[return-value]

        @functools.wraps(func)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return func(*args, **kwargs)

        return called  # type: ignore[return-value]

    def take(self, request: Call | Command, using: str) -> Any:
        """The reply to a request of the task queue; see `doors.Mode`."""
        for sent in calls.sent_in(request) if isinstance(request, Call) else ():
            self.add(_sent_task(sent, using))
        return self._reply(request)

    @abstractmethod
    def _reply(self, request: Call | Command) -> Any: ...

    @abstractmethod
    def _again(self) -> _Watched: ...


class inline(_Watched):  # noqa: N801 - used as a function is
    """While it is entered, `enqueue` runs the task at once in this thread; nothing is sent to Redis.

    Arguments and return values go through JSON as they would. Retries follow each other without a
    pause, and what is sent for later runs now. The tasks that were sent can be asked for
    (`SentTasks`), and their results be read.

    Args:
        raise_errors: whether `enqueue` raises what the task raised when it has finally failed; otherwise the
            result says so.
    """

    def __init__(self, *, raise_errors: bool = True) -> None:
        super().__init__()
        self._raise_errors = raise_errors
        self._queue = MemoryQueue()
        self._hooks: list[Callable[[], None] | None] = []

    def __enter__(self) -> Self:
        self._hooks.append(sending.test_hook)
        sending.test_hook = self._run_all
        return super().__enter__()

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        sending.test_hook = self._hooks.pop()

    def _reply(self, request: Call | Command) -> Any:
        reply = self._queue.answer(request)
        # Tasks that a call sends run when its result and the receivers of task_enqueued know of them.
        if not (isinstance(request, Call) and calls.sent_in(request)):
            self._run_all()
        return reply

    def _run_all(self) -> None:
        raised = self._queue.run_all()
        if raised is not None and self._raise_errors:
            raise raised

    def _again(self) -> inline:
        return inline(raise_errors=self._raise_errors)


class captured(_Watched):  # noqa: N801 - used as a function is
    """While it is entered, tasks that are sent are kept in memory and do not run; `run` runs them.

    Args:
        deliver: send them to Redis all the same, and only look at them.
    """

    def __init__(self, *, deliver: bool = False) -> None:
        super().__init__()
        self._queue = None if deliver else MemoryQueue()

    def run(self, *, raise_errors: bool = True) -> None:
        """Run those that wait, in the order in which they were sent, and what these send.

        Args:
            raise_errors: whether to raise, after all have run, what the first of those that failed has raised.

        Raises:
            RuntimeError: they were delivered; `drain` runs them.
        """
        if self._queue is None:
            raise RuntimeError("captured(deliver=True) has sent the tasks to Redis: drain() runs them.")
        raised = self._queue.run_all()
        if raised is not None and raise_errors:
            raise raised

    def _reply(self, request: Call | Command) -> Any:
        return NOT_TAKEN if self._queue is None else self._queue.answer(request)

    def _again(self) -> captured:
        return captured(deliver=self._queue is None)


def sent_tasks() -> SentTasks:
    """What was enqueued since the innermost `captured()` or `inline()` was entered.

    Raises:
        RuntimeError: none is entered.
    """
    if not _entered:
        raise RuntimeError("Nobody looks at what is enqueued: enter captured() or inline() first.")
    return _entered[-1]


def assert_enqueued(
    task: Any,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue_name: str | None = None,
    count: int | None = None,
) -> list[SentTask]:
    """Fail unless the task was enqueued inside `captured()` or `inline()`: so often, or at least once.

    Args:
        task: ours, one of Django's, a function, or a dotted name.
        args, kwargs, queue_name: what it must have been sent with; None: whatever.

    Raises:
        AssertionError: it was not; the text lists what was enqueued.
        RuntimeError: neither is entered.
    """
    return sent_tasks().assert_enqueued(task, args=args, kwargs=kwargs, queue_name=queue_name, count=count)


def assert_nothing_enqueued() -> None:
    """Fail if anything was enqueued inside `captured()` or `inline()`. See `assert_enqueued`."""
    sent_tasks().assert_nothing_enqueued()


def _sent_task(sent: dict[str, Any], using: str) -> SentTask:
    record = calls.record_of(sent)
    args, kwargs, *_ = unpack(record["b"])
    return SentTask(
        id=sent["id"],
        name=record["n"].decode(),
        args=args,
        kwargs=kwargs,
        queue_name=sent["queue"],
        priority=sent["priority"],
        run_after=moment(sent["due"]),
        using=using,
    )
