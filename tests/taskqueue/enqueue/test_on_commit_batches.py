"""The tasks of a transaction are sent in one round trip."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import TestCase

from django_redis_components.taskqueue import PartiallyEnqueued, TaskResult, chain, get_queue
from django_redis_components.taskqueue.store import messages
from tests.support import Store
from tests.taskqueue.support import taskqueue_settings, work_off
from tests.taskqueue.tasks import add, note, recorded

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def scripts_run(store: Store) -> int:
    stats = store.raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval", "fcall"))


def enqueue_and_roll_back(*args: int) -> TaskResult:
    """Enqueue a task within a savepoint that is rolled back."""
    with transaction.atomic():
        result = add.enqueue_on_commit(*args)
        transaction.set_rollback(True)
    return result


def test_tasks_of_a_transaction_are_sent_in_one_call(redis_server: Store) -> None:
    add.enqueue(0, 0)  # loads the script
    note.using(priority=5).enqueue_many([((0,), {})])
    before = scripts_run(redis_server)

    with transaction.atomic():
        results: list[TaskResult] = [add.enqueue_on_commit(number, 1) for number in range(20)]
        results.append(note.using(priority=5, queue_name="mail").enqueue_on_commit("a"))
        assert scripts_run(redis_server) == before

    assert scripts_run(redis_server) == before + 1
    assert all(result.enqueued_at for result in results)
    assert get_queue("mail").info().ready == 1


def test_tasks_are_accepted_in_the_order_of_the_calls(redis_server: Store) -> None:
    with transaction.atomic():
        for number in range(5):
            note.enqueue_on_commit(number)

    work_off()

    assert recorded[-5:] == list(range(5))


def test_tasks_of_a_savepoint_that_was_rolled_back_are_not_sent(redis_server: Store) -> None:
    with transaction.atomic():
        first = add.enqueue_on_commit(1, 1)
        lost = enqueue_and_roll_back(2, 2)
        second = add.enqueue_on_commit(3, 3)
        enqueue_and_roll_back(4, 4)

    assert (bool(first.enqueued_at), lost.enqueued_at, bool(second.enqueued_at)) == (True, None, True)
    assert get_queue("default").info().ready == 2


def depth() -> int:
    return get_queue("default").info().ready


@pytest.mark.parametrize("robust", [False, True])
def test_tasks_keep_their_place_among_the_hooks_of_the_site(redis_server: Store, robust: bool) -> None:
    seen: list[Any] = []

    with transaction.atomic():
        for number in range(3):
            transaction.on_commit(lambda: seen.append(depth()), robust=robust)
            add.enqueue_on_commit(number, 1)
            add.enqueue_on_commit(number, 2)

    assert seen == [0, 2, 4]
    assert depth() == 6


@pytest.mark.parametrize("send", ["enqueue_on_commit", "enqueue", "enqueue_many", "aenqueue_on_commit"])
def test_tasks_after_a_hook_that_raises_are_not_sent(redis_server: Store, settings: Any, send: str) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=True)

    def enqueue() -> None:
        if send == "enqueue_many":
            add.enqueue_many([((1, 1), {})])
        elif send == "aenqueue_on_commit":
            async_to_sync(add.aenqueue_on_commit)(1, 1)
        else:
            getattr(add, send)(1, 1)

    def move_file() -> None:
        seen.append(depth())
        raise OSError("no space left")

    def enqueue_around_a_hook() -> None:
        with transaction.atomic():
            enqueue()
            transaction.on_commit(move_file)
            enqueue()

    seen: list[int] = []
    with pytest.raises(OSError, match="no space left"):
        enqueue_around_a_hook()

    assert seen == [1]
    assert depth() == 1


def test_tasks_of_a_transaction_overtake_no_hook_after_a_savepoint(redis_server: Store) -> None:
    seen: list[int] = []

    with transaction.atomic():
        add.enqueue_on_commit(1, 1)
        with transaction.atomic():
            add.enqueue_on_commit(2, 2)
            transaction.on_commit(lambda: seen.append(depth()))
        enqueue_and_roll_back(3, 3)
        add.enqueue_on_commit(4, 4)
        transaction.on_commit(lambda: seen.append(depth()))
        add.enqueue_on_commit(5, 5)

    assert seen == [2, 3]
    assert depth() == 4


def test_flow_keeps_its_place_among_the_tasks_of_a_transaction(redis_server: Store) -> None:
    with transaction.atomic():
        note.enqueue_on_commit("first")
        chain(note.s("flow")).enqueue_on_commit()
        note.enqueue_on_commit("last")

    work_off()

    assert recorded[-3:] == ["first", "flow", "last"]


def test_task_with_an_id_keeps_its_place_among_the_tasks_of_a_transaction(redis_server: Store) -> None:
    with transaction.atomic():
        note.enqueue_on_commit("first")
        note.using(id="second").enqueue_on_commit("second")
        note.enqueue_on_commit("last")

    work_off()

    assert recorded[-3:] == ["first", "second", "last"]


def test_hooks_that_a_test_captures_send_each_task_once(redis_server: Store) -> None:
    with transaction.atomic(), TestCase.captureOnCommitCallbacks(execute=True) as callbacks:
        add.enqueue_on_commit(1, 1)
        add.enqueue_on_commit(2, 2)

    assert len(callbacks) == 2
    assert get_queue("default").info().ready == 2


def test_failure_between_parts_raises_partially_enqueued(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "CHUNK", 2)
    redis_server.raw.set(f"{redis_server.prefix}:taskqueue:{{default}}:q:mail:priority", "not a zset")

    def enqueue_in_a_transaction() -> None:
        with transaction.atomic():
            for number in range(2):
                add.enqueue_on_commit(number, 1)
            for number in range(2):
                note.using(queue_name="mail", priority=1).enqueue_on_commit(number)

    with pytest.raises(PartiallyEnqueued) as raised:
        enqueue_in_a_transaction()

    assert (len(raised.value.accepted), len(raised.value.not_sent)) == (2, 2)
