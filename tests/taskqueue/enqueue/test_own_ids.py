"""Tasks with ids that the caller chooses: enqueueing the same call again returns the first task."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from django_redis_components.taskqueue import InvalidTask, TaskIdConflict, chain, get_queue, get_result, task
from django_redis_components.taskqueue.signals import task_enqueued
from django_redis_components.testing import captured
from tests.support import Store, run_async, run_together
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import add, note


def test_second_enqueue_returns_the_first_task(store: Store) -> None:
    first = add.using(id="order-42").enqueue(2, 3)

    second = add.using(id="order-42").enqueue(2, 3)

    assert (first.id, first.is_duplicate) == ("order-42", False)
    assert (second, second.is_duplicate, second.enqueued_at) == (first, True, first.enqueued_at)
    assert get_queue("default").info().ready == 1


def test_enqueue_after_the_run_returns_its_outcome_and_runs_nothing(store: Store) -> None:
    add.using(id="order-42").enqueue(2, 3)
    work_off()

    again = add.using(id="order-42").enqueue(2, 3)

    assert (again.state, again.return_value) == ("successful", 5)
    assert get_queue("default").info().ready == 0
    assert get_result("order-42").get(0) == 5
    assert run_async(add.using(id="order-42").aenqueue, 2, 3).is_duplicate


@pytest.mark.parametrize(("other", "args"), [(add, (2, 4)), (note, (2,))])
def test_other_call_under_the_same_id_raises(redis_server: Store, other: Any, args: tuple[Any, ...]) -> None:
    add.using(id="order-42").enqueue(2, 3)

    with pytest.raises(TaskIdConflict, match=r"^Task id 'order-42' belongs to another call, of .*\.add\. ") as raised:
        other.using(id="order-42").enqueue(*args)

    assert raised.value.id == "order-42"
    assert get_queue("default").info().ready == 1


def test_concurrent_enqueues_accept_one_task(redis_server: Store) -> None:
    results = run_together(8, lambda _: add.using(id="order-42").enqueue(2, 3))

    assert sorted(result.is_duplicate for result in results) == [False] + [True] * 7
    assert get_queue("default").info().ready == 1


def test_signal_is_sent_once(redis_server: Store) -> None:
    ids: list[str] = []

    def receive(task_result: Any, **_: Any) -> None:
        ids.append(task_result.id)

    task_enqueued.connect(receive)
    try:
        for _ in range(2):
            add.using(id="order-42").enqueue(2, 3)
    finally:
        task_enqueued.disconnect(receive)

    assert ids == ["order-42"]


def test_captured_tasks_have_their_own_ids() -> None:
    with captured():
        first = add.using(id="order-42").enqueue(2, 3)
        again = add.using(id="order-42").enqueue(2, 3)

    assert (first.id, again.is_duplicate) == ("order-42", True)


@pytest.mark.parametrize("value", ["", "-a", "a:b", "a/b", "a b", "a,b", "ü", "a\n", "x" * 129, "{a}"])
def test_invalid_id_is_refused(value: str) -> None:
    with pytest.raises(InvalidTask, match="expected 1 to 128 of the characters"):
        add.using(id=value)


def test_id_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(InvalidTask, match=r"^id=5: expected a string\.$"):
        add.using(id=5)  # type: ignore[typeddict-item]


def test_id_belongs_to_one_call() -> None:
    with pytest.raises(InvalidTask, match=r"^id is an option of a call, not of @task"):
        task(id="order-42")
    for send in (lambda t: t.enqueue_many([((2, 3), {})]), lambda t: chain(t.s(2, 3)).enqueue()):
        with pytest.raises(InvalidTask, match=r"^id='order-42': only enqueue\(\) and enqueue_on_commit\(\)"):
            send(add.using(id="order-42"))


@pytest.mark.django_db(transaction=True)
def test_on_commit_the_first_task_is_found(redis_server: Store) -> None:
    add.using(id="order-42").enqueue(2, 3)

    with transaction.atomic():
        late = add.using(id="order-42").enqueue_on_commit(2, 3)
        other = add.enqueue_on_commit(1, 1)

    assert (late.is_duplicate, other.is_duplicate) == (True, False)
    assert get_queue("default").info().ready == 2
