"""The event loop of a worker process: it runs a limited number of coroutines concurrently."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.worker import db_connections

#: Interval in seconds in which the loop looks for coroutines that it was not woken for: its self-pipe may be closed.
LOOK_S = 1.0

#: What makes a coroutine, and what is called on the loop when it has ended, also if it was cancelled before its first
#: step. The latter must not raise.
Start = tuple[Callable[[], Coroutine[Any, Any, Any]], Callable[[asyncio.Future[Any]], object]]

#: Takes the first step of a coroutine at once. Many have no other, and cost the loop no callback then.
_EAGER: dict[str, Any] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


class EventLoop:
    """A number of permits for coroutines, and the thread that runs them. The thread starts with the first coroutine.

    While it has free permits it takes coroutines itself: to pass each one from another thread takes as long as a short
    coroutine runs.

    Attributes:
        take: called on the loop, which has a free permit; returns what to run next, or None. It must not raise.
        on_ended: called on the loop with the number of coroutines that have ended in a step of the loop.
    """

    def __init__(self, permits: int) -> None:
        #: Below zero while more coroutines run than there are permits, because their number was reduced.
        self._free = self._permits = permits
        self.take: Callable[[], Start | None] = lambda: None
        self.on_ended: Callable[[int], object] = lambda running: None
        self._is_closed = False
        lock = threading.RLock()
        #: A permit is free, and the loop is idle. Two, as what is notified for one must not wake a thread of the other.
        self._changed, self._became_idle = threading.Condition(lock), threading.Condition(lock)
        #: Threads that wait for a permit, and whether the loop has found nothing to take since the last `run`.
        self._waiting = 0
        self._is_idle = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: threading.Thread | None = None
        #: Running coroutines, and what is called when one has ended. The loop has weak references only.
        self._tasks: dict[asyncio.Future[Any], Callable[[asyncio.Future[Any]], object]] = {}
        #: Coroutines whose task is not created yet, and whether the loop was woken to do so.
        self._new: deque[Start] = deque()
        self._is_woken = False
        #: Copied for each coroutine.
        self._context = Context()
        self._context.run(db_connections.use_coroutine_threads)
        #: Coroutines that have ended, and whose permit is not released yet.
        self._ended = 0
        #: Of the thread: its process and itself.
        self._pid = self._thread = 0
        #: Whether the loop has called what waited since it was last started.
        self._has_stepped = False
        #: In a forked child: the task that forked it.
        self._forking: asyncio.Task[Any] | None = None

    def free_permits(self) -> int:
        """Return the number of free permits."""
        return self._free

    def set_permits(self, permits: int) -> None:
        """Change the number of permits. Running coroutines keep theirs."""
        with self._changed:
            added, self._permits = permits - self._permits, permits
            self._free += added
            self._changed.notify(max(0, added))

    def acquire_permit(self, timeout_s: float) -> bool:
        """Acquire a permit, waiting for one if necessary; return False after the timeout."""
        with self._changed:
            if self._free <= 0 and not self._wait(timeout_s):
                return False
            self._free -= 1
            return True

    def wait_for_permit(self, timeout_s: float) -> None:
        """Wait until a permit is free, without acquiring it."""
        with self._changed:
            if self._wait(timeout_s):
                self._changed.notify()

    def release_permit(self) -> None:
        """Release a permit."""
        with self._changed:
            self._free += 1
            self._changed.notify()

    def wait_until_idle(self, timeout_s: float) -> None:
        """Wait until the loop has a free permit and nothing to take, or until the timeout."""
        with self._became_idle:
            self._became_idle.wait_for(lambda: self._is_idle or self._is_closed, timeout_s)

    def close(self) -> None:
        """End all waits."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._became_idle.notify_all()

    def start(self) -> None:
        """Start the thread, unless it runs.

        Raises:
            OSError: there is no file descriptor left.
            RuntimeError: the system has no thread left.
        """
        if self._loop is None:
            with self._changed:
                if self._loop is None:
                    self._start()

    def run(self, make: Callable[[], Coroutine[Any, Any, Any]], end: Callable[[asyncio.Future[Any]], object]) -> None:
        """Run a coroutine in a new context (see `Start`). The caller has acquired a permit and called `start`."""
        self._new.append((make, end))
        self._is_idle = False
        if self._loop is not None and not self._is_woken:  # one wakeup, a write to a pipe, for all that wait
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._create_tasks, self._loop)

    def has_died(self) -> bool:
        """Return whether the thread was started and has ended."""
        return self._loop_thread is not None and not self._loop_thread.is_alive()

    def _start(self) -> None:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._run_loop, args=(loop,), name="event-loop", daemon=True)
        try:
            loop.set_default_executor(forks.ForkSafeExecutor(thread_name_prefix="asyncio"))
            with contextlib.suppress(AttributeError):  # a loop that is not written in Python
                loop.shutdown_default_executor = _keep_default_executor  # type: ignore[method-assign]
            forks.call_in_children(self._stop_in_child)
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._loop, self._loop_thread = loop, thread

    def _wait(self, timeout_s: float) -> bool:
        self._waiting += 1
        self._changed.wait_for(lambda: self._free > 0 or self._is_closed, timeout_s)
        self._waiting -= 1
        return self._free > 0

    def _create_tasks(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_woken = False  # before: a coroutine that is added after the last one wakes the loop again
        with contextlib.suppress(IndexError):
            while True:
                self._create_task(loop, *self._new.popleft())
        self._run_taken(loop)

    def _run_taken(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take coroutines for the free permits for which no thread waits, then run them.

        All are taken before the first one runs, whose first step may take long: what is buffered meanwhile returns to
        the queue, and would be leased again and again.
        """
        permits, taken = self._acquire_unwanted(), list[Start]()
        try:
            while permits and (start := self.take()) is not None:
                permits -= 1
                taken.append(start)
        finally:
            if permits:  # there was nothing to take
                self._release_untaken(permits)
            for start in taken:
                self._create_task(loop, *start)

    def _release_untaken(self, permits: int) -> None:
        with self._changed:
            self._free += permits
            self._changed.notify(permits)
            self._is_idle = not self._new
            self._became_idle.notify_all()

    def _acquire_unwanted(self) -> int:
        """Acquire the permits for which no thread waits; return their number."""
        with self._changed:
            permits = max(0, self._free - self._waiting)
            self._free -= permits
            return permits

    def _create_task(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[], Coroutine[Any, Any, Any]],
        end: Callable[[asyncio.Future[Any]], object],
    ) -> None:
        try:
            # Without the task factory that a coroutine may have set: if it raised, the run would never end.
            task: asyncio.Future[Any] = asyncio.Task(make(), loop=loop, context=self._context.copy(), **_EAGER)
        except BaseException as exc:  # noqa: BLE001 - of the first step; SystemExit passes through a task
            task = loop.create_future()
            task.set_exception(exc)
        if self._forking is not None:  # by the first step
            forks.exit_if_forked(self._pid, _error_of(self._forking))
        if task.done():
            self._end(task, end)
        else:
            self._tasks[task] = end
            task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Future[Any]) -> None:
        self._end(task, self._tasks.pop(task))

    def _end(self, task: asyncio.Future[Any], end: Callable[[asyncio.Future[Any]], object]) -> None:
        end(task)
        self._ended += 1
        if self._ended == 1:  # one wakeup of the threads for all coroutines that end in this step of the loop
            task.get_loop().call_soon(self._release_ended, task.get_loop())

    def _release_ended(self, loop: asyncio.AbstractEventLoop) -> None:
        ended, self._ended = self._ended, 0
        self.on_ended(ended)
        with self._changed:
            self._free += ended
            if self._waiting:
                self._changed.notify(ended)
        self._run_taken(loop)

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        self._pid, self._thread = forks.process_id(), threading.get_ident()
        self._look(loop)
        while True:
            self._has_stepped = False
            try:
                loop.call_soon(self._note_step)
                loop.run_forever()
            except BaseException as exc:  # SystemExit in a task that a coroutine created and did not await, for example
                forks.exit_if_forked(self._pid, _error_of(self._forking))
                # A callback stops the loop by SystemExit and KeyboardInterrupt only, and is not called again.
                if isinstance(exc, Exception) and not self._has_stepped:
                    logger.exception("The event loop cannot continue: its coroutines fail, the process is replaced.")
                    return
                logger.exception("The event loop continues after an error.")
            forks.exit_if_forked(self._pid, _error_of(self._forking))

    def _note_step(self) -> None:
        self._has_stepped = True

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create the tasks of coroutines that the loop was not woken for, now and every `LOOK_S` seconds."""
        loop.call_later(LOOK_S, self._look, loop)
        if self._new:
            self._create_tasks(loop)

    def _stop_in_child(self) -> None:
        """In a forked child, let only the current step of the task that forked finish.

        The loop cannot continue: the child shares its epoll instance and its self-pipe with the parent.
        """
        if self._loop is not None and threading.get_ident() == self._thread:
            self._forking = asyncio.current_task(self._loop)
            asyncio._set_running_loop(None)
            self._loop.stop()
            if (ready := getattr(self._loop, "_ready", None)) is not None:  # asyncio's own loops have it
                ready.clear()


async def _keep_default_executor(timeout: float | None = None) -> None:  # noqa: ASYNC109 - that of asyncio
    """Keep the threads of `asyncio.to_thread`: other coroutines of the process use them, and a loop gets no new ones.

    Replaces `shutdown_default_executor`, which a coroutine calls that ends a loop as if it were its own.
    """


def _error_of(task: asyncio.Task[Any] | None) -> BaseException | None:
    """Return what the task raised, or an error if it is not done."""
    if task is None:
        return None
    if not task.done():
        return RuntimeError("A process that was forked in a coroutine cannot await operations of its parent's loop.")
    return asyncio.CancelledError() if task.cancelled() else task.exception()
