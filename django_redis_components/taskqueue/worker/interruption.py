"""One run of a task's function, and how it is interrupted from outside: by a time limit, or by who cancels it.

In a thread an interruption is an exception that the interpreter raises at the next bytecode; in a
coroutine it is a cancellation. It must never reach what comes after the function: the end of the
run closes the door, and takes back what has not been delivered.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.exceptions import SoftTimeLimitExceeded, TaskCancelled
from django_redis_components.taskqueue.logs import current_run
from django_redis_components.taskqueue.options import TimeLimits
from django_redis_components.taskqueue.store.job import Job

#: Those who interrupt wait for each other; the thread that is interrupted never takes this lock.
_interrupting = threading.Lock()
_set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_NOTHING: Any = object()


class _TakenBackError(BaseException):
    """Takes the place of an interruption that has not arrived. Nobody but `_take_back` sees it."""


def _take_back(thread: int) -> None:
    """Put an exception of our own in the place of what this thread was sent, and receive that.

    Merely to withdraw it would leave CPython 3.11 and 3.12 looking for it at every step; under a tracer for ever.
    """
    try:
        _set_async_exc(thread, ctypes.py_object(_TakenBackError))
        while True:
            pass
    except _TakenBackError:
        return


class Watch(Protocol):
    """Who looks at the clock while a run with limits goes on (`watch.Watch`)."""

    def begin(self, run: Run, limits: TimeLimits) -> None: ...
    def end(self, run: Run) -> None: ...


class Run:
    """One run of a job; it can be interrupted once.

    Attributes:
        job: the leased task.
        cancel_asked: whether somebody wants the task to end; a task that looks at it may end by itself.
        interrupted: whether an interruption was sent.
    """

    # Defaults of the class: each task makes a run, and few change them.
    cancel_asked = False
    interrupted = False
    _open = False

    def __init__(self, job: Job, watch: Watch | None = None) -> None:
        self.job = job
        self._watch = watch

    def cancel(self) -> None:
        """Ask the function to end; from any thread. Nothing happens if it does not run, or was interrupted."""
        raise NotImplementedError


class ThreadRun(Run):
    """A run in the thread that calls the function."""

    _thread = 0
    _sending = False
    _wanted: type[BaseException] | None = None

    def call(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], limits: TimeLimits | None) -> Any:
        """Call the function, where an interruption can reach it, and nothing else."""
        if limits is None or self._watch is None:
            return self._call(func, args, kwargs)
        self._watch.begin(self, limits)
        try:
            return self._call(func, args, kwargs)
        finally:
            self._watch.end(self)

    def _call(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        self._thread = threading.get_ident()
        pid = forks.process_id()
        before = current_run.set(self)
        value = _NOTHING
        try:
            try:
                self._open = True
                if self._wanted is not None:  # it came before the door stood open, and is not sent again
                    raise self._wanted
                value = func(*args, **kwargs)
                forks.exit_if_forked(pid)
            except BaseException as exc:
                forks.exit_if_forked(pid, exc)
                raise
            finally:
                self._close()
        except (SoftTimeLimitExceeded, TaskCancelled):
            self._close()  # the interruption may have hit the first one; there is no second
            if value is _NOTHING:
                raise
        finally:
            current_run.reset(before)
        return value

    def _close(self) -> None:
        """Nothing is sent any more, and what was sent and has not arrived is taken back."""
        self._open = False
        while self._sending:
            time.sleep(0)
        if self.interrupted:
            _take_back(self._thread)

    def cancel(self) -> None:
        """See `Run.cancel`. The exception comes at the next bytecode: code in C is not interrupted."""
        self.cancel_asked = True
        self.interrupt(TaskCancelled)

    def interrupt(self, kind: type[BaseException]) -> None:
        """Have the exception raised in the function; at its begin, if it has not begun."""
        with _interrupting:
            self._sending = True
            self._wanted = kind
            if self._open and not self.interrupted:
                self.interrupted = True
                _set_async_exc(self._thread, ctypes.py_object(kind))
            self._sending = False


class CoroutineRun(Run):
    """A run on an event loop."""

    _task: asyncio.Task[Any] | None = None

    async def call(
        self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], limits: TimeLimits | None
    ) -> Any:
        """Await the function, where an interruption can reach it, and nothing else."""
        self._task = asyncio.current_task()
        current_run.set(self)
        if limits is None or self._watch is None:
            return await self._call(func, args, kwargs)
        self._watch.begin(self, limits)
        try:
            async with asyncio.timeout(limits.soft_s) as timer:
                return await self._call(func, args, kwargs)
        except TimeoutError as exc:
            if timer.expired():
                raise SoftTimeLimitExceeded from exc
            raise
        finally:
            self._watch.end(self)

    async def _call(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        pid = forks.process_id()
        try:
            self._open = True
            value = await func(*args, **kwargs)
            forks.exit_if_forked(pid)
            return value
        except asyncio.CancelledError as exc:
            forks.exit_if_forked(pid, exc)
            if self.interrupted and self._task is not None:
                self._task.uncancel()  # what comes after the function is not cancelled
                raise TaskCancelled from exc
            raise
        except BaseException as exc:
            forks.exit_if_forked(pid, exc)
            raise
        finally:
            self._open = False

    def cancel(self) -> None:
        """See `Run.cancel`. The cancellation comes where the coroutine awaits."""
        self.cancel_asked = True
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._interrupt, self._task)

    def _interrupt(self, task: asyncio.Task[Any]) -> None:
        """On the loop, so that the run cannot end meanwhile."""
        if self._open and not self.interrupted:
            self.interrupted = True
            task.cancel()
