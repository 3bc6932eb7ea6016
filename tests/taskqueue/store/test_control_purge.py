"""A purge removes all waiting tasks; it can be restored for a day."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import NotScheduled, Purge, TaskResult, TaskResultDoesNotExist, get_queue, poller
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import control
from django_redis_components.taskqueue.store.job import Ack
from tests.support import Store, eventually, run_async, run_together
from tests.taskqueue.store.support import fill
from tests.taskqueue.support import (
    base_key,
    new_fetcher,
    queue_key,
    running_worker,
    server_ms,
    settle_now,
    work_off,
)
from tests.taskqueue.tasks import fail, fail_thrice, note, recorded

DAY_S = 86_400


def trash_keys(store: Store) -> list[bytes]:
    return [key for key in store.keys() if b":trash" in key]  # noqa: SIM118 - a Store is no dict


def empty(keep_ms: int = 0, **options: Any) -> int:
    return run(connections.client(), control.delete_trash(home(), keep_ms, **options))


def test_purge_removes_waiting_tasks_only(store: Store) -> None:
    fail.enqueue("failed")
    work_off()
    note.enqueue("running")
    new_fetcher().fetch("0", 1)
    waiting = fill(store)
    elsewhere = note.using(queue_name="mail").enqueue("elsewhere")

    purge = get_queue("default").purge()

    assert (purge.queue, purge.count) == ("default", len(waiting))
    depth = get_queue("default").info()
    assert (depth.ready, depth.scheduled, depth.running, depth.failed) == (0, 0, 1, 1)
    assert work_off("default") == []
    assert [job.id for job in work_off("mail")] == [elsewhere.id]


def test_records_of_purged_tasks_are_kept_until_the_trash_is_deleted(store: Store) -> None:
    results = fill(store)
    get_queue("default").purge()

    for result in results:
        result.refresh()
        assert result.status == "READY"

    assert empty() == len(results)
    for result in results:
        with pytest.raises(TaskResultDoesNotExist):
            result.refresh()
    assert trash_keys(store) == []


def test_purge_of_an_empty_queue_creates_no_trash(store: Store) -> None:
    note.enqueue("cancelled").cancel()

    purge = get_queue("default").purge()

    assert purge.count == 0
    assert trash_keys(store) == []
    assert store.raw.exists(queue_key(store, "tombstones")) == 0
    assert get_queue("default").restore(purge) == 0


def test_restore_returns_all_tasks_in_order(store: Store) -> None:
    results = fill(store)
    purge = get_queue("default").purge()

    assert get_queue("default").restore(purge) == len(results)

    depth = get_queue("default").info()
    assert (depth.ready, depth.scheduled) == (len(results) - 1, 1)
    work_off()
    assert recorded == ["due", "front", "urgent", "ready 0", "ready 1", "ready 2", "unimportant"]
    assert trash_keys(store) == []


def test_restored_tasks_run_before_newer_ones(store: Store) -> None:
    for word in ("old 1", "old 2"):
        note.enqueue(word)
    note.using(priority=5).enqueue("old urgent")
    purge = get_queue("default").purge()
    for word in ("new 1", "new 2"):
        note.enqueue(word)
    note.using(priority=5).enqueue("new urgent")

    get_queue("default").restore(purge)

    work_off()
    assert recorded == ["old urgent", "new urgent", "old 1", "old 2", "new 1", "new 2"]


def test_restore_keeps_the_order_while_workers_fetch_between_chunks(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "CHUNK", 7)
    results = note.enqueue_many([((number,), {}) for number in range(50)])
    purge = get_queue("default").purge()
    note.enqueue("new")
    fetcher, taken = new_fetcher(), []

    def with_fetches_between(flow: Any) -> Any:
        request = next(flow)
        try:
            while True:
                reply = yield request
                taken.extend(job.id for job in fetcher.fetch("0", 3))
                request = flow.send(reply)
        except StopIteration as stop:
            return stop.value

    back = run(connections.client(), with_fetches_between(control.restore(home(), "default", purge.id)))

    assert back == 50
    taken += [job.id for job in work_off()]
    assert taken[:50] == [result.id for result in results]
    assert len(taken) == 51


def test_restore_notifies_workers(store: Store) -> None:
    result = note.enqueue("plain")
    purge = get_queue("default").purge()
    with running_worker():
        eventually(lambda: store.raw.exists(base_key(store, "wakeup", "q:default")) == 0)

        get_queue("default").restore(purge)

        assert result.get(60) == "plain"


def test_restored_retries_keep_their_attempts(store: Store) -> None:
    result = fail_thrice.using(backoff=3_600).enqueue()
    work_off()
    assert get_queue("default").info().retrying == 1
    purge = get_queue("default").purge()
    assert get_queue("default").info().retrying == 0

    get_queue("default").restore(purge)

    assert get_queue("default").info().retrying == 1
    result.refresh()
    assert (result.state, result.attempts, len(result.errors)) == ("retrying", 1, 1)
    result.run_now()
    assert get_queue("default").info().retrying == 0
    assert [job.attempts for job in work_off()] == [1]


def test_purge_is_restored_once(store: Store) -> None:
    note.enqueue("a")
    queue = get_queue("default")
    purge = queue.purge()

    assert queue.restore(purge) == 1
    assert queue.restore(purge) == 0
    assert queue.info().ready == 1


def test_restore_accepts_the_id_of_a_purge(store: Store) -> None:
    note.enqueue("a")

    assert get_queue("default").restore(get_queue("default").purge().id) == 1


@pytest.mark.parametrize("unheard_of", ["no-such-bin", "a/b", ""])
def test_restore_of_an_unknown_purge_restores_nothing(redis_server: Store, unheard_of: str) -> None:
    assert get_queue("default").restore(unheard_of) == 0


def test_restore_ignores_a_purge_of_another_queue(store: Store) -> None:
    note.enqueue("a")
    purge = get_queue("default").purge()

    assert get_queue("mail").restore(purge) == 0
    assert get_queue("mail").restore(Purge("mail", purge.id, 1)) == 0

    assert get_queue("mail").info().ready == 0
    assert get_queue("default").restore(purge) == 1


def test_concurrent_restores_restore_each_task_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CHUNK", 20)
    note.enqueue_many([((number,), {}) for number in range(200)])
    queue = get_queue("default")
    purge = queue.purge()

    assert sum(run_together(4, lambda: queue.restore(purge))) == 200

    assert queue.info().ready == 200


def test_concurrent_purges_remove_each_task_once(store: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(50)])

    purges = run_together(4, get_queue("default").purge)

    assert sorted(purge.count for purge in purges) == [0, 0, 0, 50]


def test_concurrent_enqueues_purges_and_workers_lose_no_task(store: Store) -> None:
    queue = get_queue("default")
    numbers = itertools.count()

    def act(number: int) -> tuple[list[str], list[Purge], list[str]]:
        sent: list[str] = []
        purges: list[Purge] = []
        ran: list[str] = []
        for _ in range(25):
            if number < 3:
                sent += [each.id for each in note.enqueue_many([((next(numbers),), {})] * 4)]
            elif number == 3:
                purges.append(queue.purge())
            else:
                ran += [job.id for job in work_off(worker="w:1")]
        return sent, purges, ran

    found = run_together(5, act)

    sent = {task_id for each in found for task_id in each[0]}
    purges = [purge for each in found for purge in each[1]]
    ran = [task_id for each in found for task_id in each[2]]
    left = queue.info().ready
    assert len(sent) == 300
    assert len(ran) + sum(purge.count for purge in purges) + left == 300
    assert sum(queue.restore(purge) for purge in purges) == 300 - len(ran) - left
    ran += [job.id for job in work_off()]
    assert sorted(ran) == sorted(sent)


def test_task_cancelled_after_a_purge_is_not_restored(store: Store) -> None:
    results = fill(store)
    queue = get_queue("default")
    purge = queue.purge()
    note.enqueue("new")

    for result in results[::2]:
        assert result.cancel() is True
    assert queue.info().ready == 1
    assert queue.restore(purge) == len(results) // 2

    assert queue.info().ready + queue.info().scheduled == 1 + len(results) // 2
    ran = {job.id for job in work_off()}
    assert ran.isdisjoint({result.id for result in results[::2]})
    assert queue.info().ready == 0
    assert store.raw.exists(queue_key(store, "tombstones")) == 0


def test_task_cancelled_before_a_purge_is_not_counted(store: Store) -> None:
    results = [note.enqueue(number) for number in range(5)]
    for result in results[:2]:
        result.cancel()
    queue = get_queue("default")

    purge = queue.purge()

    assert purge.count == 3
    assert queue.info().ready == 0
    assert queue.restore(purge) == 3
    assert queue.info().ready == 3
    results[4].cancel()
    assert queue.info().ready == 2
    assert [job.id for job in work_off()] == [result.id for result in results[2:4]]
    assert queue.info().ready == 0


def test_restored_task_is_counted_when_it_is_cancelled(store: Store) -> None:
    note.enqueue("taken")
    fetcher = new_fetcher(worker="gives:back")
    [job] = fetcher.fetch("0", 1)
    get_queue("default").purge()
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))
    note.enqueue("stays")

    TaskResult(note, note.name, job.id, home(), {}).cancel()

    assert get_queue("default").info().ready == 1
    work_off()
    assert (recorded, get_queue("default").info().ready) == (["stays"], 0)


def test_purged_task_cannot_be_rescheduled(store: Store) -> None:
    result = note.using(run_after=60).enqueue("later")
    get_queue("default").purge()

    with pytest.raises(NotScheduled, match=r"or purged\.$"):
        result.run_now()


@pytest.mark.contract
def test_trash_is_kept_for_a_day(store: Store) -> None:
    results = fill(store)
    purge = get_queue("default").purge()
    trash_index = base_key(store, "trash_index")
    age_ms = server_ms(store) - store.raw.zscore(trash_index, f"default/{purge.id}")
    assert 0 <= age_ms < 60_000

    assert run(connections.client(), control.delete_trash(home())) == 0
    store.raw.zincrby(trash_index, -(DAY_S - 60) * 1_000, f"default/{purge.id}")
    assert run(connections.client(), control.delete_trash(home())) == 0
    store.raw.zincrby(trash_index, -60_001, f"default/{purge.id}")
    assert run(connections.client(), control.delete_trash(home())) == len(results)

    assert get_queue("default").restore(purge) == 0


def test_time_of_the_last_purge_is_kept_for_a_week(store: Store) -> None:
    get_queue("default").purge()

    assert 7 * DAY_S - 60 < store.raw.ttl(queue_key(store, "purged_at")) <= 7 * DAY_S


def test_old_trash_is_deleted_in_chunks(store: Store) -> None:
    queue = get_queue("a/b")
    for count in (1_200, 1, 3):
        note.using(queue_name="a/b").enqueue_many([((number,), {}) for number in range(count)])
        fail_thrice.using(queue_name="a/b", run_after=60).enqueue()
        emptied = queue.purge()
    for part in ("ready", "scheduled"):
        store.raw.delete(base_key(store, "trash", emptied.id, part))

    assert empty() == 1_200 + 1 + 2

    assert trash_keys(store) == []
    assert list(store.raw.scan_iter(match=base_key(store, "t", "*"))) != [], "of the bin that lost its lists"


def test_trash_left_by_one_call_is_deleted_by_the_next(redis_server: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(1_200)])
    get_queue("default").purge()

    assert [empty(calls=1), empty(calls=1), empty(calls=5), empty()] == [500, 500, 200, 0]


@pytest.mark.contract
def test_poller_deletes_old_trash(store: Store) -> None:
    note.enqueue("old")
    purge = get_queue("default").purge()
    store.raw.zadd(base_key(store, "trash_index"), {f"default/{purge.id}": server_ms(store) - DAY_S * 1_000 - 1})

    poller.Poller(home(), connections.client()).step()

    assert trash_keys(store) == []


def test_async_methods_return_the_same(store: Store) -> None:
    note.enqueue("a")
    queue = get_queue("default")

    async def act() -> tuple[int, int]:
        purge = await queue.apurge()
        return purge.count, await queue.arestore(purge)

    assert run_async(act) == (1, 1)
    assert queue.info().ready == 1


def test_invalid_purge_raises(redis_server: Store) -> None:
    with pytest.raises(TypeError, match=r"^purge=5: expected the result of purge\(\), or its id\.$"):
        get_queue("default").restore(5)  # type: ignore[arg-type]
