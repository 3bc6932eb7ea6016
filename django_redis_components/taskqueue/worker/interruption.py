"""Runs of task functions that a time limit or a cancellation can interrupt.

In a thread the interruption is an exception that the interpreter raises at the next bytecode, but not in protected code
(module `protected_code`); in a coroutine it is a cancellation. It must not reach the code after the function: at the
end of a run no interruption is sent any more, and one that was sent and has not arrived is withdrawn.
"""

from __future__ import annotations

import asyncio
import ctypes
import operator
import sys
import threading
import time
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from types import FrameType
from typing import Any

from django_redis_components.core.leasing.holder import current_work, describe_task
from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.exceptions import SoftTimeLimitExceeded, TaskCancelled
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.logs import current_run
from django_redis_components.taskqueue.options import TimeLimits
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker import protected_code
from django_redis_components.taskqueue.worker.frames import frames_awaited, frames_until, is_below
from django_redis_components.taskqueue.worker.ipc import HardLimit

#: Seconds between two tries to interrupt a thread that runs protected code, and tries of the calling thread.
RETRY_S, TRIES = 0.001, 5
#: Seconds after which Python switches to another thread, while one must be interrupted.
SWITCH_S = 1e-5
#: Held while an interruption is sent. The interrupted thread never acquires it.
_interrupt_lock = threading.Lock()
_set_async_exc = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exc.argtypes = (ctypes.c_ulong, ctypes.py_object)
_UNSET: Any = object()


class _WithdrawnError(BaseException):
    """Replaces an interruption that has not arrived. Only `withdraw` handles it."""


def withdraw(thread: int) -> None:
    """Replace the pending exception of this thread by another one, and catch that.

    Clearing the pending exception would make CPython 3.11 and 3.12 check for it at every step; under a tracer for ever.
    """
    try:
        _set_async_exc(thread, ctypes.py_object(_WithdrawnError))
        while True:
            pass
    except _WithdrawnError:
        return


class Run:
    """One run of a job. It can be interrupted once.

    Attributes:
        job: the leased task.
        cancel_asked: whether the task was asked to stop; a task may check it and return.
        stop_asked: whether the worker stops; `iterate` ends after the current item then.
        interrupted: whether an interruption was sent.
        thread: identifier of the thread that calls it; 0 for a coroutine, or before the call.
    """

    # Class attributes as defaults: each task creates a run, and few runs change them.
    cancel_asked = False
    stop_asked = False
    interrupted = False
    is_open = False
    thread = 0

    def __init__(self, job: Job, timer: TimeLimitTimer | None = None) -> None:
        self.job = job
        self._timer = timer

    def has_lost_thread(self, alive: Collection[int | None]) -> bool:
        """Return whether the run belongs to a thread that is none of these."""
        return False

    def cancel(self) -> None:
        """Interrupt the function, from any thread. No effect if it does not run or was interrupted before."""
        raise NotImplementedError

    def frames(self) -> list[FrameType]:
        """Return the frames of the function, from any thread, the innermost last; none if it does not run.

        The function continues meanwhile: the frames may be of different moments.
        """
        raise NotImplementedError

    def _describe(self) -> str:
        """Return the lines about this run in the description of a lock's holder."""
        return describe_task(self.job.name, self.job.id)


class ThreadRun(Run):
    """A run in the calling thread."""

    is_sending = _is_insisting = False
    _requested: type[BaseException] | None = None

    def __init__(self, job: Job, timer: TimeLimitTimer | None = None, thread: int = 0) -> None:
        """
        Args:
            thread: identifier of the thread that will call it; 0: the one that does.
        """
        self.job = job  # not by `super()`: each task creates a run
        self._timer = timer
        self.thread = thread

    def call(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], limits: TimeLimits | None) -> Any:
        """Call the function; only there can an interruption arrive."""
        if limits is None or self._timer is None:
            return self._call(func, args, kwargs)
        self._timer.start(self, limits)
        try:
            return self._call(func, args, kwargs)
        finally:
            self._timer.stop(self)

    def _call(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        self.thread = self.thread or threading.get_ident()
        pid = forks.process_id()
        outer_run = current_run.set(self)
        outer_work = current_work.set(self._describe)
        value = _UNSET
        try:
            try:
                self.is_open = True
                if self._requested is not None:  # it was requested before the run was open, and is not sent again
                    raise self._requested
                value = func(*args, **kwargs)
                forks.exit_if_forked(pid)
            except BaseException as exc:
                forks.exit_if_forked(pid, exc)
                raise
            finally:
                self.close()
        except (SoftTimeLimitExceeded, TaskCancelled):
            self.close()  # the interruption may have arrived in the first call; there is no second one
            if value is _UNSET:
                raise
        finally:
            current_work.reset(outer_work)
            current_run.reset(outer_run)
        return value

    def has_lost_thread(self, alive: Collection[int | None]) -> bool:
        """See `Run.has_lost_thread`."""
        return self.thread not in alive

    def close(self) -> None:
        """Accept no more interruptions, and withdraw one that has not arrived."""
        self.is_open = False
        while self.is_sending:
            time.sleep(0)
        if self.interrupted:
            withdraw(self.thread)

    def cancel(self) -> None:
        """See `Run.cancel`. The exception is raised at the next bytecode: code in C is not interrupted."""
        self.cancel_asked = True
        try:
            self.interrupt(TaskCancelled)
        except RuntimeError as exc:  # no more threads; the supervisor repeats it
            logger.warning("Task %s[%s] cannot be interrupted yet (%s).", self.job.name, self.job.id, exc)

    def frames(self) -> list[FrameType]:
        """See `Run.frames`."""
        return frames_until(sys._current_frames().get(self.thread), ThreadRun._call.__code__)

    def interrupt(self, kind: type[BaseException]) -> None:
        """Raise the exception in the function, at its start if it has not started.

        While the thread runs protected code, it tries again each millisecond; after some time in another thread.

        Raises:
            RuntimeError: the system has no thread left. It may be called again.
        """
        for _ in range(TRIES):
            if self._is_insisting or self._try_to_interrupt(kind):
                return
            time.sleep(RETRY_S)
        self._is_insisting = True
        try:
            threading.Thread(target=self._insist, args=(kind,), name="interruption", daemon=True).start()
        except RuntimeError:
            self._is_insisting = False
            raise

    def _insist(self, kind: type[BaseException]) -> None:
        with _frequent_switches:
            while not self._try_to_interrupt(kind):
                time.sleep(RETRY_S)

    def _try_to_interrupt(self, kind: type[BaseException]) -> bool:
        """Send the exception unless the thread runs protected code; return whether there is nothing left to do."""
        with _interrupt_lock:
            self.is_sending = True
            self._requested = kind
            is_due = self.is_open and not self.interrupted
            if is_due and self._send(kind):
                self.interrupted = True
            self.is_sending = False
        return self.interrupted or not is_due

    def _send(self, kind: type[BaseException]) -> bool:
        """Send the exception if the thread runs code that is not protected, and return whether it does.

        The thread may go on while its stack is examined. While it is in the same function, the answer holds. This is
        checked, and the exception sent, in one expression without Python code, so that no other thread runs meanwhile.
        """
        frame = sys._current_frames().get(self.thread)
        if frame is None or protected_code.is_protected(frame, ThreadRun._call.__code__):
            return False
        frames = map(operator.itemgetter(self.thread), iter(sys._current_frames, None))
        is_same = partial(next, map(partial(operator.is_, frame), frames))
        send = partial(_set_async_exc, self.thread, ctypes.py_object(kind))
        return all(map(operator.call, (is_same, send)))


class _FrequentSwitches:
    """Has Python switch between threads at almost any instruction, while any thread is in the block.

    Otherwise a thread that writes to files or sockets gives up the interpreter lock only there, in protected code, and
    is never seen anywhere else.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users, self._before_s = 0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before_s, SWITCH_S))
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._before_s)


_frequent_switches = _FrequentSwitches()


class CoroutineRun(Run):
    """A run on an event loop."""

    #: The thread of its synchronous parts.
    executor: forks.ForkSafeExecutor | None = None
    _task: asyncio.Task[Any] | None = None

    def enter(self) -> None:
        """Make it the current run of the context."""
        current_run.set(self)
        current_work.set(self._describe)

    def call(
        self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], limits: TimeLimits | None
    ) -> Coroutine[Any, Any, Any]:
        """Await the function; only there can an interruption arrive."""
        if limits is None or self._timer is None:
            return self._call(func, args, kwargs)
        return self._call_in_time(func, args, kwargs, limits, self._timer)

    async def _call_in_time(
        self,
        func: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
        limits: TimeLimits,
        timer: TimeLimitTimer,
    ) -> Any:
        timer.start(self, limits)
        try:
            async with asyncio.timeout(limits.soft_s) as timeout:
                return await self._call(func, args, kwargs)
        except TimeoutError as exc:
            if timeout.expired():
                raise SoftTimeLimitExceeded from exc
            raise
        finally:
            timer.stop(self)

    async def _call(self, func: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        pid = forks.process_id()
        task = self._task = asyncio.current_task()  # here: middleware may run the function in a task that it creates
        try:
            self.is_open = True
            value = await func(*args, **kwargs)
            forks.exit_if_forked(pid)
            return value
        except asyncio.CancelledError as exc:
            forks.exit_if_forked(pid, exc)
            if self.interrupted and task is not None:
                task.uncancel()  # the code after the function must not be cancelled
                raise TaskCancelled from exc
            raise
        except BaseException as exc:
            forks.exit_if_forked(pid, exc)
            raise
        finally:
            self.is_open = False
            self._task = None  # whose context has this run: only the garbage collector could delete the cycle

    def cancel(self) -> None:
        """See `Run.cancel`. The cancellation is raised at the next `await`."""
        self.cancel_asked = True
        if (task := self._task) is not None:
            task.get_loop().call_soon_threadsafe(self._interrupt, task)

    def frames(self) -> list[FrameType]:
        """See `Run.frames`. While the coroutine waits, these are the frames of what it awaits."""
        frames = frames_awaited(self._task and self._task.get_coro())
        own = next((index for index, frame in enumerate(frames) if frame.f_code is CoroutineRun._call.__code__), None)
        if own is not None:
            return frames[own + 1 :]
        current = (frames_until(each, CoroutineRun._call.__code__) for each in sys._current_frames().values())
        return next((found for found in current if frames and is_below(found, frames[0])), [])

    def _interrupt(self, task: asyncio.Task[Any]) -> None:
        """Cancel the task on its loop, where the run cannot end concurrently."""
        if self.is_open and not self.interrupted:
            self.interrupted = True
            task.cancel()


class TimeLimitTimer:
    """Raises the soft time limits of a process's runs, and knows the hard ones, which the supervisor enforces.

    Its thread starts with the first run that has a soft limit. Runs without limits do not use it.

    Attributes:
        wakes_at: when the thread checks next, on the monotonic clock.
    """

    def __init__(self) -> None:
        #: Called, from any thread, when a run with a hard limit starts: the supervisor must know it at once.
        self.on_hard_limit: Callable[[], object] = lambda: None
        self._soft: dict[ThreadRun, float] = {}
        self._hard: dict[Run, HardLimit] = {}
        self._changed = threading.Condition()
        self.wakes_at = float("inf")
        self._thread: threading.Thread | None = None

    def start(self, run: Run, limits: TimeLimits) -> None:
        """Apply the limits to a run that starts now. The event loop enforces the soft limits of coroutines."""
        now = time.monotonic()
        if limits.soft_s is not None and isinstance(run, ThreadRun):
            with self._changed:
                self._soft[run] = now + limits.soft_s
                if self._thread is None:
                    thread = threading.Thread(target=self._raise_soft_limits, name="time-limits", daemon=True)
                    thread.start()
                    self._thread = thread  # not before: without it the next run tries again
                elif now + limits.soft_s < self.wakes_at:
                    self._changed.notify()
        if limits.hard_s is not None:
            self._hard[run] = HardLimit(run.job.token, now + limits.hard_s, limits.hard_s, limits.retry_ms)
            self.on_hard_limit()

    def stop(self, run: Run) -> None:
        """Remove the limits of a run that has ended."""
        if isinstance(run, ThreadRun):
            with self._changed:
                self._soft.pop(run, None)
        self._hard.pop(run, None)

    def hard_limits(self) -> dict[str, HardLimit]:
        """Return the hard limits of the current runs, by task id."""
        return dict(pair for run, limit in list(self._hard.items()) for pair in limit.by_task(run.job))

    def _raise_soft_limits(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                due = [run for run, ends_at in self._soft.items() if ends_at <= now]
                for run in due:
                    del self._soft[run]
                self.wakes_at = min(self._soft.values(), default=float("inf"))
                if not due:
                    self._changed.wait(None if self.wakes_at == float("inf") else max(0.0, self.wakes_at - now))
            for run in due:
                self._interrupt(run)

    def _interrupt(self, run: ThreadRun) -> None:
        try:
            run.interrupt(SoftTimeLimitExceeded)
        except BaseException:  # no thread is left, for example: the hard limit remains
            logger.exception("Task %s[%s] cannot be interrupted at its soft limit.", run.job.name, run.job.id)
