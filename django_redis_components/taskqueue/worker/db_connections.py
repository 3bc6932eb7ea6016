"""Close stale database connections around tasks, as Django does around requests.

Django's `close_old_connections` collects the connections of its thread at each call, which takes a fifth of the time
of a short task. The set of connections changes only when one is opened, and Django sends a signal then. So this module
collects them after that signal and every `REFRESH_S`, and otherwise checks the connections that it knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import connections
from django.db.backends.signals import connection_created

from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.guarded_logger import logger

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds after which connections are collected again, and checked before a task too. After a task they are always
#: checked.
REFRESH_S = 0.5


class _ThreadState(threading.local):
    """The connections of a thread."""

    connections: tuple[Any, ...] = ()
    checked_at = 0.0
    collected_at = 0.0
    last_opened: object = None


thread_state = _ThreadState()
#: Replaced by another object whenever any thread opens a connection.
last_opened = object()


def close_stale_before_task() -> None:
    """Call `close_stale`, unless this thread did so within `REFRESH_S`."""
    if time.monotonic() - thread_state.checked_at > REFRESH_S:
        close_stale()


def close_stale() -> None:
    """Close connections of this thread that are broken or older than CONN_MAX_AGE."""
    now, opened = time.monotonic(), last_opened
    if thread_state.last_opened is not opened or now - thread_state.collected_at > REFRESH_S:
        thread_state.connections = tuple(connections.all(initialized_only=True))
        thread_state.last_opened, thread_state.collected_at = opened, now
    for connection in thread_state.connections:
        connection.close_if_unusable_or_obsolete()
    thread_state.checked_at = now


def close_all() -> None:
    """Close all connections of this thread, whatever their state."""
    connections.close_all()


class CoroutineThread(Executor):
    """The thread for the synchronous parts of a coroutine (the ORM). The first part starts it: most have none."""

    _executor: forks.ForkSafeExecutor | None = None

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See `concurrent.futures.Executor.submit`."""
        if self._executor is None:
            self._executor = forks.ForkSafeExecutor(max_workers=1)
        return self._executor.submit(fn, *args, **kwargs)

    async def __aenter__(self) -> None:
        self._context = ThreadSensitiveContext()
        self._before = SyncToAsync.thread_sensitive_context.set(self._context)
        SyncToAsync.context_to_thread_executor[self._context] = self

    async def __aexit__(self, *_: object) -> None:
        SyncToAsync.thread_sensitive_context.reset(self._before)
        SyncToAsync.context_to_thread_executor.pop(self._context, None)
        if self._executor is not None:
            await self._close(self._executor)

    async def _close(self, executor: forks.ForkSafeExecutor) -> None:
        """Close the thread's connections, and the thread; a cancellation ends the wait only."""
        closed = asyncio.get_running_loop().run_in_executor(executor, _close_all_or_log)
        executor.shutdown(wait=False)  # after what was submitted
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(closed)


def _close_all_or_log() -> None:
    try:
        close_all()
    except BaseException:  # it must not change the outcome
        logger.exception("Cannot close a database connection after a task.")


def _on_connection_created(**_: Any) -> None:
    global last_opened
    last_opened = object()


connection_created.connect(_on_connection_created, dispatch_uid="django_redis_components.taskqueue.databases")
