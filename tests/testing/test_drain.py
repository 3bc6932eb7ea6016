"""`drain()` runs the ready tasks of a real server in this thread."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import TestCase
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue import chain, get_queue, group, task
from django_redis_components.taskqueue.shards import home
from django_redis_components.testing import assert_enqueued, captured, drain, inline
from tests.support import Store
from tests.taskqueue.tasks import add, come_back, echo, fail, fail_thrice, note, recorded


@pytest.fixture(autouse=True)
def _clear_recorded() -> None:
    recorded.clear()


@task
def enqueue_itself_later(number: int) -> None:
    """Enqueue itself with a delay."""
    recorded.append(number)
    enqueue_itself_later.using(run_after=3_600).enqueue(number + 1)


@task
def enqueue_itself_at_once() -> None:
    """Enqueue itself at once."""
    enqueue_itself_at_once.enqueue()


def test_ready_tasks_run_in_order_and_their_results_are_returned(store: Store) -> None:
    results = [add.enqueue(1, 2), note.enqueue("b"), note.using(priority=1).enqueue("a")]

    ran = drain("default")

    assert ran == [results[2], *results[:2]]
    assert [result.return_value for result in ran] == ["a", 3, "b"]
    assert recorded == ["a", "b"]
    assert drain("default") == []
    assert get_queue("default").info().running == 0


def test_drain_without_names_drains_all_queues(store: Store) -> None:
    note.using(queue_name="mail").enqueue("mail")
    note.enqueue("default")

    assert len(drain()) == 2
    assert sorted(recorded) == ["default", "mail"]


def test_drain_of_an_empty_server_returns_no_results(redis_server: Store) -> None:
    assert drain() == []
    assert drain(advance=True) == []


def test_named_queues_are_drained_in_order(redis_server: Store) -> None:
    for queue in ("low", "high", "other"):
        note.using(queue_name=queue).enqueue(queue)

    drain("high", "low")

    assert recorded == ["high", "low"]


def test_tasks_enqueued_by_tasks_run_too(redis_server: Store) -> None:
    flow = chain(group(add.s(1, 1), add.s(2, 2)), echo.s()).enqueue()

    ran = drain()

    assert [result.id for result in ran] == [result.id for result in flow.results]
    assert flow.get(0) == [[[2, 4]], {}]


def test_scheduled_tasks_run_only_with_advance(store: Store) -> None:
    for minutes in (3, 1, 2):
        note.using(run_after=timedelta(minutes=minutes)).enqueue(minutes)
    note.using(queue_name="mail", run_after=90).enqueue("mail")

    assert drain() == []
    assert len(drain(advance=timedelta(minutes=2.5))) == 3
    assert recorded == [1, "mail", 2]
    assert len(drain(advance=True)) == 1
    assert get_queue("default").info().scheduled == 0


def test_retries_run_only_with_advance(redis_server: Store) -> None:
    result = fail_thrice.using(backoff=60).enqueue()
    drain()
    result.refresh()
    assert result.state == "retrying"

    with pytest.raises(LookupError, match=r"^again$"):
        drain(advance=True)

    result.refresh()
    assert (result.state, len(result.errors)) == ("failed", 3)


def test_task_that_ran_twice_is_returned_once(redis_server: Store) -> None:
    result = come_back.enqueue(30)

    assert drain(advance=60) == [result]
    assert recorded == ["come_back"]


def test_first_error_is_raised_and_the_other_tasks_stay_ready(redis_server: Store) -> None:
    failed = fail.enqueue("mine")
    note.enqueue("after")

    with pytest.raises(LookupError, match=r"^mine$"):
        drain()

    failed.refresh()
    assert failed.state == "failed"
    assert recorded == []
    assert get_queue("default").info().running == 0
    drain()
    assert recorded == ["after"]


def test_raise_errors_false_records_the_error_in_the_result(redis_server: Store) -> None:
    fail.enqueue("mine")
    note.enqueue("after")

    ran = drain(raise_errors=False)

    assert [result.state for result in ran] == ["failed", "successful"]


def test_drain_raises_at_the_limit_for_a_task_that_enqueues_itself(redis_server: Store) -> None:
    enqueue_itself_at_once.enqueue()
    expected = r"^drain\(\) ran 20 tasks and more are ready\. A task may enqueue itself; otherwise"
    with pytest.raises(RuntimeError, match=expected):
        drain(limit=20)
    assert get_queue("default").info().running == 0

    enqueue_itself_later.using(queue_name="other").enqueue(1)
    with pytest.raises(RuntimeError, match="ran 9 tasks"):
        drain("other", "default", advance=True, limit=9)
    assert recorded == [1]


@task
def forget(task_id: str) -> None:
    """Delete another task's result."""
    connections.client().execute(Command("DEL", home().record(task_id)))


def test_expired_result_is_omitted(redis_server: Store) -> None:
    gone = add.enqueue(1, 2)
    stays = forget.enqueue(gone.id)

    assert drain() == [stays]


def test_drain_runs_captured_tasks_that_were_delivered(redis_server: Store) -> None:
    with captured(deliver=True) as sent:
        result = add.enqueue(1, 2)
        chain(note.s("a"), note.s()).enqueue()
        assert_enqueued(add, args=[1, 2], count=1)
        assert_enqueued(note, count=2)
        with pytest.raises(RuntimeError, match=r"captured\(deliver=True\) sent the tasks to Redis\. Call drain\(\)"):
            sent.run()

        drain()

        assert result.get(1) == 3
    assert recorded == ["a", "a"]


def test_drain_raises_inside_captured_and_inline(redis_server: Store) -> None:
    with inline(), pytest.raises(RuntimeError, match=r"is not supported by inline\(\) and captured\(\)"):
        drain()


def test_drain_raises_when_redis_is_unavailable() -> None:
    with pytest.raises(RedisError):
        drain("default")


@task
def count_rows() -> int:
    """Count rows through Django's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM drained")
        [(count,)] = cursor.fetchall()
    return int(count)


@pytest.mark.django_db  # keeps the connection open between the tests of the class
@pytest.mark.usefixtures("redis_server")
class InATestCase(TestCase):
    """Tests inside the transaction of Django's `TestCase`."""

    def test_drained_task_sees_uncommitted_data_of_the_test(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE drained (word text)")
            cursor.execute("INSERT INTO drained VALUES ('a')")
        count_rows.enqueue()

        [result] = drain()

        assert result.return_value == 1
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM drained")


def test_invalid_queue_name_is_rejected(redis_server: Store) -> None:
    with pytest.raises(
        TypeError, match=r"^queue name <Task tests\.taskqueue\.tasks\.add>: expected a string, got Task"
    ):
        drain(add)  # type: ignore[arg-type]
