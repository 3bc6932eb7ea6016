"""`captured()` collects enqueued tasks without Redis."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import TestCase
from django.utils import timezone

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Read
from django_redis_components.taskqueue import (
    NotPending,
    TaskResultDoesNotExist,
    UniqueKeyConflict,
    chain,
    get_flow,
    get_queue,
    group,
)
from django_redis_components.taskqueue.enqueue import prepare
from django_redis_components.taskqueue.shards import home
from django_redis_components.testing import (
    SentTask,
    assert_enqueued,
    assert_nothing_enqueued,
    captured,
    inline,
    sent_tasks,
)
from tests.support import run_async
from tests.taskqueue.tasks import add, come_back, echo, fail, note, recorded


def test_enqueued_task_is_collected_and_does_not_run() -> None:
    recorded.clear()
    with captured() as sent:
        result = note.using(queue_name="mail", priority=3, run_after=60).enqueue("word")

    assert recorded == []
    assert list(sent) == [
        SentTask(
            id=result.id,
            name="tests.taskqueue.tasks.note",
            args=["word"],
            kwargs={},
            queue_name="mail",
            priority=3,
            run_after=60.0,
            using="default",
        )
    ]
    assert (len(sent), sent[0].id, sent[:1], repr(sent)) == (1, result.id, [sent[0]], "<1 tasks sent>")
    assert result.state == "scheduled"
    assert result.enqueued_at is not None


def test_arguments_are_converted_to_json() -> None:
    with captured():
        echo.enqueue((1, 2), key=("a",))
        assert_enqueued(echo, args=[(1, 2)], kwargs={"key": ("a",)})
        assert_enqueued(echo, args=[[1, 2]], kwargs={"key": ["a"]})
        with pytest.raises(TypeError, match=r"args\[0\] is a builtins\.object: expected JSON"):
            echo.enqueue(object())


def test_assert_enqueued_accepts_a_task_a_function_or_a_name() -> None:
    with captured() as sent:
        add.enqueue(1, 2)

        for task in (add, add.func, "tests.taskqueue.tasks.add", add.using(priority=4)):
            assert assert_enqueued(task) == [sent[0]]
        with pytest.raises(TypeError, match="3 is not a task: expected a task, its function, or its dotted name"):
            assert_enqueued(3)


def test_every_way_to_enqueue_is_captured() -> None:
    with captured() as sent:
        add.enqueue_many([((1, 1), {}), ((2, 2), {})])
        add.enqueue_on_commit(3, 3)
        run_async(add.aenqueue, 4, 4)
        run_async(add.aenqueue_many, [((5, 5), {})])
        run_async(add.aenqueue_on_commit, 6, 6)
        thread = threading.Thread(target=add.enqueue, args=(7, 7))
        thread.start()
        thread.join()
        chain(add.s(8, 8), group([add.s(9), add.s(10)])).enqueue(on_error=note.si(11))

        assert [each.args[0] for each in sent] == list(range(1, 12))
        assert_enqueued(add, count=10)


@pytest.mark.django_db  # keeps the connection open between the tests of the class
class OnCommit(TestCase):
    """Tests inside Django's `TestCase`, which never commits its transaction."""

    def test_enqueue_on_commit_enqueues_when_django_runs_the_callbacks(self) -> None:
        sent = self.enterContext(captured())
        with self.captureOnCommitCallbacks(execute=True):
            result = add.enqueue_on_commit(1, 2)
            sent.assert_nothing_enqueued()
        sent.assert_enqueued(add, args=[1, 2], count=1)
        sent.run()
        assert result.get() == 3

    def test_failure_without_callbacks_hints_at_the_uncommitted_transaction(self) -> None:
        with captured() as sent, transaction.atomic():
            add.enqueue_on_commit(1, 2)
            with pytest.raises(AssertionError, match=r"No task was\. If it is enqueued on commit, the transaction"):
                sent.assert_enqueued(add)


def test_failure_lists_the_enqueued_tasks() -> None:
    with captured():
        add.using(queue_name="mail", priority=-1).enqueue(1, b=2)
        add.using(run_after=timedelta(minutes=2)).enqueue(1, 3)
        note.using(run_after=datetime(2027, 1, 2, tzinfo=timezone.get_default_timezone())).enqueue("x" * 300)

        with pytest.raises(AssertionError) as missed:
            assert_enqueued(add, args=[1, 4])

    assert str(missed.value).splitlines() == [
        "tests.taskqueue.tasks.add(1, 4, …) was not enqueued. 3 tasks were:",
        "  tests.taskqueue.tasks.add(1, b=2)  queue mail, priority -1",
        "  tests.taskqueue.tasks.add(1, 3)  queue default, in 120 s",
        f"  tests.taskqueue.tasks.note('{'x' * 199}…)  queue default, at 2027-01-01T23:00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({}, "tests.taskqueue.tasks.note(…) was not enqueued. One task was:"),
        ({"args": []}, "tests.taskqueue.tasks.note(…) was not enqueued. One task was:"),
        ({"args": [], "kwargs": {}}, "tests.taskqueue.tasks.note() was not enqueued. One task was:"),
        ({"kwargs": {"a": 1}}, "tests.taskqueue.tasks.note(…, a=1) was not enqueued. One task was:"),
        ({"queue_name": "far"}, "tests.taskqueue.tasks.note(…) in queue far was not enqueued. One task was:"),
        ({"count": 2}, "tests.taskqueue.tasks.note(…) was enqueued never, not twice. One task was:"),
        ({"count": 5}, "tests.taskqueue.tasks.note(…) was enqueued never, not 5 times. One task was:"),
    ],
)
def test_failure_states_the_expected_call(wanted: dict[str, Any], text: str) -> None:
    with captured():
        add.enqueue(1, 2)
        with pytest.raises(AssertionError) as missed:
            assert_enqueued(note, **wanted)

    assert str(missed.value).splitlines() == [text, "  tests.taskqueue.tasks.add(1, 2)  queue default"]


def test_failure_lists_at_most_20_tasks() -> None:
    with captured():
        add.enqueue_many([((number, 0), {}) for number in range(25)])
        with pytest.raises(AssertionError, match=r"add\(19, 0\)  queue default\n  and 5 more$"):
            assert_nothing_enqueued()


def test_count_is_exact() -> None:
    with captured() as sent:
        assert_nothing_enqueued()
        assert_enqueued(add, count=0)
        add.enqueue(1, 2)
        add.enqueue(1, 2)

        assert len(assert_enqueued(add, count=2)) == 2
        with pytest.raises(AssertionError, match=r"add\(…\) was enqueued twice, not once"):
            assert_enqueued(add, count=1)
        sent.clear()
        assert_nothing_enqueued()


def test_assert_enqueued_raises_outside_a_capture() -> None:
    with pytest.raises(RuntimeError, match=r"No capture is active: enter captured\(\) or inline\(\) first"):
        assert_enqueued(add)
    with captured() as outer:
        with captured() as inner:
            add.enqueue(1, 2)
            assert sent_tasks() is inner
        assert sent_tasks() is outer
        assert_nothing_enqueued()


def test_run_runs_the_collected_tasks() -> None:
    recorded.clear()
    with captured() as sent:
        results = [note.enqueue("first"), add.enqueue(2, 3), echo.using(run_after=600).enqueue()]
        assert [result.state for result in results] == ["ready", "ready", "scheduled"]

        sent.run()

        for result in results:
            result.refresh()
        assert [result.state for result in results] == ["successful"] * 3
        assert results[1].get(0) == 5
        assert add.get_result(results[1].id).worker_ids == ["testing"]
        sent.run()
    assert recorded == ["first"]


def test_run_raises_the_first_error_after_all_tasks_have_run() -> None:
    recorded.clear()
    with captured() as sent:
        failed = fail.enqueue("mine")
        note.enqueue("after")

        with pytest.raises(LookupError, match=r"^mine$"):
            sent.run()

        assert recorded == ["after"]
        failed.refresh()
        assert [error.message for error in failed.errors] == ["mine"]
        fail.enqueue("quiet")
        sent.run(raise_errors=False)


def test_collected_task_can_be_cancelled_and_rescheduled() -> None:
    recorded.clear()
    with captured() as sent:
        cancelled, later = note.enqueue("never"), note.using(run_after=60).enqueue("later")
        assert cancelled.cancel()
        later.reschedule(120)
        later.run_now()

        sent.run()

        cancelled.refresh()
        later.refresh()
        assert (cancelled.state, later.state) == ("cancelled", "successful")
        assert not later.cancel()
        with pytest.raises(Exception, match="is not scheduled"):
            later.reschedule(60)
        with pytest.raises(TaskResultDoesNotExist):
            note.get_result("unknown")
        for method in ("cancel", "run_now", "get"):
            unsent = prepare(note, (1,), {})[0]
            with pytest.raises(TaskResultDoesNotExist):
                getattr(unsent, method)()
    assert recorded == ["later"]


def test_collected_task_can_be_changed_until_it_has_run() -> None:
    recorded.clear()
    with captured() as sent:
        first = note.using(unique=True, expires=60).enqueue(1)
        second = note.using(unique=True).enqueue(2)
        first.update(args=["new"], priority=5, queue_name="mail", expires=None)
        assert (first.args, first.queue_name, first.expires_at) == (["new"], "mail", None)
        first.update(expires=30)
        assert first.expires_at is not None
        with pytest.raises(UniqueKeyConflict, match=first.id):
            second.update(args=["new"])
        sent.run()
        with pytest.raises(NotPending, match="it is successful"):
            first.update(args=[3])

    assert recorded == ["new", 2]


def test_get_raises_at_once_for_a_task_that_is_not_running() -> None:
    with captured():
        result = add.enqueue(1, 2)
        with pytest.raises(RuntimeError, match=rf"Task {result.id} is not running, so its result would never arrive\."):
            result.get()


def test_rescheduled_task_stays_scheduled() -> None:
    recorded.clear()
    with captured() as sent:
        result = come_back.enqueue(60)
        sent.run()
        result.refresh()
    assert result.state == "scheduled"


def test_duplicate_of_a_unique_task_returns_the_first_result() -> None:
    with captured() as sent:
        first = add.using(unique=True).enqueue(1, 2)
        again = add.using(unique=True).enqueue(1, 2)
        timed = add.using(unique=60).enqueue(2, 2)
        assert (again.id, again.is_duplicate) == (first.id, True)
        sent.run()

        assert not add.using(unique=True).enqueue(1, 2).is_duplicate
        assert add.using(unique=60).enqueue(2, 2).id == timed.id


def test_run_runs_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_redis_components.taskqueue.flows.parents.MAX_IDS", 500)
    with captured() as sent:
        flow = group(add.s(number, 1) for number in range(600)).then(echo.s()).enqueue()
        assert [result.state for result in flow.results[-2:]] == ["ready", "waiting"]
        sent.run()
        assert flow.get(0) == [[list(range(1, 601))], {}]
        assert get_flow(flow.id).last == flow.last


def test_queue_operations_raise_without_a_server() -> None:
    with (
        captured(),
        pytest.raises(
            RuntimeError, match=r"^<LuaScript taskqueue/admin/pause> is not supported by inline\(\) and captured\(\)"
        ),
    ):
        get_queue("default").pause()
    with (
        captured(),
        pytest.raises(RuntimeError, match=r"Use a real Redis server and drain\(\) to test"),
    ):
        get_queue("default").info()


def test_unsupported_command_raises() -> None:
    with (
        captured(),
        pytest.raises(RuntimeError, match=r"^ZCARD nowhere:taskqueue:.* is not supported by inline\(\)"),
    ):
        connections.client().execute(Read("ZCARD", f"{home().base}:q:default:failed"))


def test_exit_restores_the_clients_after_an_error() -> None:
    before = (connections.client, connections.aclient)
    with pytest.raises(KeyError), captured(), inline():
        raise KeyError

    assert (connections.client, connections.aclient) == before


def test_decorated_function_gets_a_new_capture_for_each_call() -> None:
    @captured()
    def twice() -> int:
        add.enqueue(1, 2)
        return len(sent_tasks())

    @captured(deliver=False)
    async def awaited() -> int:
        await add.aenqueue(1, 2)
        return len(sent_tasks())

    assert [twice(), twice(), run_async(awaited)] == [1, 1, 1]
    with pytest.raises(TypeError, match=r"expected a function\. In a TestCase, use self\.enterContext\(…\) in setUp"):
        captured()(TestCase)
