"""What child processes do in the tests of the outbox. They are killed at the failpoint that the test names."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection, transaction

from django_redis_components.contrib.outbox import relay as relay_module
from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.contrib.outbox.relay import Relay, relaying
from django_redis_components.core import circuit_breaker
from django_redis_components.taskqueue import failpoints, signals
from tests.support import eventually
from tests.taskqueue.tasks import note


class NoLease:
    """In place of the lock: this relay is active, whatever the others are."""

    fencing_token = 1

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def acquire(self) -> bool:
        return True

    def reacquire(self) -> bool:
        return True

    def release(self) -> None: ...


def die_at(point: str) -> None:
    """Kill this process when it reaches the failpoint."""

    def reach(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.hook = reach


def die_at_each(points: list[str]) -> list[int]:
    """Commit two tasks and make a pass, in a process for each failpoint that dies there; return the exit codes."""
    relay_module.Lock = NoLease  # type: ignore[assignment,misc]  # a killed process keeps its lease for some seconds
    codes = []
    for point in points:
        pid = os.fork()
        if not pid:
            try:
                die_at(point)
                commit_and_relay(point)
            finally:
                os._exit(1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return codes


def commit_and_relay(point: str) -> None:
    """Commit two tasks, of which nothing is sent if the relay is to die; then make a pass."""
    if "relay" in point or "delete" in point:
        circuit_breaker.breaker_for("default").record_failure(3_600)
    with transaction.atomic():
        note.enqueue_on_commit(f"{point} 1")
        note.using(id=point).enqueue_on_commit(f"{point} 2")
        failpoints.reach("before_commit")
    circuit_breaker.forget_failures()
    Relay("default").step()


def relay_all() -> None:
    """Relay beside others, without a lease, until no row is left."""
    relay_module.Lock = NoLease  # type: ignore[assignment,misc]
    relay_module.BATCH = 50
    relay = Relay("default")
    while OutboxEntry._base_manager.exists():
        relay.step()


def relay_through_failures(points: list[str]) -> list[int]:
    """Relay until no row is left; at each of the failpoints the server ends the connection to the database once.

    Returns:
        The first arguments of the tasks whose signals were sent.
    """
    left = list(points)

    def fail(name: str) -> None:
        if left and name == left[0]:
            left.pop(0)
            end_connection()

    sent = record_signals()
    failpoints.hook = fail
    relay_with_errors(batch=3)
    assert not left
    return sent


def relay_beside_a_restart(folder: str) -> list[int]:
    """Relay until no row is left; after the first tasks were sent, wait until the database was restarted.

    Returns:
        See `relay_through_failures`.
    """

    def wait(name: str) -> None:
        if name == "after_relay":
            failpoints.hook = None
            Path(folder, "sent").touch()
            eventually(Path(folder, "restarted").exists)

    sent = record_signals()
    failpoints.hook = wait
    relay_with_errors(batch=50)
    return sent


def record_signals() -> list[int]:
    """Return a list that gets the first argument of each task whose signal is sent."""
    sent: list[int] = []
    signals.task_enqueued.connect(lambda task_result, **_: sent.append(task_result.args[0]), weak=False)
    return sent


def relay_with_errors(batch: int) -> None:
    """Relay until no row is left, also if the database fails."""
    relay_module.Lock = NoLease  # type: ignore[assignment,misc]
    relay_module.BATCH = batch
    relay, has_rows = Relay("default"), True
    while has_rows:
        relay.step()
        with suppress(DatabaseError):
            has_rows = OutboxEntry._base_manager.exists()
        connection.close_if_unusable_or_obsolete()


def end_connection() -> None:
    """Let the server end this thread's connection to the database, as in a failover."""
    import psycopg

    options = connection.settings_dict
    pid = connection.connection.info.backend_pid
    with psycopg.connect(host=options["HOST"], port=options["PORT"], user=options["USER"], dbname="postgres") as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])


def order(first: int, seconds: float) -> int:
    """Be a relay, and commit orders, each with a task, for some seconds; a database that is away is asked again.

    Returns:
        How often the database was away.
    """
    number, ends_at, failures = first, time.monotonic() + seconds, 0
    with relaying("default"):
        while time.monotonic() < ends_at:
            number += 1
            try:
                with transaction.atomic(), connection.cursor() as cursor:
                    cursor.execute("INSERT INTO orders VALUES (%s)", [number])
                    note.enqueue_on_commit(number)
            except DatabaseError:
                failures += 1
                connection.close()
                time.sleep(0.01)
        while OutboxEntry._base_manager.exists():
            time.sleep(0.02)
    return failures
