"""Tasks that do what no task should, and tasks of another sender."""

from __future__ import annotations

import asyncio
import contextlib
import decimal
import logging
import os
import sys
import threading
import time
from contextvars import ContextVar
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connection, transaction
from django.utils import timezone, translation

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import Batch, BatchCall, SoftTimeLimitExceeded, task
from tests.taskqueue.hostile.errors import make

_kept: list[Any] = []


def count(name: str) -> None:
    """Count an event in Redis."""
    connections.client().execute(Command("INCR", f"{conf.settings().prefix}:count:{name}"))


@task(queue_name="good")
def good(number: int) -> int:
    """A task of another sender."""
    return number


@task(queue_name="good", max_attempts=100, backoff=0)  # a neighbor may cancel it
async def good_async(number: int) -> int:
    """A coroutine of another sender."""
    await asyncio.sleep(0)
    return number


@task
def raise_kind(kind: str) -> None:
    """Raise an exception that cannot be described."""
    raise make(kind)


@task
async def raise_kind_async(kind: str) -> None:
    """See `raise_kind`."""
    await asyncio.sleep(0)
    raise make(kind)


@task(batch=Batch(100))
def settle_each(calls: list[BatchCall]) -> None:
    """Fail each call with the exception of its kind; "good" succeeds."""
    for call in calls:
        if call.args[0] == "good":
            call.succeed("settled")
        else:
            call.fail(make(call.args[0]))


@task(batch=Batch(100))
async def settle_each_async(calls: list[BatchCall]) -> None:
    """See `settle_each`."""
    settle_each.batch_func(calls)


@task(max_attempts=3, backoff=0)
def return_once() -> str:
    """Count the runs."""
    count("return_once")
    return "returned"


@task
def close_output() -> str:
    """Close standard output and error."""
    sys.stdout.close()
    sys.stderr.close()
    return "closed"


@task
def delete_output() -> str:
    """Remove standard output and error."""
    sys.stdout = sys.stderr = None  # type: ignore[assignment]
    return "deleted"


@task
def break_hooks() -> str:
    """Replace the hooks for exceptions, and have the next call traced by a function that raises."""

    def broken(*_: Any) -> Any:
        raise SystemExit(8)

    sys.excepthook = threading.excepthook = sys.unraisablehook = broken
    sys.setprofile(broken)
    return "broken"


@task
def log_with_a_raising_filter() -> str:
    """Add a filter that raises, for the messages of the worker too."""

    def broken(record: logging.LogRecord) -> bool:
        raise SystemExit(9)

    logging.getLogger("django_redis_components.taskqueue").addFilter(broken)
    for handler in logging.getLogger("django_redis_components").handlers:
        handler.addFilter(broken)
    return "added"


@task
def exhaust_descriptors() -> str:
    """Keep all file descriptors of the process."""
    with contextlib.suppress(OSError):
        while True:
            _kept.append(os.open(os.devnull, os.O_RDONLY))
    return "exhausted"


@task
def exit_thread() -> None:
    """End the thread as `_thread.exit` does."""
    raise SystemExit


@task(max_attempts=2, backoff=0)
async def cancel_all_tasks() -> str:
    """Cancel all tasks of the event loop, this one too."""
    await asyncio.sleep(0)
    for each in asyncio.all_tasks():
        each.cancel()
    await asyncio.sleep(0)
    return "not cancelled"


@task
async def end_the_loop() -> str:
    """Do what `asyncio.run` does at its end, as a library does that takes the loop for its own."""
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
    loop.stop()
    return "ended"


@task
async def use_a_thread() -> str:
    """Use the threads of the loop."""
    return await asyncio.to_thread(lambda: "used")


@task(max_attempts=50, backoff=0)
async def wait_async(seconds: float) -> str:
    """Wait, whatever the neighbours cancel."""
    await asyncio.sleep(seconds)
    return "waited"


@task
async def cancel_late() -> str:
    """Let the cancellation arrive after the function, where the worker waits."""
    current = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def cancel() -> None:
        if current is not None and not current.done():
            current.cancel()
            loop.call_later(0.001, cancel)

    await sync_to_async(time.sleep)(0)  # its thread has to be closed
    loop.call_soon(cancel)
    return "returned"


@task
def leave_transaction(way: str) -> str:
    """Add a row in a transaction, and leave it open."""
    return open_transaction(way)


@task
async def leave_transaction_async(way: str) -> str:
    """See `leave_transaction`."""
    return await sync_to_async(open_transaction)(way)


def open_transaction(way: str) -> str:
    if way == "nothing":
        return "left"
    if way == "autocommit":
        transaction.set_autocommit(False)
    else:
        transaction.atomic().__enter__()
    if way == "savepoint":
        transaction.atomic().__enter__()
    with connection.cursor() as cursor:
        if connection.introspection.table_names(cursor):
            cursor.execute("INSERT INTO hostile VALUES (1)")
        if way == "broken":
            with contextlib.suppress(DatabaseError):
                cursor.execute("SELECT nothing FROM nowhere")
    if way == "closed":
        connection.close()
    if way == "raise":
        raise ValueError("raised in a transaction")
    if way == "limit":
        raise SoftTimeLimitExceeded
    return "left"


@task
def query_database(what: str) -> int:
    """Create a table, add a row, or do nothing; return the number of rows."""
    with connection.cursor() as cursor:
        if what == "select":
            cursor.execute("SELECT 1")
            return 1
        if what == "create":
            cursor.execute("CREATE TABLE hostile (number integer)")
        if what == "add":
            cursor.execute("INSERT INTO hostile VALUES (1)")
        cursor.execute("SELECT count(*) FROM hostile")
        return int(cursor.fetchone()[0])


variable: ContextVar[str] = ContextVar("variable", default="unset")


@task
def activate() -> dict[str, Any]:
    """Change the state of the thread; return it."""
    translation.activate("de")
    timezone.activate("Asia/Tokyo")
    variable.set("set")
    decimal.getcontext().prec = 5
    decimal.getcontext().rounding = decimal.ROUND_UP
    return read_state.func()


@task
def read_state() -> dict[str, Any]:
    """Return the state of the thread."""
    return {
        "language": translation.get_language(),
        "zone": timezone.get_current_timezone_name(),
        "variable": variable.get(),
        "precision": decimal.getcontext().prec,
        "rounding": decimal.getcontext().rounding,
    }


@task
def log_repeatedly() -> None:
    """Log until the time limit."""
    while True:
        logging.getLogger("django_redis_components.taskqueue").info("Task logs.")
