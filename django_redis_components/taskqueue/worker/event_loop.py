"""The event loop of a worker process, on which its coroutines run side by side, up to a number of them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from django_redis_components.taskqueue import forks

logger = logging.getLogger("django_redis_components.taskqueue")


class EventLoop:
    """Slots for coroutines, and the thread that runs them; it starts with the first one."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._given_up = False
        self._changed = threading.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = 0
        #: In a forked child: the task that has forked it.
        self._forking: asyncio.Task[Any] | None = None

    def free(self) -> int:
        """Slots that nobody has."""
        return self._free

    def take(self, timeout_s: float) -> bool:
        """Take a slot, or wait for one; False when none has come in time."""
        with self._changed:
            if not self._wait(timeout_s):
                return False
            self._free -= 1
            return True

    def wait(self, timeout_s: float) -> None:
        """Wait until a slot is free, and leave it."""
        with self._changed:
            if self._wait(timeout_s):
                self._changed.notify()

    def give(self) -> None:
        """Give a slot back."""
        with self._changed:
            self._free += 1
            self._changed.notify()

    def wake(self) -> None:
        """Nobody waits for a slot any more."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def start(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine in a context of its own. Its maker has a slot, and the coroutine gives it back."""
        with self._changed:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(forks.ForkSafeExecutor(thread_name_prefix="asyncio"))
                forks.call_in_children(self._stop_in_child)
                threading.Thread(target=self._live, args=(self._loop,), name="event-loop", daemon=True).start()
        self._loop.call_soon_threadsafe(self._create, self._loop, make)

    def _wait(self, timeout_s: float) -> bool:
        self._changed.wait_for(lambda: self._free > 0 or self._given_up, timeout_s)
        return self._free > 0

    def _create(self, loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = loop.create_task(make(), context=Context())
        self._tasks.add(task)  # the loop itself keeps none alive
        task.add_done_callback(self._tasks.discard)

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        pid, self._thread = forks.process_id(), threading.get_ident()
        while True:
            try:
                loop.run_forever()
            except BaseException:  # SystemExit, say, in a task that a coroutine has started and left alone
                forks.exit_if_forked(pid, _end_of(self._forking))
                logger.exception("An error reached the event loop; it goes on.")
            forks.exit_if_forked(pid, _end_of(self._forking))

    def _stop_in_child(self) -> None:
        """In a forked child: only the step of the task that forked is finished, and no other callback runs.

        The loop cannot go on: the child shares its epoll and its self-pipe with the parent.
        """
        if self._loop is not None and threading.get_ident() == self._thread:
            self._forking = asyncio.current_task(self._loop)
            asyncio._set_running_loop(None)
            self._loop.stop()
            if (ready := getattr(self._loop, "_ready", None)) is not None:  # of asyncio's own loops
                ready.clear()


def _end_of(task: asyncio.Task[Any] | None) -> BaseException | None:
    """What the task has raised; an error if it waits for something."""
    if task is None:
        return None
    if not task.done():
        return RuntimeError("A process that was forked in a coroutine cannot wait for its parent's event loop.")
    return asyncio.CancelledError() if task.cancelled() else task.exception()
