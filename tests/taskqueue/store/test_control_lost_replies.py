"""An operation repeated after a lost reply is applied once and returns the first reply."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_redis_components.core.scripts import LuaScript
from django_redis_components.taskqueue import TaskResult, get_queue
from django_redis_components.taskqueue.queue import Queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import control, pending_tasks, task_control
from django_redis_components.taskqueue.store.scripts import RENAME_TASKS
from django_redis_components.taskqueue.store.unregistered import rename_tasks
from tests.support import Proxy, Store
from tests.taskqueue.store.support import fail_many, park_many
from tests.taskqueue.support import base_key, work_off
from tests.taskqueue.tasks import note, recorded


@pytest.fixture
def queue(proxy: Proxy) -> Iterator[Queue]:
    """A queue behind the proxy, and the assurance that a reply was lost."""
    know_all_scripts()
    behind = get_queue("default", using="proxied")
    behind.info()  # its connection is made
    yield behind
    assert proxy.dropped == 1


def know_all_scripts() -> None:
    """Else the reply that is lost would be "no such script", and the first try none."""
    other = get_queue("other")
    other.pause()
    other.resume()
    doomed = note.using(queue_name="other", run_after=60).enqueue("never")
    doomed.run_now()
    other.reschedule([doomed.id], 60)
    other.move(["none"], to="default")
    other.cancel([doomed.id])
    doomed.cancel()
    other.restore(other.purge())
    other.retry_failed()
    other.delete_failed()
    other.tasks("ready")
    home().run(rename_tasks(home(), "other", ["none"], "none", "inf"))


def lose_reply(proxy: Proxy, script: LuaScript) -> None:
    proxy.drop_next_reply(after=script.sha.encode())


def far(result: TaskResult) -> TaskResult:
    """The same task, behind the proxy."""
    return TaskResult(result.task, result.name, result.id, home("proxied"), {})


def depth() -> Any:
    return get_queue("default").info()


def test_repeated_pause_is_applied_once(queue: Queue, proxy: Proxy) -> None:
    lose_reply(proxy, control.PAUSE)

    queue.pause("why", until=60)

    assert depth().paused.reason == "why"


def test_repeated_resume_returns_that_it_was_paused(queue: Queue, proxy: Proxy) -> None:
    get_queue("default").pause()
    lose_reply(proxy, control.RESUME)

    assert queue.resume() is True

    assert depth().paused is None


def test_reply_of_an_operation_is_kept_for_a_minute(queue: Queue, proxy: Proxy, redis_server: Store) -> None:
    get_queue("default").pause()
    known = ops(redis_server)
    lose_reply(proxy, control.RESUME)

    queue.resume()

    [op] = ops(redis_server) - known
    assert 0 < redis_server.raw.pttl(op) <= 60_000


def ops(store: Store) -> set[bytes]:
    return {key for key in store.keys() if b":reply:" in key}  # noqa: SIM118 - a Store is no dict


def test_repeated_cancel_is_applied_once(queue: Queue, proxy: Proxy) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(3)])
    lose_reply(proxy, task_control.CANCEL)

    assert far(results[1]).cancel() is True

    assert depth().ready == 2
    work_off()
    assert (recorded, depth().ready) == ([0, 2], 0)


def test_repeated_reschedule_counts_from_the_first_request(
    queue: Queue, proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = note.using(run_after=60).enqueue("a")
    lose_reply(proxy, task_control.RESCHEDULE)
    due: list[bytes] = []
    monkeypatch.setattr("django_redis_components.core.client.retry.random.uniform", lambda *_: look() and 0.0)

    def look() -> bool:
        due.append(redis_server.raw.hget(base_key(redis_server, "t", result.id), "d"))
        time.sleep(0.005)
        return True

    far(result).reschedule(3_600)

    assert due == [redis_server.raw.hget(base_key(redis_server, "t", result.id), "d")]


def test_repeated_reschedule_succeeds_when_the_task_has_started(
    queue: Queue, proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = note.using(run_after=60).enqueue("a")
    lose_reply(proxy, task_control.RESCHEDULE)
    monkeypatch.setattr("django_redis_components.core.client.retry.random.uniform", lambda *_: work_off() and 0.0)

    far(result).run_now()

    assert recorded == ["a"]


def test_repeated_change_of_many_pending_tasks_counts_each_task_once(queue: Queue, proxy: Proxy) -> None:
    ids = [result.id for result in note.enqueue_many([((number,), {}) for number in range(700)])]
    lose_reply(proxy, pending_tasks.RESCHEDULE_TASKS)

    assert queue.reschedule(ids, 3_600) == 700

    assert (depth().ready, depth().scheduled) == (0, 700)


def test_repeated_move_counts_each_task_once(queue: Queue, proxy: Proxy) -> None:
    ids = [result.id for result in note.enqueue_many([((number,), {}) for number in range(700)])]
    lose_reply(proxy, pending_tasks.MOVE_TASKS)

    assert queue.move(ids, to="third") == 700

    assert (depth().ready, get_queue("third").info().ready) == (0, 700)


def test_repeated_renaming_counts_each_task_once(queue: Queue, proxy: Proxy) -> None:
    ids = [result.id for result in park_many(700)]
    shard = home("proxied")
    lose_reply(proxy, RENAME_TASKS)

    assert shard.run(rename_tasks(shard, "default", ids, note.name, "inf")) == 700

    assert (depth().ready, depth().unregistered) == (700, 0)


def test_repeated_cancellation_of_many_counts_each_task_once(queue: Queue, proxy: Proxy) -> None:
    ids = [result.id for result in note.enqueue_many([((number,), {}) for number in range(700)])]
    lose_reply(proxy, pending_tasks.CANCEL_TASKS)

    assert queue.cancel(ids) == 700

    assert depth().ready == 0


@pytest.mark.parametrize("named", [False, True])
def test_repeated_retry_counts_each_task_once(queue: Queue, proxy: Proxy, named: bool) -> None:
    ids = [result.id for result in fail_many(700)]
    lose_reply(proxy, control.RETRY_FAILED)

    assert queue.retry_failed(ids if named else None) == 700

    assert (depth().ready, depth().failed) == (700, 0)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("verb", "make"), [("delete_failed", fail_many), ("delete_unregistered", park_many)])
def test_repeated_delete_counts_each_task_once(
    queue: Queue, proxy: Proxy, verb: str, make: Callable[[int], list[TaskResult]], named: bool
) -> None:
    ids = [result.id for result in make(30)]
    lose_reply(proxy, control.DELETE_TASKS)

    assert getattr(queue, verb)(ids if named else None) == 30

    assert (depth().failed, depth().unregistered) == (0, 0)


def test_repeated_purge_removes_no_newer_task(queue: Queue, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    note.enqueue_many([((number,), {}) for number in range(5)])
    note.enqueue("cancelled before").cancel()
    lose_reply(proxy, control.PURGE)
    monkeypatch.setattr("django_redis_components.core.client.retry.random.uniform", lambda *_: come_between())

    def come_between() -> float:
        note.using(priority=5).enqueue("new")
        note.enqueue("cancelled after").cancel()
        return 0.0

    purge = queue.purge()

    assert purge.count == 5
    assert depth().ready == 1
    assert get_queue("default").restore(purge) == 5
    work_off()
    assert (recorded, depth().ready) == (["new", 0, 1, 2, 3, 4], 0)


@pytest.mark.parametrize("chunk", [2, 100])
def test_repeated_restore_counts_each_task_once(
    queue: Queue, proxy: Proxy, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "CHUNK", chunk)
    note.enqueue_many([((number,), {}) for number in range(9)])
    purge = get_queue("default").purge()
    lose_reply(proxy, control.RESTORE)

    assert queue.restore(purge) == 9

    work_off()
    assert recorded == list(range(9))


def test_repeated_listing_returns_the_same(queue: Queue, proxy: Proxy) -> None:
    result = note.enqueue("a")
    lose_reply(proxy, control.LIST_TASKS)

    assert [each.id for each in queue.tasks("ready")] == [result.id]


def test_equal_operations_have_separate_replies(redis_server: Store) -> None:
    queue = get_queue("default")

    for _ in range(2):
        queue.pause()
        assert queue.resume() is True

    assert len(ops(redis_server)) == 2
