"""Unique tasks: two calls with one key are one task, in every state of the first."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import (
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    Unique,
    get_queue,
    registry,
)
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import control
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.scripts import ENQUEUE
from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    queue_key,
    recover,
    settle_now,
    work_off,
)
from tests.taskqueue.tasks import add, come_back, echo, fail, fail_thrice, note, recorded

once = note.using(unique=True)
until_started = note.using(unique="started")


def unique_keys(store: Store) -> list[bytes]:
    return [key for key in store.keys() if b":u:" in key]  # noqa: SIM118 - a Store is no dict


def ready() -> int:
    return get_queue("default").info().ready


def new_one(sent: TaskResult, *others: TaskResult) -> bool:
    return not sent.is_duplicate and sent.id not in {other.id for other in others}


@pytest.mark.parametrize("unique", [True, "finished", "started", 60, timedelta(minutes=1), Unique(), Unique(until=60)])
def test_duplicate_of_a_ready_task_returns_the_first_result(store: Store, unique: Any) -> None:
    sender = add.using(unique=unique)

    first, second = sender.enqueue(2, 3), sender.enqueue(2, 3)

    assert (first.is_duplicate, second.is_duplicate) == (False, True)
    assert second == first
    assert (second.args, second.enqueued_at, second.state) == ([2, 3], first.enqueued_at, "ready")
    assert ready() == 1
    work_off()
    assert second.get(0) == 5


@pytest.mark.parametrize("unique", [None, False])
def test_equal_calls_without_unique_are_two_tasks(redis_server: Store, unique: Any) -> None:
    sender = add.using(unique=unique)

    assert new_one(sender.enqueue(2, 3), sender.enqueue(2, 3))
    assert unique_keys(redis_server) == []


def test_calls_are_compared_by_bound_arguments_with_defaults(redis_server: Store) -> None:
    first = fail.using(unique=True).enqueue()
    for_lists = echo.using(unique=True)

    assert fail.using(unique=True).enqueue("out of order") == first
    assert fail.using(unique=True).enqueue(text="out of order") == first
    assert fail.using(unique=True).enqueue("another") != first
    assert for_lists.enqueue((1, 2), b=1, a={"x": 1, "y": 2}) == for_lists.enqueue([1, 2], a={"y": 2, "x": 1}, b=1)
    assert len({for_lists.enqueue(value).id for value in (1, 1.0, "1", True, None, [1])}) == 6
    assert note.using(unique=True).enqueue("out of order") != first, "another task is another task"


def test_key_replaces_the_arguments(redis_server: Store) -> None:
    sender = add.using(unique=Unique(key="sum:{a}"))

    first, second, other = sender.enqueue(1, 2), sender.enqueue(1, 3), sender.enqueue(2, 2)

    assert second == first
    assert second.args == [1, 2], "it is the first one's result"
    assert other != first


def test_key_may_be_a_callable(redis_server: Store) -> None:
    sender = add.using(unique=Unique(key=lambda a, b: f"{min(a, b)}-{max(a, b)}"))

    assert sender.enqueue(1, 2) == sender.enqueue(b=1, a=2)


def test_key_that_is_not_text_raises(redis_server: Store) -> None:
    sender = add.using(unique=Unique(key=lambda a, b: a))

    with pytest.raises(TypeError, match=r"^The unique key of tests\.taskqueue\.tasks\.add is 1: expected text\.$"):
        sender.enqueue(1, 2)


@pytest.mark.parametrize("key", [7, b"order"])
def test_invalid_key_type_raises(key: Any) -> None:
    with pytest.raises(TypeError, match="expected a template, a callable, or None"):
        Unique(key=key)
    with pytest.raises(TypeError, match=r'^until=None: expected "finished"'):
        Unique(until=None)  # type: ignore[arg-type]


def test_key_with_an_unknown_argument_raises_at_definition() -> None:
    with pytest.raises(InvalidTask, match=r"the function takes no argument 'c'; it has a, b\."):
        add.using(unique=Unique(key="{c}"))


@pytest.mark.parametrize("options", [{"run_after": 3_600}, {"priority": 5}, {"queue_name": "mail"}], ids=str)
def test_duplicate_is_refused_in_every_state_of_the_first_task(store: Store, options: dict[str, Any]) -> None:
    first = once.using(**options).enqueue(1)

    assert once.enqueue(1) == first
    assert once.using(**options).enqueue(1) == first
    assert once.using(**options).enqueue(1).run_after == first.run_after


def test_enqueue_many_accepts_one_task_per_key(store: Store) -> None:
    results = once.enqueue_many([((number % 3,), {}) for number in range(9)])

    assert [result.is_duplicate for result in results] == [False] * 3 + [True] * 6
    assert results[:3] * 3 == results
    assert ready() == 3


@pytest.mark.contract
def test_async_methods_refuse_duplicates(store: Store) -> None:
    async def send() -> list[TaskResult]:
        return [await once.aenqueue(1), *await once.aenqueue_many([((1,), {}), ((1,), {})])]

    first = once.enqueue(1)

    assert run_async(send) == [first] * 3


@pytest.mark.django_db(transaction=True)
def test_enqueue_on_commit_returns_the_task_that_exists_at_the_commit(store: Store) -> None:
    with transaction.atomic():
        late = once.enqueue_on_commit(1)
        first = once.enqueue(1)
        assert (late.is_duplicate, late == first) == (False, False)

    assert (late.is_duplicate, late == first) == (True, True)


def test_concurrent_enqueues_accept_one_task(store: Store) -> None:
    results = run_together(8, lambda: [once.enqueue(number) for number in range(20)])

    assert ready() == 20
    for number in range(20):
        same = [mine[number] for mine in results]
        assert len({result.id for result in same}) == 1
        assert [result.is_duplicate for result in same].count(False) == 1


def test_repeated_request_is_not_a_duplicate_of_itself(proxy: Proxy, redis_server: Store) -> None:
    far = dataclasses.replace(once, connection="proxied")
    far.enqueue("warm")
    proxy.drop_next_reply(after=home().base.encode())

    result = far.enqueue(1)

    assert proxy.dropped == 1
    assert not result.is_duplicate
    assert ready() == 2


def test_repeated_request_of_a_finished_task_is_not_a_duplicate(store: Store) -> None:
    """The reply was lost for so long that the task has run, and another waits by now."""
    args = {"base": home().base, "queue": "default", "due": "", "priority": 0, "unique": "fdigest", "expires": ""}
    call = ENQUEUE(id="one", fields=("n", note.name, "b", b"[[1],{}]"), **args)
    accepted = connections.client().execute(call)
    work_off()
    connections.client().execute(ENQUEUE(id="two", fields=("n", note.name, "b", b"[[1],{}]"), **args))

    assert connections.client().execute(call) == accepted


def test_key_is_released_when_the_task_finishes(store: Store) -> None:
    first = once.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    assert once.enqueue(1) == first, "it runs"
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000))

    assert new_one(once.enqueue(1), first)


def test_key_is_kept_between_retries(store: Store) -> None:
    sender = fail_thrice.using(unique=True, backoff=60)
    first = sender.enqueue()
    for attempt in range(2):
        work_off()
        again = sender.enqueue()
        assert (again == first, again.state) == (True, "retrying"), attempt
        fall_due(store, first)
    work_off()

    first.refresh()
    assert first.state == "failed"
    assert new_one(sender.enqueue(), first)


def test_key_is_kept_while_the_task_is_delayed(store: Store) -> None:
    sender = come_back.using(unique=True)
    first = sender.enqueue(60)
    work_off()

    assert sender.enqueue(60) == first


def test_until_started_releases_the_key_when_a_worker_leases_the_task(store: Store) -> None:
    first = until_started.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)

    second = until_started.enqueue(1)
    assert new_one(second, first)
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000))

    assert until_started.enqueue(1) == second, "the first one's end is not the second one's"


def test_until_started_does_not_take_the_key_again_for_a_retry(store: Store) -> None:
    sender = fail_thrice.using(unique="started", backoff=60)
    first = sender.enqueue()
    work_off()

    assert new_one(sender.enqueue(), first)


def test_until_started_takes_the_key_again_when_the_task_is_returned(store: Store) -> None:
    first = until_started.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))

    assert until_started.enqueue(1) == first


def test_until_started_leaves_the_key_to_a_newer_task(store: Store) -> None:
    until_started.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    second = until_started.enqueue(1)
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))

    assert until_started.enqueue(1) == second
    new_fetcher(worker="here:2").fetch("0", 1)
    assert until_started.enqueue(1) == second, "the first has begun again, and the key is not its own"


def test_unique_ttl_keeps_the_key_whatever_the_outcome(store: Store) -> None:
    sender, failing = note.using(unique=60, result_ttl=1), fail.using(unique=8 * 86_400)
    first, failed = sender.enqueue(1), failing.enqueue()
    work_off()

    again = sender.enqueue(1)
    assert (again == first, again.state, again.return_value) == (True, "successful", 1)
    assert failing.enqueue() == failed
    for key in unique_keys(store):
        assert 0 < store.raw.pttl(key) <= 8 * 86_400_000
    assert 50 < store.raw.ttl(base_key(store, "t", first.id)) <= 60, "its result is kept for as long"
    assert store.raw.ttl(base_key(store, "t", failed.id, "errors")) > 8 * 86_400 - 60


def test_unique_ttl_does_not_shorten_the_result_ttl(store: Store) -> None:
    result = note.using(unique=5, result_ttl=600).enqueue(1)
    work_off()

    assert 590 < store.raw.ttl(base_key(store, "t", result.id)) <= 600


def test_key_expires_after_the_unique_ttl(store: Store) -> None:
    sender = note.using(unique=0.05)
    first = sender.enqueue(1)

    eventually(lambda: new_one(sender.enqueue(1), first))

    assert ready() == 2


@pytest.mark.parametrize("unique", [True, "started", 60])
@pytest.mark.parametrize("options", [{}, {"run_after": 60}, {"priority": 1}], ids=str)
def test_cancelled_task_releases_its_key(store: Store, unique: Any, options: dict[str, Any]) -> None:
    sender = note.using(unique=unique, **options)
    first = sender.enqueue(1)
    first.cancel()

    assert unique_keys(store) == []
    assert new_one(sender.enqueue(1), first)


def test_task_that_killed_its_workers_releases_its_key(store: Store) -> None:
    sender = note.using(unique=True, max_deliveries=1)
    first = sender.enqueue(1)
    new_fetcher(worker="dies").fetch("0", 1)
    assert sender.enqueue(1) == first
    end_lease(store, first.id)
    assert recover() == [(first.id, "default", "failed")]

    assert unique_keys(store) == []
    assert new_one(sender.enqueue(1), first)


def test_task_of_a_dead_worker_keeps_its_key(store: Store) -> None:
    first = once.enqueue(1)
    new_fetcher(worker="dies").fetch("0", 1)
    end_lease(store, first.id)
    recover()

    assert once.enqueue(1) == first
    work_off()
    assert unique_keys(store) == []


def test_unregistered_task_keeps_its_key_until_it_is_deleted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = once.enqueue(1)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(registry, "tasks", {})
        work_off()
    get_queue("default").purge()
    assert once.enqueue(1) == first, "a purge leaves unregistered tasks alone"

    get_queue("default").delete_unregistered()

    assert unique_keys(store) == []
    assert new_one(once.enqueue(1), first)


@pytest.mark.parametrize("options", [{}, {"priority": 3}, {"run_after": 60}], ids=str)
def test_purged_task_releases_its_key(store: Store, options: dict[str, Any]) -> None:
    sender = once.using(**options)
    first = sender.enqueue(1)
    purge = get_queue("default").purge()

    second = sender.enqueue(1)
    assert new_one(second, first)
    assert get_queue("default").restore(purge) == 0, "another has its place"

    first.refresh()
    assert first.state == "cancelled"
    assert 0 < store.raw.ttl(base_key(store, "t", first.id)) <= 600
    assert sender.enqueue(1) == second
    depth = get_queue("default").info()
    assert depth.ready + depth.scheduled == 1


@pytest.mark.parametrize("options", [{}, {"priority": 3}, {"run_after": 60}], ids=str)
def test_restored_task_takes_its_key_again(store: Store, options: dict[str, Any]) -> None:
    sender = once.using(**options)
    first = sender.enqueue(1)
    get_queue("default").restore(get_queue("default").purge())

    assert sender.enqueue(1) == first


def test_restore_wakes_callers_of_get_when_the_key_is_taken(store: Store) -> None:
    first = once.enqueue(1)
    store.raw.hset(base_key(store, "t", first.id), "W", 1)
    purge = get_queue("default").purge()
    once.enqueue(1)

    get_queue("default").restore(purge)

    assert store.raw.lrange(base_key(store, "t", first.id, "done"), 0, -1) == [b"1"]


def test_deleted_trash_leaves_no_key(store: Store) -> None:
    once.enqueue(1)
    note.enqueue(2)
    get_queue("default").purge()

    assert run(connections.client(), control.delete_trash(home(), keep_ms=-1)) == 2

    assert unique_keys(store) == []


def failed_ones(sender: Any, count: int) -> list[TaskResult]:
    results: list[TaskResult] = sender.enqueue_many([((str(number),), {}) for number in range(count)])
    work_off()
    return results


def test_retried_failed_task_takes_its_key_again(store: Store) -> None:
    sender = fail.using(unique=True)
    [first] = failed_ones(sender, 1)

    assert get_queue("default").retry_failed() == 1

    assert sender.enqueue("0") == first


def test_failed_task_is_not_retried_while_another_task_has_its_key(store: Store) -> None:
    sender = fail.using(unique=True)
    first, *others = failed_ones(sender, 3)
    second = sender.enqueue("0")

    assert get_queue("default").retry_failed() == 2
    assert get_queue("default").retry_failed([first.id]) == 0

    first.refresh()
    assert first.state == "failed"
    assert [result.id for result in get_queue("default").tasks("failed")] == [first.id]
    assert sender.enqueue("0") == second
    assert {result.id for result in get_queue("default").tasks("ready")} == {second.id, *[other.id for other in others]}


def test_retry_failed_skips_tasks_whose_key_is_taken(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CHUNK", 3)
    sender = fail.using(unique=True)
    failed_ones(sender, 10)
    sender.enqueue_many([((str(number),), {}) for number in (0, 1, 2, 4)])

    assert get_queue("default").retry_failed() == 6

    assert get_queue("default").info().failed == 4


def test_failed_task_with_a_unique_ttl_may_be_retried(store: Store) -> None:
    [first] = failed_ones(fail.using(unique=60), 1)

    assert get_queue("default").retry_failed([first.id]) == 1


def test_deleting_a_failed_task_releases_its_key(store: Store) -> None:
    sender = fail.using(unique=60)
    [first] = failed_ones(sender, 1)
    assert sender.enqueue("0") == first

    get_queue("default").delete_failed()

    assert unique_keys(store) == []
    with pytest.raises(TaskResultDoesNotExist):
        first.refresh()
    assert new_one(sender.enqueue("0"), first)


def test_key_without_a_record_is_ignored(store: Store) -> None:
    first = once.enqueue(1)
    store.raw.delete(base_key(store, "t", first.id))

    assert new_one(once.enqueue(1), first)


def test_unique_mode_of_each_call_applies(store: Store) -> None:
    """A deploy changes the option: what was sent before is judged by the new one."""
    timed = note.using(unique=60).enqueue(1)
    assert once.enqueue(1) == timed
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    assert once.enqueue(1) == timed
    started = until_started.enqueue(1)
    assert new_one(started, timed), "it has started"
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000))

    assert once.enqueue(1) == started
    work_off()
    assert new_one(once.enqueue(1), started)


def test_finished_task_with_a_unique_ttl_is_no_duplicate_of_a_call_without_one(store: Store) -> None:
    timed = note.using(unique=60).enqueue(1)
    work_off()

    assert new_one(once.enqueue(1), timed)


def test_finished_task_leaves_no_unique_key(store: Store) -> None:
    for sender in (once, until_started):
        sender.enqueue(1)
    fail.using(unique=True).enqueue()

    work_off()

    assert recorded == [1]
    assert unique_keys(store) == []


def test_task_without_unique_stores_nothing_for_it(redis_server: Store) -> None:
    result = add.enqueue(2, 3)

    assert set(redis_server.raw.hkeys(base_key(redis_server, "t", result.id))) == {b"q", b"e", b"n", b"b"}
    assert redis_server.raw.llen(queue_key(redis_server, "ready")) == 1
