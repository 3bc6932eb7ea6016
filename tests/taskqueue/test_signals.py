"""What receivers hear of tasks, in the process that sends and in the one that runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction
from django.dispatch import Signal

from django_redis_components.taskqueue import chain, registry, signals
from django_redis_components.taskqueue.context import observer_for
from tests.support import Store
from tests.support.asynchronous import run_async
from tests.taskqueue import tasks
from tests.taskqueue.support import new_fetcher, running_worker, work_off, work_until_finished
from tests.taskqueue.tasks import add, add_async, come_back, fail, fail_thrice, return_what_is_not_json, tell

pytestmark = pytest.mark.integration

NAMES = ("task_enqueued", "task_started", "task_retrying", "task_finished")
Heard = list[tuple[Any, ...]]


@pytest.fixture
def connect() -> Iterator[Callable[..., None]]:
    """Connect receivers for one test."""
    made: list[tuple[Signal, Any, Any]] = []

    def to(name: str, receiver: Callable[..., Any], sender: Any = None) -> None:
        signal = getattr(signals, name)
        signal.connect(receiver, sender=sender, weak=False)
        made.append((signal, receiver, sender))

    yield to
    for signal, receiver, sender in made:
        signal.disconnect(receiver, sender=sender)


@pytest.fixture
def heard(connect: Callable[..., None]) -> Heard:
    """Name of the signal, state, attempts and number of errors, as each receiver sees them."""
    made: Heard = []
    for name in NAMES:

        def receiver(sender: Any, task_result: Any, name: str = name, **_: Any) -> None:
            made.append((name, task_result.state, task_result.attempts, len(task_result.errors)))

        connect(name, receiver)
    return made


def test_a_task_that_succeeds_is_heard_three_times(redis_server: Store, heard: Heard) -> None:
    result = add.enqueue(2, 3)
    assert heard == [("task_enqueued", "ready", 0, 0)]

    work_off()

    assert heard[1:] == [("task_started", "running", 1, 0), ("task_finished", "successful", 1, 0)]
    assert result.get(0) == 5


def test_each_attempt_starts_and_each_failure_but_the_last_is_a_retry(redis_server: Store, heard: Heard) -> None:
    result = fail_thrice.enqueue()

    work_until_finished(result)

    assert heard[1:] == [
        ("task_started", "running", 1, 0),
        ("task_retrying", "retrying", 1, 1),
        ("task_started", "running", 2, 1),
        ("task_retrying", "retrying", 2, 2),
        ("task_started", "running", 3, 2),
        ("task_finished", "failed", 3, 3),
    ]


def test_who_puts_itself_off_has_not_finished(redis_server: Store, heard: Heard) -> None:
    come_back.enqueue(60)

    work_off()

    assert [name for name, *_ in heard] == ["task_enqueued", "task_started"]


def test_a_value_that_cannot_be_kept_is_a_failure(redis_server: Store, heard: Heard) -> None:
    return_what_is_not_json.enqueue()

    work_off()

    assert heard[-1] == ("task_finished", "failed", 1, 1)


def test_the_result_says_what_redis_will_say(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: dict[str, Any] = {}
    connect("task_finished", lambda task_result, **_: seen.update(result=task_result, value=task_result.return_value))
    sent = add.using(metadata={"a": 1}, queue_name="mail").enqueue(2, b=3)

    work_off("mail")

    told = seen["result"]
    sent.refresh()
    assert (told, told.args, told.kwargs, seen["value"]) == (sent, [2], {"b": 3}, 5)
    assert (told.worker_ids, told.queue_name, told.enqueued_at) == (sent.worker_ids, "mail", sent.enqueued_at)
    assert abs((told.finished_at - sent.finished_at).total_seconds()) < 5
    assert told.started_at == sent.started_at


def test_a_failure_is_told_within_its_except_block(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: list[Any] = []
    connect("task_finished", lambda task_result, **_: seen.extend([sys.exc_info()[1], task_result.errors[0].message]))

    fail.enqueue("my own")
    work_off()

    assert isinstance(seen[0], LookupError)
    assert seen[1] == "my own"


def test_a_retry_brings_its_exception(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: list[Any] = []
    connect("task_retrying", lambda exception, **_: seen.append(repr(exception)))

    work_until_finished(fail_thrice.enqueue("again and"))

    assert seen == ["LookupError('again and')"] * 2


def test_receivers_may_ask_for_one_task(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: list[Any] = []
    connect("task_enqueued", lambda sender, **_: seen.append(sender), sender=add)
    connect("task_finished", lambda sender, **_: seen.append(sender), sender=add)

    add.using(queue_name="default", priority=3).enqueue(1, 2)
    tasks.echo.enqueue()
    work_off()

    assert seen == [add, add]


def test_all_ways_to_send_are_heard_once_for_each_task(redis_server: Store, heard: Heard) -> None:
    add.enqueue_many([((1, 2), {}), ((3, 4), {})])
    assert len(heard) == 2

    async def send() -> None:
        await add.aenqueue(1, 2)
        await add.aenqueue_many([((1, 2), {}), ((3, 4), {})])

    run_async(send)

    assert [name for name, *_ in heard] == ["task_enqueued"] * 5


def test_the_tasks_of_a_flow_are_heard_when_all_are_there(redis_server: Store, heard: Heard) -> None:
    chain(add.s(1, 2), add.s(3)).enqueue(on_error=fail.si())
    run_async(chain(add.s(1, 2), add.s(3)).aenqueue)

    states = ["ready", "waiting", "waiting", "ready", "waiting"]
    assert heard == [("task_enqueued", state, 0, 0) for state in states]


@pytest.mark.django_db(transaction=True)
def test_what_waits_for_a_commit_is_heard_after_it(redis_server: Store, heard: Heard) -> None:
    with transaction.atomic():
        add.enqueue_on_commit(1, 2)
        assert heard == []

    assert [name for name, *_ in heard] == ["task_enqueued"]


def test_a_duplicate_of_a_unique_task_is_not_heard(redis_server: Store, heard: Heard) -> None:
    for _ in range(2):
        add.using(unique=True).enqueue(1, 2)

    assert len(heard) == 1


def test_receivers_may_be_coroutines(redis_server: Store, connect: Callable[..., None]) -> None:
    seen: list[str] = []
    for name in NAMES:

        async def receiver(name: str = name, **_: Any) -> None:
            seen.append(name)

        connect(name, receiver)

    add.enqueue(1, 2)
    run_async(add.aenqueue, 1, 2)
    work_off()

    assert seen == ["task_enqueued"] * 2 + ["task_started", "task_finished"] * 2


def test_coroutines_on_the_event_loop_are_heard_too(redis_server: Store, heard: Heard) -> None:
    with running_worker():
        assert add_async.enqueue(1, 2).get(60) == 3

    names = [name for name, *_ in heard]  # the worker may begin before the sender has heard that it may
    assert sorted(names) == ["task_enqueued", "task_finished", "task_started"]
    assert names.index("task_started") < names.index("task_finished")


@pytest.mark.parametrize("name", NAMES)
def test_a_receiver_that_fails_changes_nothing(
    redis_server: Store, connect: Callable[..., None], caplog: pytest.LogCaptureFixture, name: str
) -> None:
    def broken(**_: Any) -> None:
        raise LookupError("the receiver's own")

    connect(name, broken)
    good, bad = add.enqueue(2, 3), fail_thrice.enqueue()
    other = run_async(add.aenqueue, 2, 3)

    work_until_finished(good, bad, other)

    assert (good.return_value, other.return_value, bad.state, bad.attempts) == (5, 5, "failed", 3)
    assert bad.errors[0].message == "again"
    assert "the receiver's own" in caplog.text


def test_a_signal_that_cannot_be_sent_at_all_changes_nothing(
    redis_server: Store, connect: Callable[..., None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect("task_enqueued", lambda **_: None)
    monkeypatch.setattr(registry, "find", lambda name: 1 / 0)

    first, second = add.enqueue(1, 2), run_async(add.aenqueue, 1, 2)

    assert [record.getMessage() for record in caplog.records] == [
        f"A signal of task {result.id} could not be sent." for result in (first, second)
    ]


def test_while_nobody_listens_a_run_is_the_function_alone(redis_server: Store, connect: Callable[..., None]) -> None:
    add.enqueue(1, 2)
    [job] = new_fetcher().fetch("0", 1)
    assert observer_for(add, job, [1, 2], {}, {}) is None

    connect("task_enqueued", lambda **_: None)
    assert observer_for(add, job, [1, 2], {}, {}) is None
    connect("task_retrying", lambda **_: None)

    assert observer_for(add, job, [1, 2], {}, {}) is not None


def test_a_run_that_is_heard_can_have_a_context(redis_server: Store, heard: Heard) -> None:
    result = tell.enqueue(["progress", 1, 2])

    work_off()

    assert heard[-1] == ("task_finished", "successful", 1, 0)
    assert result.get(0) == {}
