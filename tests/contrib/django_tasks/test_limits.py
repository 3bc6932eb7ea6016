"""Limits, uniqueness and expiry of tasks of Django's framework, on each of its versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.contrib.django_tasks import task
from django_redis_components.taskqueue import Concurrency, FairShare, Rate, Unique, get_queue
from tests.contrib.django_tasks.conftest import ReceivedSignals
from tests.contrib.django_tasks.framework import InvalidTask, TaskContext
from tests.contrib.django_tasks.shop.tasks import add, note, recorded
from tests.support import Store
from tests.support.asynchronous import run_async
from tests.taskqueue.support import base_key, new_fetcher, server_ms, work_off


@pytest.fixture(autouse=True)
def _backends(configure: Callable[..., None]) -> None:
    configure()


def deliver(order_id: int, express: bool = False) -> int:
    """A function that tests make tasks of."""
    recorded.append(order_id)
    return order_id


def deliver_with_context(context: TaskContext, order_id: int) -> int:
    """The same with a context."""
    return order_id


def by_order(order_id: int, express: bool = False) -> int:
    """A key."""
    return order_id


def option_names(value: Any) -> str | None:
    """What a case is called: the functions in some have an address, which is another in each process."""
    return ",".join(value) if isinstance(value, dict) else None


def test_concurrency_limits_simultaneous_runs(store: Store) -> None:
    made = task(concurrency=1)(deliver)
    first, second = made.enqueue(1), made.enqueue(2)

    [job] = new_fetcher().fetch("0", 9)

    assert job.id == first.id
    assert get_queue("default").info().limited == 1
    assert made.get_result(second.id).status == "READY"


def test_rate_limits_starts_per_period(store: Store) -> None:
    made = task(rate="1/h")(deliver)

    first = made.enqueue(1)
    made.enqueue(2)

    assert [job.id for job in work_off()] == [first.id]
    assert get_queue("default").info().scheduled == 1


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": Concurrency(1, key="{order_id}")},
        {"rate": Rate("1/h", key=by_order)},
        {"unique": Unique(key="{order_id}")},
    ],
    ids=option_names,
)
def test_keys_are_built_from_the_arguments_without_the_context(redis_server: Store, options: dict[str, Any]) -> None:
    made = task(takes_context=True, **options)(deliver_with_context)

    first, _, other = made.enqueue(1), made.enqueue(order_id=1), made.enqueue(2)

    assert [job.id for job in new_fetcher().fetch("0", 9)] == [first.id, other.id]


def test_unique_task_is_enqueued_once_with_one_signal(store: Store, received: ReceivedSignals) -> None:
    made = task(unique=True)(deliver)

    first = made.using(queue_name="slow").enqueue(1)
    second = made.enqueue(1, express=False)
    third = run_async(made.aenqueue, 1)

    assert first.id == second.id == third.id
    assert second.task.queue_name == "slow"
    assert received.names() == ["task_enqueued"]
    assert made.using(unique=False).enqueue(1).id != first.id


def test_options_that_earlier_versions_do_not_have_are_sent_only_when_set(redis_server: Store) -> None:
    made = task(unique=Unique(until="started", key="{order_id}"))(deliver)
    first = made.enqueue(1)
    body = redis_server.raw.hget(base_key(redis_server, "t", first.id), "b")
    assert b'{"until":"started","key":"{order_id}"}' in body

    last = made.using(unique=Unique(until="started", key="{order_id}", on_conflict="replace")).enqueue(1, express=True)

    assert (last.id, last.kwargs) == (first.id, {"express": True})


def test_expired_task_does_not_run(store: Store) -> None:
    result = note.using(expires=3_600).enqueue("late")
    record = base_key(store, "t", result.id)
    expires_ms, ttl_ms = map(int, store.raw.hget(record, "X").split())
    assert 3_500_000 < expires_ms - server_ms(store) <= 3_600_000

    store.raw.hset(record, "X", f"1 {ttl_ms}")

    assert (work_off(), recorded) == ([], [])
    assert note.get_result(result.id).status == "FAILED"


def test_options_of_the_backend_apply_to_each_task_separately(redis_server: Store, configure: Any) -> None:
    configure(options={"CONCURRENCY": 1, "UNIQUE": True})
    sums = [add.enqueue(1, 2), add.enqueue(1, 2), add.enqueue(2, 2)]
    single = note.enqueue("a")

    jobs = new_fetcher().fetch("0", 9)

    assert sums[0].id == sums[1].id != sums[2].id
    assert [job.id for job in jobs] == [sums[0].id, single.id]


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 3},
        {"concurrency": Concurrency(3, key="{order_id}", group="vans")},
        {"concurrency": Concurrency(3, key=by_order)},
        {"fair": "{order_id}"},
        {"fair": FairShare("{order_id}", weight=3)},
        {"fair": FairShare("{order_id}", weight=by_order)},
        {"rate": "10/m"},
        {"rate": [10, timedelta(minutes=1)]},
        {"rate": Rate([10, timedelta(minutes=1)], burst=2)},  # type: ignore[arg-type]
        {"rate": Rate("10/m", key=by_order)},
        {"unique": True},
        {"unique": Unique(until=timedelta(hours=1), key="{order_id}")},
        {"unique": Unique()},
        {"unique": Unique(until="started", key="{order_id}", on_conflict="replace")},
        {"expires": timedelta(hours=1)},
        {"expires": datetime(2100, 1, 1, tzinfo=UTC)},
    ],
    ids=option_names,
)
def test_the_task_of_a_result_is_the_one_that_was_sent(redis_server: Store, options: dict[str, Any]) -> None:
    made = task(**options)(deliver)

    sent = made.using(priority=3)
    result = sent.enqueue(1)

    assert made.get_result(result.id).task == sent
    assert hash(sent) == hash(made.get_result(result.id).task)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"concurrency": 0}, "concurrency=0: expected an integer from 1 to 1000000."),
        ({"rate": "often"}, "rate='often': expected a count and a unit, as '10/s', '10/m', '100/h'"),
        ({"unique": "always"}, 'unique=\'always\': expected "finished", "started", or a duration in seconds'),
        ({"expires": "soon"}, "expires='soon': expected a datetime, or a number of seconds or a timedelta from now."),
        ({"rate": Rate("1/s", key="{unknown}")}, "takes no argument 'unknown'"),
        ({"unique": Unique(key="{unknown}")}, "takes no argument 'unknown'"),
    ],
    ids=option_names,
)
def test_a_wrong_value_is_refused_where_the_task_is_made(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask, match=re.escape(text)):
        task(**options)(deliver)


def test_decorator_works_without_arguments_and_refuses_unknown_options() -> None:
    assert task(deliver).concurrency is None
    with pytest.raises(TypeError, match="unexpected keyword argument 'concurency'"):
        task(concurency=1)(deliver)


def test_a_backend_that_is_not_ours_makes_its_own_task_without_our_options() -> None:
    made = task(backend="immediate", concurrency=1, takes_context=True)(deliver_with_context)

    assert made.enqueue(4).return_value == 4
    with pytest.raises(TypeError, match="unexpected keyword argument 'concurency'"):
        task(backend="immediate", concurency=1)(deliver)
