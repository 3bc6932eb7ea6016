"""`inline()` runs tasks when they are enqueued, without Redis."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.test import TestCase

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Read
from django_redis_components.taskqueue import (
    GroupNotOpen,
    TaskContext,
    TaskFailed,
    chain,
    get_flow,
    group,
    registry,
    task,
)
from django_redis_components.testing import assert_enqueued, assert_nothing_enqueued, captured, inline
from tests.support import Store, run_async
from tests.taskqueue.tasks import (
    add,
    add_async,
    come_back,
    echo,
    fail,
    fail_and_give_up,
    fail_thrice,
    note,
    recorded,
    return_what_is_not_json,
    use_context,
)


@task
def enqueue_and_get_result(text: str) -> str:
    """Enqueue another task and use its result."""
    return note.enqueue(f"{text}!").get() + "?"


@task
def write_and_fail() -> None:
    """Write to the database, then raise."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE written_inline (word text)")
    raise LookupError("after writing")


@task
def exhaust() -> None:
    """Raise StopIteration."""
    next(iter(()))


def test_stop_iteration_of_a_task_is_raised_and_does_not_block_coroutines() -> None:
    with inline():
        with pytest.raises(StopIteration):
            exhaust.enqueue()
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            run_async(exhaust.aenqueue)


def test_task_runs_when_enqueued() -> None:
    with inline():
        result = add.enqueue(2, 3)

        result.refresh()
        assert (result.state, result.return_value, result.attempts) == ("successful", 5, 1)
        assert result.get(0) == 5
        assert add.get_result(result.id) == result
        assert result.started_at is not None
        assert result.finished_at is not None


def test_arguments_and_return_values_are_converted_to_json_and_back() -> None:
    with inline(raise_errors=False):
        result = echo.enqueue((1, (2,)), key={"a": (3,)})
        result.refresh()
        assert result.return_value == [[[1, [2]]], {"key": {"a": [3]}}]
        failed = return_what_is_not_json.enqueue()
        failed.refresh()
        assert failed.errors[0].exception_class_path == "builtins.TypeError"
        with pytest.raises(TypeError, match="expected JSON"):
            echo.enqueue({1, 2})


def test_enqueue_raises_the_error_of_the_task() -> None:
    with inline() as sent:
        with pytest.raises(LookupError, match=r"^mine$"):
            fail.enqueue("mine")
        with pytest.raises(LookupError, match=r"^many$"):
            fail.enqueue_many([(("many",), {}), (("not raised",), {})])
        with pytest.raises(LookupError, match=r"^async$"):
            run_async(fail.aenqueue, "async")
        with pytest.raises(LookupError, match=r"^async many$"):
            run_async(fail.aenqueue_many, [(("async many",), {})])

        assert [each.args for each in sent] == [["mine"], ["many"], ["not raised"], ["async"], ["async many"]]


def test_raise_errors_false_records_the_error_in_the_result() -> None:
    with inline(raise_errors=False):
        result = fail.enqueue("mine")

        with pytest.raises(TaskFailed, match=r"Last error: builtins.LookupError: mine"):
            result.get(0)
    assert (result.state, [error.message for error in result.errors]) == ("failed", ["mine"])


def test_retries_run_without_delay() -> None:
    with inline():
        with pytest.raises(LookupError, match=r"^again$"):
            fail_thrice.using(backoff=600).enqueue()
        [sent] = assert_enqueued(fail_thrice, count=1)
        result = fail_thrice.get_result(sent.id)
        assert (result.state, result.attempts, len(result.errors)) == ("failed", 3, 3)
        with pytest.raises(LookupError, match=r"^hopeless$"):
            fail_and_give_up.enqueue()


def test_retries_stop_after_100_runs() -> None:
    with inline():
        result = fail.using(max_attempts=1_000).enqueue()
        result.refresh()

    assert (result.state, result.attempts) == ("retrying", 100)


def test_task_with_unregistered_name_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "tasks", {})
    with inline():
        result = add.enqueue(1, 2)
        result.refresh()

    assert (result.state, result.worker_ids) == ("unregistered", [])


def test_delayed_task_runs_at_once() -> None:
    with inline():
        result = add.using(run_after=3_600).enqueue(1, 2)
        result.refresh()

    assert result.return_value == 3


def test_task_can_enqueue_another_task_and_read_its_result() -> None:
    with inline():
        result = enqueue_and_get_result.enqueue("word")
        assert result.get() == "word!?"
        assert_enqueued(note, args=["word!"], count=1)


def test_coroutine_tasks_run_from_sync_and_async_callers() -> None:
    with inline():
        assert add_async.enqueue(1, 2).get() == 3

        async def send() -> Any:
            result = await add_async.aenqueue(2, 2)
            return await result.aget(), (await add.aenqueue(3, 3)).id

        value, other = run_async(send)
        assert value == 4
        assert add.get_result(other).return_value == 6


def test_context_writes_metadata_and_progress() -> None:
    with inline():
        result = use_context.enqueue(["set", "page", 3], ["save_metadata"], ["progress", 1, 2, "half"], fails=1)
        result.refresh()

        assert (result.metadata, result.attempts) == ({"page": 3}, 2)
        assert result.progress is not None
        assert (result.progress.done, result.progress.total, result.progress.note) == (1, 2, "half")


def test_flow_runs_when_enqueued() -> None:
    with inline():
        flow = chain(add.s(1, 2), group(add.s(10), add.s(20)), echo.s("end")).enqueue(on_error=note.s())

        assert flow.get() == [[[13, 23], "end"], {}]
        assert run_async(get_flow(flow.id).aget) == [[[13, 23], "end"], {}]
    assert recorded == []


def test_failed_flow_fails_followers_and_runs_the_error_task() -> None:
    with inline(raise_errors=False):
        flow = chain(add.s(1, 2), group(fail.si("no"), note.si("beside")), echo.s(), echo.s()).enqueue(
            on_error=note.s()
        )
        flow.refresh()

        assert [result.state for result in flow.results] == ["successful", "failed", "successful", "failed", "failed"]
        root = flow.results[1]
        message = f"Not run: task {root.id} (tests.taskqueue.tasks.fail), on which it depends, failed."
        assert [flow.results[3].errors[0].message, flow.last.errors[0].message] == [message] * 2
        assert recorded[1] == "beside" or recorded[0] == "beside"
        [error] = [word for word in recorded if word != "beside"]
        assert (error["task_id"], error["reason"], error["error"]["message"]) == (root.id, "failed", "no")


def test_flow_raises_its_first_error_after_all_tasks_have_run() -> None:
    with inline(), pytest.raises(LookupError, match=r"^first$"):
        group(fail.s("first"), fail.s("second"), note.s("after")).enqueue(on_error=note.si("rescue"))

    assert sorted(recorded) == ["after", "rescue"]


def test_flow_with_members_that_may_fail_runs_its_callbacks() -> None:
    with inline(raise_errors=False):
        flow = (
            group(fail.s("no").on_failure("ignore"), chain(fail.s("b"), echo.s().on_failure("continue")), add.s(1, 2))
            .then(note.s())
            .enqueue(on_error=note.si("error"), on_complete=note.s(), on_success=note.si("success"))
        )

    error, [failure, three], summary = recorded
    assert (error, three) == ("error", 3)
    assert (failure["task_id"], failure["reason"]) == (flow.results[2].id, "was not run")
    assert summary == {"flow_id": flow.id, "state": "failed", "tasks": 5, "failed": 2}


def test_flow_whose_failures_are_ignored_raises_nothing_and_succeeds() -> None:
    with inline():
        flow = chain(fail.s("no").on_failure("ignore"), note.s()).enqueue(
            on_error=note.si("error"), on_complete=note.si("complete"), on_success=note.s()
        )
        assert flow.get() is None

    assert recorded == [None, "complete", {"flow_id": flow.id, "state": "successful", "tasks": 2, "failed": 0}]


@task(takes_context=True)
def add_notes(context: TaskContext, *words: str) -> str:
    """Add a task for each word to the group."""
    return ", ".join(result.name.rpartition(".")[2] for result in context.flow.add(*(note.s(word) for word in words)))


def test_running_member_adds_tasks_to_its_group() -> None:
    with inline():
        flow = group(add_notes.s("a", "b"), add.s(1, 2)).then(echo.s()).enqueue(on_complete=note.s())
        alone = group(add_notes.s("c", "c")).enqueue()

        assert flow.get() == [[["note, note", 3, "a", "b"]], {}]
        assert alone.get() == ["note, note", "c", "c"]
    assert recorded == [
        "a", "b", {"flow_id": flow.id, "state": "successful", "tasks": 5, "failed": 0}, "c", "c",
    ]  # fmt: skip


def test_task_outside_of_a_flow_adds_none() -> None:
    with inline(), pytest.raises(GroupNotOpen, match=r"it is not part of a flow\. Use enqueue\(\)\.$"):
        add_notes.enqueue("a")


def test_cancelled_flow_does_not_run() -> None:
    with captured() as sent:
        flow = chain(note.s(1), note.si(2)).enqueue(on_error=note.si("rescue"))
        other = chain(note.s(3), note.si(4)).enqueue(on_error=note.si("other rescue"))
        assert flow.cancel() == 2
        assert other.results[0].cancel()

        sent.run()

        other.refresh()
        assert other.last.errors[0].message.endswith("on which it depends, was cancelled.")
    assert recorded == ["other rescue"]


def test_follower_of_a_rescheduled_task_keeps_waiting() -> None:
    with inline():
        flow = chain(come_back.s(60), note.s()).enqueue()
        flow.refresh()
        assert [result.state for result in flow.results] == ["scheduled", "waiting"]


@pytest.mark.django_db  # keeps the connection open between the tests of the class
class InATestCase(TestCase):
    """Tests inside the transaction of Django's `TestCase`."""

    def test_task_uses_the_database_connection_of_the_test(self) -> None:
        with inline(raise_errors=False):
            write_and_fail.enqueue()
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM written_inline")
            assert cursor.fetchone() == (0,)

    def test_enqueue_on_commit_runs_with_the_commit_callbacks(self) -> None:
        with inline():
            with self.captureOnCommitCallbacks(execute=True), transaction.atomic():
                result = note.enqueue_on_commit("committed")
                assert_nothing_enqueued()
            assert result.get() == "committed"


@inline()
def test_inline_decorates_a_test() -> None:
    assert add.enqueue(1, 2).get() == 3


def test_requests_of_other_components_reach_redis(redis_server: Store) -> None:
    redis_server.raw.set(f"{redis_server.prefix}:mine", "1")
    with inline():
        client = connections.client()
        assert client.close.__self__ is not client
        assert client.execute(Read("GET", f"{redis_server.prefix}:mine")) == b"1"
        assert client.execute_many([Read("GET", f"{redis_server.prefix}:mine")]) == [b"1"]
        assert client.wait(f"{redis_server.prefix}:wakeup", 0.01) is None

        async def request_async() -> list[Any]:
            aclient = connections.aclient()
            assert aclient.close.__self__ is not aclient
            return [
                await aclient.execute(Read("GET", f"{redis_server.prefix}:mine")),
                *await aclient.execute_many([Read("GET", f"{redis_server.prefix}:mine")]),
                await aclient.wait(f"{redis_server.prefix}:wakeup", 0.01),
            ]

        assert run_async(request_async) == [b"1", b"1", None]
    assert [key for key in redis_server.keys() if b"taskqueue" in key] == []  # noqa: SIM118
