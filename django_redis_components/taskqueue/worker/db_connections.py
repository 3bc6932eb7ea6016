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
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import connections
from django.db.backends.signals import connection_created

from django_redis_components.taskqueue import forks, logs
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.logs import current_run
from django_redis_components.taskqueue.store.job import Job

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
    #: In a thread that is not a worker's: databases whose transaction was open before the task, such as a test's.
    kept: frozenset[str] | None = None


thread_state = _ThreadState()
#: Replaced by another object whenever any thread opens a connection.
last_opened = object()


def close_stale_before_task() -> None:
    """Call `close_stale`, unless this thread did so within `REFRESH_S`."""
    if time.monotonic() - thread_state.checked_at > REFRESH_S:
        close_stale()


def close_stale(job: Job | None = None) -> None:
    """Close connections of this thread that are broken or older than CONN_MAX_AGE. Errors are logged.

    Args:
        job: the task that has just run. Transactions that it left open are rolled back, and the log of queries that
            Django keeps with DEBUG is emptied.
    """
    now, opened = time.monotonic(), last_opened
    if thread_state.last_opened is not opened or now - thread_state.collected_at > REFRESH_S:
        thread_state.connections = tuple(connections.all(initialized_only=True))
        thread_state.last_opened, thread_state.collected_at = opened, now
    for connection in thread_state.connections:
        if connection.connection is None and not connection.in_atomic_block and not connection.queries_log:
            continue  # it was not opened
        if thread_state.kept is not None and connection.alias in thread_state.kept:
            continue
        try:
            if job is not None and (connection.in_atomic_block or not connection.autocommit):
                _end_transaction(connection, job)
            connection.close_if_unusable_or_obsolete()
            if job is not None and connection.queries_log and thread_state.kept is None:
                connection.queries_log.clear()
        except BaseException:  # it must not change the outcome; the next task raises its own error
            logger.exception("Cannot close a database connection %s.", _when(job))
    thread_state.checked_at = now


def close_all(job: Job) -> None:
    """Close all connections of this thread, whatever their state, after a task. Errors are logged."""
    for connection in connections.all(initialized_only=True):
        if connection.alias in (thread_state.kept or ()):
            continue
        try:
            _end_transaction(connection, job)
            connection.close()
        except BaseException:  # see `close_stale`
            logger.exception("Cannot close a database connection %s.", _when(job))


def _end_transaction(connection: Any, job: Job) -> None:
    """Roll back a transaction that a task has left open, and forget its connection.

    Django keeps a connection that was closed within `atomic` as closed: every later query of the thread would fail.
    """
    is_managed = not connection.autocommit and connection.connection and connection.settings_dict["AUTOCOMMIT"]
    if not (connection.in_atomic_block or is_managed):
        return
    message = 'Task %s[%s] left a transaction open on the database "%s": it is rolled back, and the connection closed.'
    logger.warning(message, job.name, job.id, connection.alias, extra=logs.facts(job))
    try:
        connection.close()
    finally:
        if connection.connection is None or connection.closed_in_transaction:
            del connections[connection.alias]
            thread_state.collected_at = 0.0
        else:  # SQLite in memory is not closed: the new connection must exist before the old one ends
            before = connection.connection
            before.rollback()
            connection.connect()


def _when(job: Job | None) -> str:
    return "before a task" if job is None else f"after task {job.name}[{job.id}]"


@contextmanager
def keep_transactions() -> Iterator[None]:
    """Leave open transactions and the log of queries as they are, in a thread that is not a worker's."""
    outer = thread_state.kept
    thread_state.kept = frozenset(each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block)
    try:
        yield
    finally:
        thread_state.kept = outer


class CoroutineThreads(Executor):
    """The threads for the synchronous parts of coroutines (the ORM), one for each run. Its first part starts it."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See `concurrent.futures.Executor.submit`. Called in the context of a coroutine."""
        run: Any = current_run.get()
        if run.executor is None:
            run.executor = forks.ForkSafeExecutor(max_workers=1)
        submitted: Future[R] = run.executor.submit(fn, *args, **kwargs)
        return submitted


#: In the context of each run on an event loop: asgiref looks up their executor by it.
_context = ThreadSensitiveContext()


def use_coroutine_threads() -> None:
    """Have the synchronous parts of coroutines of this context run in `CoroutineThreads`."""
    SyncToAsync.context_to_thread_executor[_context] = CoroutineThreads()
    SyncToAsync.thread_sensitive_context.set(_context)


async def close_coroutine_thread(executor: forks.ForkSafeExecutor, job: Job) -> None:
    """Close the database connections of a run's thread, and the thread; a cancellation ends the wait only."""
    try:
        closed = asyncio.get_running_loop().run_in_executor(executor, _close_all_or_log, job)
    except RuntimeError:  # the system has no thread left, and the run had none
        return
    finally:
        executor.shutdown(wait=False)  # after what was submitted
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.shield(closed)


def _close_all_or_log(job: Job) -> None:
    try:
        close_all(job)
    except BaseException:  # it must not change the outcome
        logger.exception("Cannot close a database connection after a task.")


def _on_connection_created(**_: Any) -> None:
    global last_opened
    last_opened = object()


connection_created.connect(_on_connection_created, dispatch_uid="django_redis_components.taskqueue.databases")
