"""What a task leaves in its thread does not reach the next task: transactions, connections, and thread-local state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection, connections

from django_redis_components.taskqueue import TaskResult
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.interruption import ThreadRun
from tests.support import Child, Store, eventually
from tests.support.postgres import Postgres
from tests.support.processes import Children
from tests.taskqueue.hostile.tasks import (
    activate,
    leave_transaction,
    leave_transaction_async,
    query_database,
    read_state,
)
from tests.taskqueue.support import new_fetcher, queue_worker, running_worker, work_off

pytestmark = pytest.mark.integration

SITE = {"DJANGO_SETTINGS_MODULE": "tests.taskqueue.hostile.site"}
WAYS = ["return", "raise", "autocommit", "savepoint", "broken", "closed", "limit"]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    server.start()
    yield server
    server.close()


def check_transactions_are_ended(worker: Child) -> None:
    """Leave transactions open in all ways; the tasks of the same thread must see committed data only."""
    assert query_database.enqueue("create").get(60) == 0
    for number, way in enumerate(WAYS):
        leave(leave_transaction.enqueue(way), worker)
        assert query_database.enqueue("add").get(60) == number + 1, way
    for way in ("return", "raise"):
        leave(leave_transaction_async.enqueue(way), worker)
        assert query_database.enqueue("count").get(60) == len(WAYS), way


def leave(result: TaskResult[str], worker: Child) -> None:
    """Wait until the task has ended and the worker has logged what it left."""
    eventually(lambda: (result.refresh(), result.is_finished)[1])
    worker.wait_for(f"[{result.id}] left a transaction open on the database")


def test_open_transactions_are_rolled_back_on_sqlite(redis_server: Store, children: Children, tmp_path: Any) -> None:
    worker = queue_worker(children, "--threads", "1", env=SITE | {"HOSTILE_SQLITE": str(tmp_path / "db")})

    check_transactions_are_ended(worker)


def test_open_transactions_are_rolled_back_on_postgresql(
    redis_server: Store, children: Children, postgres: Postgres
) -> None:
    env = SITE | {"TEST_POSTGRES_PORT": str(postgres.port)}
    worker = queue_worker(children, "--threads", "1", env=env)

    check_transactions_are_ended(worker)


@pytest.mark.django_db(transaction=True)
def test_open_transaction_is_logged_with_the_name_of_the_task(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    result = leave_transaction.enqueue("return")

    work_off()

    assert (
        f"Task tests.taskqueue.hostile.tasks.leave_transaction[{result.id}] left a transaction open on the database"
        ' "default": it is rolled back, and the connection closed.'
    ) in caplog.text
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert not connection.in_atomic_block


@pytest.mark.django_db
def test_transaction_around_the_task_stays_open(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    before = connections["default"]
    leave_transaction.enqueue("nothing")

    work_off()

    assert connections["default"] is before
    assert connection.in_atomic_block
    assert "left a transaction open" not in caplog.text


def check_state(first: Any, second: Any) -> None:
    assert first["language"] != second["language"]
    assert second == {
        "language": "en-us",
        "zone": "Europe/Berlin",
        "variable": "unset",
        "precision": 28,
        "rounding": "ROUND_HALF_EVEN",
    }


def test_thread_state_of_a_task_does_not_reach_the_next_one(redis_server: Store) -> None:
    with running_worker():
        first = activate.enqueue().get(60)
        second = read_state.enqueue().get(60)

    check_state(first, second)


def test_thread_state_of_a_task_does_not_reach_the_caller(redis_server: Store) -> None:
    before = read_state.func()
    results = [activate.enqueue(), read_state.enqueue()]

    work_off()

    [first, second] = [result.get(0) for result in results]
    check_state(first, second)
    assert read_state.func() == before


@pytest.mark.django_db(transaction=True)
def test_queries_of_earlier_tasks_are_not_kept(redis_server: Store, settings: Any) -> None:
    settings.DEBUG = True
    for _ in range(3):
        query_database.enqueue("select")
    fetcher = new_fetcher()

    while jobs := fetcher.fetch("0", 1):
        execute(jobs[0], ThreadRun(jobs[0]))  # as a thread of a worker does

    assert len(connection.queries_log) == 0
