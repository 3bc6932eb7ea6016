"""Unique tasks: of two calls of one key there is one task, whoever sends, and whatever becomes of the first."""

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
from django_redis_components.taskqueue.store import queues as control
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
    tag,
    work_off,
)
from tests.taskqueue.tasks import add, come_back, echo, fail, fail_thrice, note, noted

once = note.using(unique=True)
until_started = note.using(unique="started")


def unique_keys(store: Store) -> list[bytes]:
    return [key for key in store.keys() if b":u:" in key]  # noqa: SIM118 - a Store is no dict


def ready() -> int:
    return get_queue("default").depths().ready


def new_one(sent: TaskResult, *others: TaskResult) -> bool:
    return not sent.is_duplicate and sent.id not in {other.id for other in others}


@pytest.mark.parametrize("unique", [True, "finished", "started", 60, timedelta(minutes=1), Unique(), Unique(until=60)])
def test_a_second_one_is_not_accepted_while_the_first_waits(store: Store, unique: Any) -> None:
    sender = add.using(unique=unique)

    first, second = sender.enqueue(2, 3), sender.enqueue(2, 3)

    assert (first.is_duplicate, second.is_duplicate) == (False, True)
    assert second == first
    assert (second.args, second.enqueued_at, second.state) == ([2, 3], first.enqueued_at, "ready")
    assert ready() == 1
    work_off()
    assert second.get(0) == 5


@pytest.mark.parametrize("unique", [None, False])
def test_without_the_option_a_second_one_is_a_second_task(redis_server: Store, unique: Any) -> None:
    sender = add.using(unique=unique)

    assert new_one(sender.enqueue(2, 3), sender.enqueue(2, 3))
    assert unique_keys(redis_server) == []


def test_what_two_calls_have_in_common_is_judged_by_name_and_with_defaults(redis_server: Store) -> None:
    first = fail.using(unique=True).enqueue()
    for_lists = echo.using(unique=True)

    assert fail.using(unique=True).enqueue("out of order") == first
    assert fail.using(unique=True).enqueue(text="out of order") == first
    assert fail.using(unique=True).enqueue("another") != first
    assert for_lists.enqueue((1, 2), b=1, a={"x": 1, "y": 2}) == for_lists.enqueue([1, 2], a={"y": 2, "x": 1}, b=1)
    assert len({for_lists.enqueue(value).id for value in (1, 1.0, "1", True, None, [1])}) == 6
    assert note.using(unique=True).enqueue("out of order") != first, "another task is another task"


def test_a_key_decides_instead_of_the_arguments(redis_server: Store) -> None:
    sender = add.using(unique=Unique(key="sum:{a}"))

    first, second, other = sender.enqueue(1, 2), sender.enqueue(1, 3), sender.enqueue(2, 2)

    assert second == first
    assert second.args == [1, 2], "it is the first one's result"
    assert other != first


def test_a_key_may_be_a_function_of_the_arguments(redis_server: Store) -> None:
    sender = add.using(unique=Unique(key=lambda a, b: f"{min(a, b)}-{max(a, b)}"))

    assert sender.enqueue(1, 2) == sender.enqueue(b=1, a=2)


def test_a_key_that_is_no_text_is_refused(redis_server: Store) -> None:
    sender = add.using(unique=Unique(key=lambda a, b: a))

    with pytest.raises(TypeError, match=r"^The unique key of tests\.taskqueue\.tasks\.add is 1: expected text\.$"):
        sender.enqueue(1, 2)


@pytest.mark.parametrize("key", [7, b"order"])
def test_a_key_of_another_kind_is_refused(key: Any) -> None:
    with pytest.raises(TypeError, match="expected a template, a callable, or None"):
        Unique(key=key)
    with pytest.raises(TypeError, match=r'^until=None: expected "finished"'):
        Unique(until=None)  # type: ignore[arg-type]


def test_a_key_that_names_no_argument_is_refused_at_once() -> None:
    with pytest.raises(InvalidTask, match=r"the function takes no argument 'c'; it has a, b\."):
        add.using(unique=Unique(key="{c}"))


@pytest.mark.parametrize("options", [{"run_after": 3_600}, {"priority": 5}, {"queue_name": "mail"}], ids=str)
def test_the_first_may_stand_anywhere(store: Store, options: dict[str, Any]) -> None:
    first = once.using(**options).enqueue(1)

    assert once.enqueue(1) == first
    assert once.using(**options).enqueue(1) == first
    assert once.using(**options).enqueue(1).run_after == first.run_after


def test_of_many_calls_in_one_batch_each_has_one_task(store: Store) -> None:
    results = once.enqueue_many([((number % 3,), {}) for number in range(9)])

    assert [result.is_duplicate for result in results] == [False] * 3 + [True] * 6
    assert results[:3] * 3 == results
    assert ready() == 3


@pytest.mark.contract
def test_the_twins_know_it_too(store: Store) -> None:
    async def send() -> list[TaskResult]:
        return [await once.aenqueue(1), *await once.aenqueue_many([((1,), {}), ((1,), {})])]

    first = once.enqueue(1)

    assert run_async(send) == [first] * 3


@pytest.mark.django_db(transaction=True)
def test_on_commit_the_one_that_is_there_then_is_found(store: Store) -> None:
    with transaction.atomic():
        late = once.enqueue_on_commit(1)
        first = once.enqueue(1)
        assert (late.is_duplicate, late == first) == (False, False)

    assert (late.is_duplicate, late == first) == (True, True)


def test_of_many_who_send_at_once_one_is_accepted(store: Store) -> None:
    results = run_together(8, lambda: [once.enqueue(number) for number in range(20)])

    assert ready() == 20
    for number in range(20):
        same = [mine[number] for mine in results]
        assert len({result.id for result in same}) == 1
        assert [result.is_duplicate for result in same].count(False) == 1


def test_a_call_that_is_sent_again_is_no_duplicate_of_itself(proxy: Proxy, redis_server: Store) -> None:
    far = dataclasses.replace(once, connection="proxied")
    far.enqueue("warm")
    proxy.drop_next_reply(after=tag().encode())

    result = far.enqueue(1)

    assert proxy.dropped == 1
    assert not result.is_duplicate
    assert ready() == 2


def test_it_is_no_duplicate_of_itself_when_it_has_finished_meanwhile(store: Store) -> None:
    """The reply was lost for so long that the task has run, and another waits by now."""
    args = {"base": tag(), "queue": "default", "due": "", "priority": 0, "unique": "fdigest", "expires": ""}
    call = ENQUEUE(id="one", fields=("n", note.name, "b", b"[[1],{}]"), **args)
    accepted = connections.client().execute(call)
    work_off()
    connections.client().execute(ENQUEUE(id="two", fields=("n", note.name, "b", b"[[1],{}]"), **args))

    assert connections.client().execute(call) == accepted


def test_it_is_unique_until_it_has_finished(store: Store) -> None:
    first = once.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    assert once.enqueue(1) == first, "it runs"
    settle_now(fetcher, Ack(job.id, job.token, "ok", b"1", ttl_ms=60_000))

    assert new_one(once.enqueue(1), first)


def test_it_is_unique_while_it_is_tried_again(store: Store) -> None:
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


def test_a_task_that_was_put_off_is_unique_as_before(store: Store) -> None:
    sender = come_back.using(unique=True)
    first = sender.enqueue(60)
    work_off()

    assert sender.enqueue(60) == first


def test_until_started_another_is_accepted_as_soon_as_a_worker_has_the_first(store: Store) -> None:
    first = until_started.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)

    second = until_started.enqueue(1)
    assert new_one(second, first)
    settle_now(fetcher, Ack(job.id, job.token, "ok", b"1", ttl_ms=60_000))

    assert until_started.enqueue(1) == second, "the first one's end is not the second one's"


def test_until_started_a_task_that_is_tried_again_has_started(store: Store) -> None:
    sender = fail_thrice.using(unique="started", backoff=60)
    first = sender.enqueue()
    work_off()

    assert new_one(sender.enqueue(), first)


def test_until_started_a_task_that_was_handed_back_has_its_key_again(store: Store) -> None:
    first = until_started.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "back"))

    assert until_started.enqueue(1) == first


def test_until_started_what_came_meanwhile_keeps_its_key(store: Store) -> None:
    until_started.enqueue(1)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    second = until_started.enqueue(1)
    settle_now(fetcher, Ack(job.id, job.token, "back"))

    assert until_started.enqueue(1) == second
    new_fetcher(worker="here:2").fetch("0", 1)
    assert until_started.enqueue(1) == second, "the first has begun again, and the key is not its own"


def test_for_a_time_the_first_stands_whatever_becomes_of_it(store: Store) -> None:
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


def test_for_a_time_shortens_the_life_of_no_result(store: Store) -> None:
    result = note.using(unique=5, result_ttl=600).enqueue(1)
    work_off()

    assert 590 < store.raw.ttl(base_key(store, "t", result.id)) <= 600


def test_for_a_time_means_no_longer(store: Store) -> None:
    sender = note.using(unique=0.05)
    first = sender.enqueue(1)

    eventually(lambda: new_one(sender.enqueue(1), first))

    assert ready() == 2


@pytest.mark.parametrize("unique", [True, "started", 60])
@pytest.mark.parametrize("options", [{}, {"run_after": 60}, {"priority": 1}], ids=str)
def test_a_cancelled_task_makes_room(store: Store, unique: Any, options: dict[str, Any]) -> None:
    sender = note.using(unique=unique, **options)
    first = sender.enqueue(1)
    first.cancel()

    assert unique_keys(store) == []
    assert new_one(sender.enqueue(1), first)


def test_a_task_that_has_killed_its_workers_makes_room(store: Store) -> None:
    sender = note.using(unique=True, max_deliveries=1)
    first = sender.enqueue(1)
    new_fetcher(worker="dies").fetch("0", 1)
    assert sender.enqueue(1) == first
    end_lease(store, first.id)
    assert recover() == [(first.id, "default", "failed")]

    assert unique_keys(store) == []
    assert new_one(sender.enqueue(1), first)


def test_a_worker_that_dies_leaves_the_task_unique(store: Store) -> None:
    first = once.enqueue(1)
    new_fetcher(worker="dies").fetch("0", 1)
    end_lease(store, first.id)
    recover()

    assert once.enqueue(1) == first
    work_off()
    assert unique_keys(store) == []


def test_a_parked_task_stands_until_it_is_deleted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_purged_task_stands_in_nobodys_way(store: Store, options: dict[str, Any]) -> None:
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
    depth = get_queue("default").depths()
    assert depth.ready + depth.scheduled == 1


@pytest.mark.parametrize("options", [{}, {"priority": 3}, {"run_after": 60}], ids=str)
def test_a_purged_task_that_comes_back_is_unique_again(store: Store, options: dict[str, Any]) -> None:
    sender = once.using(**options)
    first = sender.enqueue(1)
    get_queue("default").restore(get_queue("default").purge())

    assert sender.enqueue(1) == first


def test_whoever_waits_for_a_purged_task_hears_that_another_has_its_place(store: Store) -> None:
    first = once.enqueue(1)
    store.raw.hset(base_key(store, "t", first.id), "W", 1)
    purge = get_queue("default").purge()
    once.enqueue(1)

    get_queue("default").restore(purge)

    assert store.raw.lrange(base_key(store, "t", first.id, "done"), 0, -1) == [b"1"]


def test_a_bin_that_is_emptied_leaves_no_key(store: Store) -> None:
    once.enqueue(1)
    note.enqueue(2)
    get_queue("default").purge()

    assert run(connections.client(), control.delete_trash(keep_ms=-1)) == 2

    assert unique_keys(store) == []


def failed_ones(sender: Any, count: int) -> list[TaskResult]:
    results: list[TaskResult] = sender.enqueue_many([((str(number),), {}) for number in range(count)])
    work_off()
    return results


def test_a_failed_task_that_is_tried_again_is_unique_again(store: Store) -> None:
    sender = fail.using(unique=True)
    [first] = failed_ones(sender, 1)

    assert get_queue("default").retry_failed() == 1

    assert sender.enqueue("0") == first


def test_a_failed_task_stays_failed_while_another_has_its_key(store: Store) -> None:
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


def test_those_that_stay_do_not_hide_the_others(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CHUNK", 3)
    sender = fail.using(unique=True)
    failed_ones(sender, 10)
    sender.enqueue_many([((str(number),), {}) for number in (0, 1, 2, 4)])

    assert get_queue("default").retry_failed() == 6

    assert get_queue("default").depths().failed == 4


def test_a_failed_task_that_was_unique_for_a_time_may_be_tried_again(store: Store) -> None:
    [first] = failed_ones(fail.using(unique=60), 1)

    assert get_queue("default").retry_failed([first.id]) == 1


def test_deleting_a_failed_task_ends_its_time(store: Store) -> None:
    sender = fail.using(unique=60)
    [first] = failed_ones(sender, 1)
    assert sender.enqueue("0") == first

    get_queue("default").delete_failed()

    assert unique_keys(store) == []
    with pytest.raises(TaskResultDoesNotExist):
        first.refresh()
    assert new_one(sender.enqueue("0"), first)


def test_a_key_whose_task_is_gone_counts_for_nothing(store: Store) -> None:
    first = once.enqueue(1)
    store.raw.delete(base_key(store, "t", first.id))

    assert new_one(once.enqueue(1), first)


def test_each_call_asks_in_its_own_manner(store: Store) -> None:
    """A deploy changes the option: what was sent before is judged by the new one."""
    timed = note.using(unique=60).enqueue(1)
    assert once.enqueue(1) == timed
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    assert once.enqueue(1) == timed
    started = until_started.enqueue(1)
    assert new_one(started, timed), "it has started"
    settle_now(fetcher, Ack(job.id, job.token, "ok", b"1", ttl_ms=60_000))

    assert once.enqueue(1) == started
    work_off()
    assert new_one(once.enqueue(1), started)


def test_a_task_that_was_unique_for_a_time_is_none_until_it_has_finished(store: Store) -> None:
    timed = note.using(unique=60).enqueue(1)
    work_off()

    assert new_one(once.enqueue(1), timed)


def test_a_finished_task_leaves_no_key(store: Store) -> None:
    for sender in (once, until_started):
        sender.enqueue(1)
    fail.using(unique=True).enqueue()

    work_off()

    assert noted == [1]
    assert unique_keys(store) == []


def test_a_task_that_is_not_unique_pays_nothing(redis_server: Store) -> None:
    result = add.enqueue(2, 3)

    assert set(redis_server.raw.hkeys(base_key(redis_server, "t", result.id))) == {b"q", b"e", b"n", b"b"}
    assert redis_server.raw.llen(queue_key(redis_server, "ready")) == 1
