"""Django's database connections around tasks: what broke or grew too old is closed, as Django does around a request.

Django's `close_old_connections` looks for the connections of its thread each time: a fifth of the time of a short task.
Which ones there are changes when one is opened, and Django tells of that: so they are looked for after that, and now
and then; the rest of the time those that were found are asked.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext
from django.db import connections
from django.db.backends.signals import connection_created

from django_redis_components.taskqueue import forks

logger = logging.getLogger("django_redis_components.taskqueue")

#: Seconds after which a thread asks its connections before a task too, and looks for them; after a task it always asks.
LOOK_AGAIN_S = 0.5


class _Seen(threading.local):
    """What a thread has found."""

    connections: tuple[Any, ...] = ()
    asked_at = 0.0
    found_at = 0.0
    last_opened: object = None


_seen = _Seen()
#: Another object whenever a connection was opened, by whatever thread.
_last_opened = object()


def look_after_pause() -> None:
    """Before a task: see `look`, unless the thread has just done so."""
    if time.monotonic() - _seen.asked_at > LOOK_AGAIN_S:
        look()


def look() -> None:
    """Close those of this thread's connections that broke, or outlived CONN_MAX_AGE."""
    now, last_opened = time.monotonic(), _last_opened
    if _seen.last_opened is not last_opened or now - _seen.found_at > LOOK_AGAIN_S:
        _seen.connections = tuple(connections.all(initialized_only=True))
        _seen.last_opened, _seen.found_at = last_opened, now
    for each in _seen.connections:
        each.close_if_unusable_or_obsolete()
    _seen.asked_at = now


def close_all() -> None:
    """Close all of this thread's connections, whatever they are in the middle of."""
    connections.close_all()


@asynccontextmanager
async def own_thread() -> AsyncIterator[None]:
    """One thread for the synchronous parts of a coroutine (the ORM), whose connections are closed with it."""
    async with ThreadSensitiveContext() as context:
        executor = forks.ForkSafeExecutor(max_workers=1)
        SyncToAsync.context_to_thread_executor[context] = executor
        try:
            yield
        finally:
            SyncToAsync.context_to_thread_executor.pop(context, None)
            if executor.is_used:
                await asyncio.get_running_loop().run_in_executor(executor, _close_databases)
                executor.shutdown(wait=False)


def _close_databases() -> None:
    try:
        close_all()
    except Exception:  # the outcome stands
        logger.exception("A database connection could not be closed after a task.")


def _opened(**_: Any) -> None:
    global _last_opened
    _last_opened = object()


connection_created.connect(_opened, dispatch_uid="django_redis_components.taskqueue.databases")
