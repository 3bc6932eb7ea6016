"""The outbox across processes: kills at each step, two relays, a restart of the database, workers and pollers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.utils import ConnectionHandler

from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.core.names import dotted_path
from django_redis_components.locks import Lock
from django_redis_components.management.commands import runpoller, runworker
from django_redis_components.taskqueue import get_queue, startup
from django_redis_components.taskqueue.middleware import pipeline
from tests.contrib.outbox.support import SITE, nothing_is_sent, ready, relay_once, row_count
from tests.support import Child, Store, eventually
from tests.support.postgres import Postgres
from tests.support.processes import Children
from tests.taskqueue.support import base_key, work_off
from tests.taskqueue.tasks import add, recorded

pytestmark = pytest.mark.integration

WORK = "tests.contrib.outbox.work"

#: Where a process can die between the INSERT of a row and the end of its deletion.
POINTS = [
    "before_commit",
    "after_commit",
    "after_send",
    "before_relay",
    "after_relay",
    "before_delete_commits",
    "after_delete",
]


def words_of_committed_tasks() -> list[str]:
    """Return the arguments of the tasks that `die_at_each` has committed."""
    return sorted(f"{point} {number}" for point in POINTS[1:] for number in (1, 2))


def arguments_of_ready_tasks() -> list[Any]:
    """Return the first argument of each ready task, in order."""
    tasks = get_queue("default")
    pages = [tasks.tasks("ready", limit=1_000, offset=start) for start in range(0, ready(), 1_000)]
    return [task.args[0] for page in pages for task in page]


def test_process_that_is_killed_loses_nothing_and_doubles_nothing(
    redis_server: Store, table: None, children: Children
) -> None:
    connection.close()
    codes = children.call(f"{WORK}:die_at_each", POINTS, env=SITE).result()
    for job in work_off():
        redis_server.raw.delete(base_key(redis_server, "t", job.id))  # the records expire before the rows are deleted

    relay_once()
    work_off()

    assert codes == [-9] * len(POINTS)
    assert row_count() == 0
    assert sorted(recorded) == words_of_committed_tasks()


@pytest.mark.parametrize("command", ["runpoller", "runworker"])
def test_command_sends_what_a_process_has_only_committed(
    redis_server: Store, table: None, children: Children, command: str
) -> None:
    with nothing_is_sent():
        add.enqueue_on_commit(1, 1)

    child = children.manage(command, env=SITE)

    eventually(lambda: row_count() == 0)
    child.terminate()
    assert child.wait() == 0
    assert not Lock("outbox:default").locked()


@pytest.mark.parametrize(("options", "relays"), [([], True), (["--no-poller"], False)])
@pytest.mark.parametrize("is_installed", [True, False])
def test_worker_relays_if_it_polls_and_the_app_is_installed(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, options: list[str], relays: bool, is_installed: bool
) -> None:
    found: list[str] = []

    def run_worker(*_: Any, **__: Any) -> int:
        found.extend(dotted_path(type(each)) for each in pipeline.current().all)
        for each in pipeline.current().all:
            pipeline.uninstall(each)
        return 0

    monkeypatch.setattr(startup, "run_worker", run_worker)
    monkeypatch.setattr(runworker.apps, "is_installed", lambda _: is_installed)
    with pytest.raises(SystemExit):
        call_command("runworker", *options)

    assert ("django_redis_components.contrib.outbox.relay.RelayMiddleware" in found) == (relays and is_installed)


def test_poller_of_a_site_without_the_app_relays_nothing(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_poller(*_: Any, beside: AbstractContextManager[None], **__: Any) -> int:
        with beside:
            return 0

    monkeypatch.setattr(startup, "run_poller", run_poller)
    monkeypatch.setattr(runpoller.apps, "is_installed", lambda _: False)

    with pytest.raises(SystemExit) as caught:
        call_command("runpoller")

    assert caught.value.code == 0


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """One for all tests here."""
    started = Postgres()
    started.start()
    yield started
    started.close()


@pytest.fixture
def postgres(server: Postgres, django_db_blocker: Any) -> Iterator[Any]:
    """A connection to PostgreSQL, with the tables of the outbox and of orders."""
    options = {"NAME": "postgres", "USER": "postgres", "HOST": "127.0.0.1", "PORT": server.port}
    made = ConnectionHandler({"default": {"ENGINE": "django.db.backends.postgresql", **options}})["default"]
    with django_db_blocker.unblock():
        with made.schema_editor(atomic=False) as editor:
            editor.create_model(OutboxEntry)
            editor.execute("CREATE TABLE orders (number bigint PRIMARY KEY)")
        yield made
        with made.schema_editor(atomic=False) as editor:
            editor.delete_model(OutboxEntry)
            editor.execute("DROP TABLE orders")
        made.close()


def run_together(children: Children, server: Postgres, target: str, calls: list[list[Any]]) -> Child:
    env = SITE | {"TEST_POSTGRES_PORT": str(server.port)}
    return children.call("tests.support.forks:run_together", f"{WORK}:{target}", calls, env=env)


def insert_rows(postgres: Any, count: int) -> None:
    """Insert rows of tasks; the number of the row is the argument of the task."""
    body = '{"task":["%d","default","",0,"","","n","tests.taskqueue.tasks.note","b","[[%d],{}]"]}'
    with postgres.cursor() as cursor:
        cursor.executemany(
            'INSERT INTO django_redis_components_outbox ("using", token, format, message, size, created_at)'
            " VALUES ('default', %s, 1, %s, 100, now())",
            [(str(number), (body % (number, number)).encode()) for number in range(count)],
        )


def test_two_active_relays_send_each_task_once(
    redis_server: Store, children: Children, server: Postgres, postgres: Any
) -> None:
    insert_rows(postgres, 2_000)

    run_together(children, server, "relay_all", [[], []]).result()

    assert sorted(arguments_of_ready_tasks()) == list(range(2_000))


def test_killed_processes_lose_and_double_nothing_on_a_database_that_locks_rows(
    redis_server: Store, children: Children, server: Postgres, postgres: Any
) -> None:
    env = SITE | {"TEST_POSTGRES_PORT": str(server.port)}

    codes = children.call(f"{WORK}:die_at_each", POINTS, env=env).result()
    run_together(children, server, "relay_all", [[]]).result()

    assert codes == [-9] * len(POINTS)
    assert sorted(arguments_of_ready_tasks()) == words_of_committed_tasks()


def test_relay_whose_database_connection_ends_at_any_step_sends_each_task_and_signal_once(
    redis_server: Store, children: Children, server: Postgres, postgres: Any
) -> None:
    insert_rows(postgres, 20)
    points = ["before_relay", "after_relay", "before_delete_commits", "after_delete"] * 2

    [sent] = cast(Any, run_together(children, server, "relay_through_failures", [[points]]).result())

    assert sorted(sent) == list(range(20))
    assert sorted(arguments_of_ready_tasks()) == list(range(20))


def test_restart_of_the_database_in_the_middle_of_a_batch_repeats_neither_tasks_nor_signals(
    redis_server: Store, children: Children, server: Postgres, postgres: Any, tmp_path: Path
) -> None:
    insert_rows(postgres, 120)
    postgres.close()
    child = run_together(children, server, "relay_beside_a_restart", [[str(tmp_path)]])
    eventually((tmp_path / "sent").exists)
    assert ready() == 50

    server.stop()
    server.start()
    (tmp_path / "restarted").touch()

    [sent] = cast(Any, child.result())
    assert sorted(sent) == list(range(120))
    assert sorted(arguments_of_ready_tasks()) == list(range(120))


def test_what_the_database_has_committed_is_sent_after_its_restart_and_nothing_else(
    redis_server: Store, children: Children, server: Postgres, postgres: Any
) -> None:
    sites = run_together(children, server, "order", [[0, 2.0], [1_000_000, 2.0]])
    eventually(lambda: ready() > 20)

    postgres.close()
    server.stop()
    server.start()

    failures: Any = sites.result()
    with postgres.cursor() as cursor:
        cursor.execute("SELECT number FROM orders ORDER BY number")
        committed = [number for (number,) in cursor.fetchall()]
    assert all(failures)
    assert sorted(arguments_of_ready_tasks()) == committed
