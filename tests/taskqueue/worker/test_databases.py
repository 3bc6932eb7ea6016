"""Django's database connections around tasks and after a fork."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.db import connection

from django_redis_components.taskqueue.worker import db_connections
from tests.support import Store
from tests.support.processes import Children
from tests.taskqueue.support import queue_worker, work_off
from tests.taskqueue.tasks import note, query, recorded

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """What had been noted when the open connection was asked whether it broke or is too old."""
    found: list[list[Any]] = []
    connection.ensure_connection()
    monkeypatch.setattr(connection, "close_if_unusable_or_obsolete", lambda: found.append(list(recorded)))
    db_connections.thread_state.checked_at = 0.0
    return found


def test_connections_are_checked_before_and_after_a_task(redis_server: Store, looks: list[list[Any]]) -> None:
    note.enqueue("ran")

    work_off()

    assert looks == [[], ["ran"]]


def test_connections_are_checked_once_between_consecutive_tasks(
    redis_server: Store, looks: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db_connections, "REFRESH_S", 60.0)
    note.enqueue_many([((number,), {}) for number in (1, 2)])

    work_off()

    assert looks == [[], [1], [1, 2]]


def test_connections_are_checked_again_after_a_pause(
    redis_server: Store, looks: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    note.enqueue(1)
    work_off()
    db_connections.thread_state.checked_at = time.monotonic() - db_connections.REFRESH_S - 0.1
    note.enqueue(2)

    work_off()

    assert looks == [[], [1], [1], [1, 2]]


def test_connection_above_its_max_age_is_closed_after_a_task(redis_server: Store, settings: Any) -> None:
    result = query.enqueue()
    connection.ensure_connection()
    connection.close_at = time.monotonic() - 1

    work_off()

    result.refresh()
    assert result.return_value[0] == 1
    assert connection.connection is None


def test_broken_connection_is_replaced_before_the_next_task(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.ensure_connection()
    monkeypatch.setattr(connection, "is_usable", lambda: False)
    connection.errors_occurred = True
    broken = connection.connection
    db_connections.thread_state.checked_at = 0.0
    result = query.enqueue()

    work_off()

    result.refresh()
    assert result.return_value[0] == 1
    assert connection.connection is not broken


def test_error_on_close_does_not_change_the_outcome(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    result = note.enqueue("ran")
    connection.ensure_connection()
    monkeypatch.setattr(db_connections, "REFRESH_S", 60.0)
    db_connections.thread_state.checked_at = time.monotonic()

    def fail() -> None:
        raise LookupError("the driver")

    monkeypatch.setattr(connection, "close_if_unusable_or_obsolete", fail)

    work_off()

    result.refresh()
    assert result.return_value == "ran"
    assert f"Cannot close a database connection after task tests.taskqueue.tasks.note[{result.id}]." in caplog.text


def test_a_connection_that_a_task_has_opened_is_closed_after_it(redis_server: Store, settings: Any) -> None:
    """The thread had none when it looked last, and does not look for others each time: Django tells it."""
    connection.close()
    work_off()
    db_connections.thread_state.connections, db_connections.thread_state.collected_at = (), time.monotonic() + 3_600
    connection.settings_dict["CONN_MAX_AGE"] = 0
    results = [query.enqueue(), query.enqueue()]

    work_off()

    assert connection.connection is None
    assert [(result.refresh(), result.return_value[0])[1] for result in results] == [1, 1]


def test_connections_without_a_signal_are_found_after_the_refresh_interval(
    redis_server: Store, looks: list[list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db_connections.thread_state, "connections", ())
    db_connections.thread_state.last_opened = db_connections.last_opened
    db_connections.thread_state.collected_at = time.monotonic() - db_connections.REFRESH_S - 0.1
    note.enqueue("ran")

    work_off()

    assert looks == [[], ["ran"]]


def test_process_has_separate_database_connections(redis_server: Store, children: Children) -> None:
    """The supervisor asks the database when it finds the tasks; what it opened then is not the worker's."""
    worker = queue_worker(children, env={"QUERY_ON_IMPORT": "1"})

    one, opened_by, ran_in = query.enqueue().get(60)

    assert one == 1
    assert opened_by == ran_in != worker.pid
