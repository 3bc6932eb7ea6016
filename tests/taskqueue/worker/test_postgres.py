"""PostgreSQL under a worker that forks, and restarts of the database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import Child, Store, eventually
from tests.support.postgres import Postgres
from tests.support.processes import Children
from tests.taskqueue.support import Held, queue_worker
from tests.taskqueue.tasks import query, query_after

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One for all tests here; each leaves it running."""
    server = Postgres()
    server.start()
    yield server
    server.close()


def worker_on(children: Children, postgres: Postgres, *args: str, **env: str) -> Child:
    site = {"DJANGO_SETTINGS_MODULE": "tests.taskqueue.postgres_site", "TEST_POSTGRES_PORT": str(postgres.port)}
    return queue_worker(children, *args, env=site | env)


def test_processes_forked_beside_an_open_connection_have_their_own(
    redis_server: Store, children: Children, postgres: Postgres
) -> None:
    """The supervisor asks the database when it finds the tasks. A shared connection would mix up the answers."""
    worker = worker_on(children, postgres, "--processes", "2", "--threads", "4", QUERY_ON_IMPORT="1")

    answers = [result.get(60) for result in query.enqueue_many([((), {})] * 100)]

    assert {one for one, _, _ in answers} == {1}
    assert all(opened_by == ran_in for _, opened_by, ran_in in answers)
    assert worker.pid not in {ran_in for _, _, ran_in in answers}


@pytest.mark.parametrize("kept", [False, True], ids=["connections are closed after each task", "and kept open"])
def test_tasks_run_after_a_restart_of_the_database(
    redis_server: Store, children: Children, postgres: Postgres, kept: bool
) -> None:
    worker = worker_on(children, postgres, "--threads", "2", **({"TEST_POSTGRES_KEPT": "1"} if kept else {}))
    before = [result.get(60) for result in query.enqueue_many([((), {})] * 10)]

    postgres.stop()
    postgres.start()

    after = [result.get(60) for result in query.enqueue_many([((), {})] * 10)]
    assert {ran_in for _, _, ran_in in after} == {ran_in for _, _, ran_in in before}, "no process was restarted"
    assert worker.returncode is None


def test_task_running_in_an_outage_of_the_database_is_retried(
    redis_server: Store, children: Children, postgres: Postgres
) -> None:
    worker_on(children, postgres, "--threads", "2", TEST_POSTGRES_KEPT="1")
    held = Held(redis_server, "restart")
    result = query_after.enqueue("restart")
    held.started()

    postgres.stop()
    held.release()
    eventually(lambda: (result.refresh(), result.errors)[1])
    postgres.start()

    assert result.get(60) == 1
    assert result.errors[0].exception_class_path == "django.db.utils.OperationalError"
