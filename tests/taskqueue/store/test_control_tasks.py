"""Pages of a queue's tasks: order, size, and the attributes of each state."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.taskqueue import get_queue, registry
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.task import Task
from tests.support import Store, run_async
from tests.taskqueue.support import base_key, fall_due, new_fetcher, queue_key, settle_now, work_off
from tests.taskqueue.tasks import fail, fail_thrice, note


def fill_ready(store: Store) -> list[str]:
    """Ids of ready tasks of every kind, in the order in which they will be served, with a cancelled one among them."""
    fronts = [note.enqueue("front") for _ in range(2)]
    fetcher = new_fetcher(worker="gives:back")
    jobs = fetcher.fetch("0", 2)
    settle_now(fetcher, *[Ack(job.id, job.token, "requeued") for job in reversed(jobs)])
    dues = [note.using(run_after=60).enqueue("due") for _ in range(2)]
    for number, each in enumerate(dues):
        fall_due(store, each, ms_ago=2_000 - number * 1_000)
    note.using(run_after=3_600).enqueue("later")
    plain = [note.enqueue("plain") for _ in range(3)]
    low, high = note.using(priority=-1).enqueue("low"), note.using(priority=1).enqueue("high")
    note.enqueue("cancelled").cancel()
    return [result.id for result in (*fronts, *dues, high, *plain, low)]


def ids(state: str, **options: int) -> list[str]:
    return [result.id for result in get_queue("default").tasks(state, **options)]


def test_ready_tasks_are_listed_in_the_order_in_which_they_are_served(store: Store) -> None:
    expected = fill_ready(store)

    assert ids("ready") == expected
    assert get_queue("default").info().ready == len(expected)
    assert [job.id for job in work_off()] == expected


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7])
def test_pages_of_ready_tasks_add_up_to_all(store: Store, limit: int) -> None:
    expected = fill_ready(store)

    pages = [ids("ready", limit=limit, offset=offset) for offset in range(0, 14, limit)]

    assert [task_id for page in pages for task_id in page] == expected
    assert all(len(page) <= limit for page in pages)


def test_scheduled_tasks_are_listed_by_their_time_and_due_ones_are_not(store: Store) -> None:
    late, soon = note.using(run_after=200).enqueue("late"), note.using(run_after=100).enqueue("soon")
    retried = fail_thrice.using(backoff=150).enqueue()
    work_off()
    fall_due(store, note.using(run_after=60).enqueue("due"))

    assert ids("scheduled") == [soon.id, retried.id, late.id]
    assert ids("scheduled", offset=1, limit=1) == [retried.id]
    states = [result.state for result in get_queue("default").tasks("scheduled")]
    assert states == ["scheduled", "retrying", "scheduled"]


def test_running_tasks_are_listed_with_their_worker(store: Store) -> None:
    note.enqueue("runs")
    new_fetcher(worker="here:7").fetch("0", 1)

    [result] = get_queue("default").tasks("running")

    assert (result.state, result.worker_ids, result.args) == ("running", ["here:7"], ["runs"])


def test_failed_tasks_are_listed_by_time_with_their_last_error(store: Store) -> None:
    first, second = fail.enqueue("first"), fail_thrice.using(backoff=0).enqueue("second")
    while work_off():
        pass

    listed = get_queue("default").tasks("failed")

    assert [result.id for result in listed] == [first.id, second.id]
    assert [[error.message for error in result.errors] for result in listed] == [["first"], ["second"]]
    listed[1].refresh()
    assert len(listed[1].errors) == 3


def test_unregistered_tasks_are_listed(store: Store) -> None:
    stranger: Task[..., Any, Any] = Task(func=note.func, name="unknown.task", declared_options=note.options)
    sent = stranger.enqueue(5)
    work_off()

    [result] = get_queue("default").tasks("unregistered")

    assert (result.id, result.task, result.name, result.state) == (sent.id, None, "unknown.task", "unregistered")
    assert registry.find("unknown.task") is None


def test_task_without_a_record_is_omitted(store: Store) -> None:
    gone, stays = fail.enqueue("gone"), fail.enqueue("stays")
    work_off()
    store.raw.delete(base_key(store, "t", gone.id))

    assert ids("failed") == [stays.id]


@pytest.mark.parametrize("state", ["ready", "scheduled", "running", "failed", "unregistered"])
def test_an_empty_state_is_an_empty_page(store: Store, state: str) -> None:
    assert ids(state) == []
    assert ids(state, offset=1_000) == []


def test_page_has_at_most_a_thousand_tasks(redis_server: Store) -> None:
    sent = note.enqueue_many([((number,), {}) for number in range(1_100)])

    assert ids("ready", limit=1_000) == [result.id for result in sent[:1_000]]
    assert ids("ready", limit=1_000, offset=1_000) == [result.id for result in sent[1_000:]]
    assert len(ids("ready")) == 50


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"limit": 0}, r"^limit=0: expected an integer from 1 to 1000\.$"),
        ({"limit": 1_001}, r"^limit=1001: expected an integer from 1 to 1000\.$"),
        ({"limit": 2.0}, r"^limit=2\.0: expected an integer from 1 to 1000\.$"),
        ({"limit": True}, r"^limit=True: expected an integer from 1 to 1000\.$"),
        ({"offset": -1}, r"^offset=-1: expected an integer from 0 to 9007199254740991\.$"),
        ({"offset": "2"}, r"^offset='2': expected an integer from 0 to 9007199254740991\.$"),
        ({"offset": 2**53}, r"^offset=9007199254740992: expected an integer from 0 to 9007199254740991\.$"),
    ],
)
def test_invalid_page_raises(redis_server: Store, options: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        get_queue("default").tasks("ready", **options)


@pytest.mark.parametrize("state", ["succeeded", "retrying", "", None])
def test_invalid_state_raises(redis_server: Store, state: Any) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=r"expected one of 'ready', .*, 'successful', 'cancelled', 'expired'\.$"
    ):
        get_queue("default").tasks(state)


def test_listing_changes_nothing(store: Store) -> None:
    fill_ready(store)
    fail.enqueue("failed")
    before = {key: store.raw.dump(key) for key in store.keys()}  # noqa: SIM118 - a Store is no dict

    for state in ("ready", "scheduled", "running", "failed", "unregistered"):
        get_queue("default").tasks(state, limit=3, offset=2)

    assert {key: store.raw.dump(key) for key in store.keys()} == before  # noqa: SIM118


def test_async_method_returns_the_same(store: Store) -> None:
    expected = fill_ready(store)

    async def listed() -> list[str]:
        return [result.id for result in await get_queue("default").atasks("ready", limit=4, offset=1)]

    assert run_async(listed) == expected[1:5]
    assert store.raw.exists(queue_key(store, "ready"))
