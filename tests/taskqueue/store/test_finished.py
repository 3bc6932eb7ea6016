"""Lists of finished tasks: each once, newest first, bounded in number, bytes and age, and longer than the records."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import TaskResult, TaskResultDoesNotExist, get_queue
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import finished
from django_redis_components.taskqueue.store.finished import FinishedRow, find_finished, parse_row
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.scan import Filters, SlowestRuns, TaskScan, find_slowest, scan_tasks
from django_redis_components.taskqueue.store.scripts import FETCH, FIND_FINISHED
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Proxy, Store, eventually
from tests.taskqueue.store.support import fail_many, ids
from tests.taskqueue.support import (
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    server_ms,
    settle_now,
    taskqueue_settings,
    work_off,
)
from tests.taskqueue.tasks import echo, note
from tests.taskqueue.worker.support import fetch_call


def listed(state: str = "successful", **options: Any) -> list[str]:
    return ids(get_queue("default").tasks(state, **options))


def rows(store: Store, state: str = "successful") -> list[FinishedRow]:
    """Return the stored rows, oldest first."""
    return [parse_row("default", state, row) for row in store.raw.lrange(queue_key(store, state), 0, -1)]


def forget_record(store: Store, *results: TaskResult) -> None:
    for result in results:
        assert store.raw.delete(base_key(store, "t", result.id)) == 1


def scan(state: str = "successful", *, filters: Filters | None = None, **options: Any) -> TaskScan:
    return run(connections.client(), scan_tasks(home(), "default", state, filters or Filters(), **options))


def seen(found: TaskScan) -> list[str]:
    return [task.record.id for task in found.tasks]


@pytest.mark.contract
def test_successful_tasks_are_listed_newest_first(store: Store) -> None:
    results = [note.enqueue(number) for number in range(5)]
    work_off()

    assert listed() == ids(results)[::-1]
    assert listed(limit=2, offset=1) == ids(results)[::-1][1:3]
    assert [task.args for task in get_queue("default").tasks("successful", limit=1)] == [[4]]


@pytest.mark.contract
def test_task_is_listed_after_its_record_has_expired(store: Store) -> None:
    result = echo.using(result_ttl=0.05).enqueue("kim@example.com", subject="Invoice")
    work_off(worker="mailer:7")
    eventually(lambda: not store.raw.exists(base_key(store, "t", result.id)))

    [task] = get_queue("default").tasks("successful")

    assert (task.id, task.name, task.queue_name, task.state) == (result.id, echo.name, "default", "successful")
    assert (task.args, task.kwargs) == (["kim@example.com"], {"subject": "Invoice"})
    assert (task.worker_ids, task.attempts) == (["mailer:7"], 1)
    assert task.enqueued_at == result.enqueued_at
    assert task.enqueued_at
    assert task.started_at
    assert task.last_attempted_at
    assert task.finished_at
    assert task.enqueued_at <= task.started_at == task.last_attempted_at <= task.finished_at
    with pytest.raises(TaskResultDoesNotExist, match="has expired"):
        _ = task.return_value
    with pytest.raises(TaskResultDoesNotExist):
        task.refresh()


def test_async_twin_lists_finished_tasks(redis_server: Store) -> None:
    result = note.enqueue("seen")
    work_off()

    assert asyncio.run(get_queue("default").atasks("successful")) == [result]


def test_row_has_the_times_of_the_record_and_the_duration_of_the_run(redis_server: Store) -> None:
    result = note.enqueue("x")
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, execute(job)._replace(ran_us=1_500_000))

    [row] = rows(redis_server)

    assert row.duration == 1.5
    stored = redis_server.raw.hgetall(base_key(redis_server, "t", result.id))
    times = (Field.enqueued_at_us, Field.first_leased_at_us, Field.leased_at_us, Field.finished_at_us)
    assert [row.fields[name] for name in times] == [stored[name.encode()] for name in times]


def test_retried_task_keeps_its_first_start_and_its_attempts(redis_server: Store) -> None:
    [result] = fail_many(1)
    assert get_queue("default").retry_failed() == 1
    fetcher = new_fetcher(worker="second:1")
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "succeeded", b"null", ttl_ms=60_000))
    result.refresh()
    forget_record(redis_server, result)

    [task] = get_queue("default").tasks("successful")

    assert task.started_at == result.started_at
    assert task.last_attempted_at == result.last_attempted_at
    assert task.attempts == result.attempts
    assert task.worker_ids == ["second:1"]


def test_list_keeps_the_newest_tasks_of_each_state(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, KEEP_FINISHED=5)
    results = note.enqueue_many([((number,), {}) for number in range(300)])
    work_off()

    assert listed(limit=1_000) == ids(results)[:-6:-1]
    assert listed(limit=3, offset=4) == [results[-5].id]
    assert listed(offset=5) == []
    assert scan(limit=100).total == 5
    assert store.raw.llen(queue_key(store, "successful")) <= 105, "trimmed with some room"


def test_bytes_of_a_row_are_bounded(redis_server: Store) -> None:
    echo.enqueue("é" * 5_000, "x" * 100_000)
    work_off()

    [row] = redis_server.raw.lrange(queue_key(redis_server, "successful"), 0, -1)

    assert len(row) < 256 + 200
    [task] = get_queue("default").tasks("successful")
    assert task.args[1] == "x" * 100_000, "the record is still there"
    forget_record(redis_server, task)
    [task] = get_queue("default").tasks("successful")
    with pytest.raises(TaskResultDoesNotExist):
        _ = task.args


def test_nothing_is_listed_if_it_is_switched_off(store: Store, settings: Any) -> None:
    note.enqueue("listed")
    work_off()
    taskqueue_settings(settings, KEEP_FINISHED=0)
    note.enqueue("not listed").cancel()
    note.enqueue("not listed")
    work_off()

    assert store.raw.llen(queue_key(store, "successful")) == 1, "what was listed before"
    assert listed() == listed("cancelled") == []
    assert scan().total == 0
    recover()
    assert not store.raw.exists(queue_key(store, "successful"), queue_key(store, "cancelled"))


def test_cancelled_and_expired_tasks_are_listed(store: Store) -> None:
    pending, due = note.enqueue("pending"), note.using(run_after=60).enqueue("due")
    running, late = note.enqueue("running"), note.using(expires=0.001).enqueue("late")
    assert pending.cancel()
    assert due.cancel()
    fetcher = new_fetcher()
    eventually(lambda: server_ms(store) > late.enqueued_at.timestamp() * 1_000 + 5 if late.enqueued_at else False)
    [job] = fetcher.fetch("0", 5)
    assert job.id == running.id
    assert running.cancel()
    settle_now(fetcher, execute(job)._replace(outcome="cancelled"))

    assert listed("cancelled") == ids([running, due, pending])
    assert listed("expired") == [late.id]
    assert listed("successful") == []
    forget_record(store, pending, late)
    assert [(task.name, task.args) for task in get_queue("default").tasks("expired")] == [(note.name, ["late"])]
    assert get_queue("default").tasks("cancelled")[-1].args == ["pending"]


def test_task_cancelled_by_a_restore_is_listed(redis_server: Store) -> None:
    queue = get_queue("default")
    first = note.using(unique=True).enqueue("same")
    purge = queue.purge()
    note.using(unique=True).enqueue("same")
    assert queue.restore(purge) == 0

    assert listed("cancelled") == [first.id]


def test_task_of_a_dead_worker_that_was_cancelled_is_listed(store: Store) -> None:
    result = note.enqueue("asked to stop")
    new_fetcher(worker="dead:1").fetch("0", 1)
    assert result.cancel()
    end_lease(store, result.id)

    recover()

    assert listed("cancelled") == [result.id]


@pytest.mark.contract
def test_late_outcome_of_an_expired_lease_is_not_listed(store: Store) -> None:
    result = note.enqueue("twice")
    slow, quick = new_fetcher(worker="slow:1"), new_fetcher(worker="quick:1")
    [job] = slow.fetch("0", 1)
    end_lease(store, result.id)
    recover()
    [again] = quick.fetch("0", 1)

    settle_now(slow, execute(job))
    assert listed() == []
    settle_now(quick, execute(again))
    settle_now(slow, execute(job))

    assert listed() == [result.id]
    assert [row.fields[Field.worker_ids] for row in rows(store)] == [b"quick:1"]


@pytest.mark.contract
def test_repeated_outcome_is_listed_once(store: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(3)])
    jobs = new_fetcher(worker="w").fetch("0", 3)
    acks = [execute(job) for job in jobs]

    replies = [connections.client().execute(fetch_call(*acks))[0] for _ in range(2)]

    assert replies == [[1, 1, 1], [2, 2, 2]]
    assert store.raw.llen(queue_key(store, "successful")) == 3


def test_outcome_whose_reply_was_lost_is_listed_once(redis_server: Store, proxy: Proxy) -> None:
    note.enqueue("before")
    work_off()  # the server knows the script
    result = note.enqueue("once")
    fetcher = new_fetcher(using="proxied")
    [job] = fetcher.fetch("0", 1)
    proxy.drop_next_reply(after=FETCH.sha.encode())

    settle_now(fetcher, execute(job))

    assert proxy.dropped == 1
    assert listed().count(result.id) == 1


def test_workers_that_settle_at_once_list_each_task_once(redis_server: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(400)])

    def drain(worker: str) -> None:
        fetcher = new_fetcher(worker=worker)
        while jobs := fetcher.fetch("0", 7):
            for job in jobs:
                fetcher.settle(execute(job))
        fetcher.fetch("0", 0)

    threads = [threading.Thread(target=drain, args=(f"both:{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(listed(limit=1_000)) == sorted(ids(results))


def test_purge_keeps_the_list(store: Store) -> None:
    queue = get_queue("default")
    result = note.enqueue("done")
    work_off()
    note.enqueue("pending")
    queue.restore(queue.purge())
    queue.purge()
    assert listed() == [result.id]


def test_list_lives_as_long_as_its_newest_task(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, FINISHED_TTL=100)
    key = queue_key(store, "successful")
    note.enqueue("old")
    work_off()
    assert 90 < store.raw.ttl(key) <= 100
    store.raw.expire(key, 5)
    note.enqueue("new")
    work_off()

    recover()

    assert 90 < store.raw.ttl(key) <= 100, "the poller renews it"


def test_old_rows_are_neither_listed_nor_kept(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, FINISHED_TTL=100, KEEP_FINISHED=3)
    key = queue_key(store, "successful")
    results = note.enqueue_many([((number,), {}) for number in range(2)])
    work_off()
    old_us = int(server_ms(store) * 1_000) - 101_000_000
    store.raw.lpush(key, *(f"old{number}\t{old_us}\tw\t1\t1\t1\t\t\tn\t[[],{{}}]" for number in range(3)))

    assert seen(scan()) == ids(results)[::-1]
    assert scan().total == 2
    recover()
    assert [row.id for row in rows(store)] == ids(results)


def test_limit_that_was_lowered_applies_at_once(store: Store, settings: Any) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(5)])
    work_off()
    taskqueue_settings(settings, KEEP_FINISHED=3)

    assert listed() == seen(scan()) == ids(results)[:1:-1]
    recover()
    assert [row.id for row in rows(store)] == ids(results)[2:]


def test_row_from_before_the_clock_was_set_back_hides_no_other(store: Store) -> None:
    future_us = int(server_ms(store) * 1_000) + 3_600_000_000
    store.raw.rpush(queue_key(store, "successful"), f"future\t{future_us}\tw\t1\t1\t1\t\t\tn\t[[],{{}}]")
    result = note.enqueue("now")
    work_off()

    recover()

    assert listed() == seen(scan()) == [result.id, "future"]


def test_pages_neither_repeat_nor_skip_tasks_while_others_finish(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(40)])
    settle_together("here:1", 40)  # all have one time
    newest = ids(results)[::-1]

    first = scan(limit=10)
    note.enqueue_many([((number,), {}) for number in range(7)])
    work_off()
    second = scan(limit=10, cursor=first.last)
    back = scan(limit=10, cursor=second.first, direction="before")

    assert (seen(first), seen(second), seen(back)) == (newest[:10], newest[10:20], newest[:10])
    assert (second.start, second.total, second.has_more) == (17, 47, True)


def test_page_follows_a_task_that_has_left_the_list(store: Store, settings: Any) -> None:
    results = [note.enqueue(number) for number in range(6)]
    work_off()
    first = scan(limit=3)
    row = store.raw.lrange(queue_key(store, "successful"), 3, 3)[0]
    assert store.raw.lrem(queue_key(store, "successful"), 1, row) == 1

    assert seen(first) == ids(results)[:2:-1]
    assert seen(scan(limit=10, cursor=first.last)) == ids(results)[2::-1]
    assert scan(limit=10, cursor=scan(limit=10).last).tasks == []


def test_filters_by_name_text_and_time(store: Store) -> None:
    plain, mail = note.enqueue("plain"), echo.enqueue("kim@example.com")
    work_off()
    mail.refresh()
    assert mail.finished_at

    def found(**filters: Any) -> list[str]:
        return seen(scan(filters=Filters(**filters)))

    at_ms = int(mail.finished_at.timestamp() * 1_000)
    assert found(name="echo") == [mail.id]
    assert found(text="kim@") == [mail.id]
    assert found(text="nobody") == found(error="kim") == found(fingerprint="0" * 16) == []
    assert found(begin_ms=at_ms - 60_000, end_ms=at_ms + 60_000) == [mail.id, plain.id]
    assert found(begin_ms=at_ms + 60_000) == found(end_ms=at_ms - 60_000) == []
    counted = scan(mode="names", limit=1)
    assert {name: count for name, (count, _) in counted.names.items()} == {note.name: 1, echo.name: 1}
    assert counted.matched == 2
    assert seen(counted) == [mail.id]


def test_read_is_bounded_and_continues(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(30)])
    settle_together("here:1", 30)

    first = scan(filters=Filters(name="nothing"), budget=20)

    assert (first.scanned, first.matched, first.has_more) == (20, 0, True)
    assert seen(scan(cursor=first.last)) == ids(results)[9::-1]


def test_task_is_found_by_id_in_all_queues(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    results = [note.using(queue_name=f"q{number}").enqueue(number) for number in range(4)]
    for number in range(4):
        work_off(f"q{number}")
    cancelled = note.enqueue("no")
    cancelled.cancel()
    monkeypatch.setattr(finished, "SEARCH_ROWS", 1)

    def find(task_id: str, queue: str = "") -> tuple[str, str] | None:
        row = run(connections.client(), find_finished(home(), task_id, queue))
        return row and (row.fields[Field.queue].decode(), row.fields[Field.state].decode())

    assert find(results[3].id) == ("q3", "successful")
    assert find(results[0].id, "q3") == ("q0", "successful")
    assert find(cancelled.id, "default") == ("default", "cancelled")
    assert find("unknown") is find(results[3].id[:-1]) is None


def test_queues_without_finished_tasks_count_for_the_bound_of_a_search(store: Store) -> None:
    for number in range(10):
        note.using(queue_name=f"q{number}").enqueue("pending")

    call = FIND_FINISHED(base=home().base, id="unknown", queue="", cursor="", budget=9)

    assert connections.client().execute(call) == [b"", b"", b"", b"9 0"]


@pytest.mark.parametrize("queue", ["", "default"])
def test_search_by_id_continues_inside_a_long_list(
    queue: str, store: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    taskqueue_settings(settings, KEEP_FINISHED=1_000)
    results = note.enqueue_many([((number,), {}) for number in range(450)])
    for number in range(3):
        settle_together(f"here:{number}", 150)
    monkeypatch.setattr(finished, "SEARCH_ROWS", 100)

    for result in (results[0], results[49], results[50], results[449]):
        row = run(connections.client(), find_finished(home(), result.id, queue))
        assert row is not None
        assert row.id == result.id
    assert run(connections.client(), find_finished(home(), "unknown", queue)) is None
    monkeypatch.setattr(finished, "SEARCH_CALLS", 2)
    assert run(connections.client(), find_finished(home(), results[0].id, queue)) is None


def test_search_by_id_ends(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    result = note.using(queue_name="b").enqueue("last")
    work_off("b")
    note.using(queue_name="a").enqueue("first")
    work_off("a")
    store.raw.zadd(base_key(store, "queues"), {"a": 1, "b": 2})
    monkeypatch.setattr(finished, "SEARCH_ROWS", 1)
    monkeypatch.setattr(finished, "SEARCH_CALLS", 1)

    assert run(connections.client(), find_finished(home(), result.id)) is None


@pytest.mark.parametrize(
    ("args", "kwargs", "kept"),
    [
        (["a" * 300], {}, ([], {})),
        (["a", "b" * 300], {}, (["a"], {})),
        ([1, [2, {"x": "]}"}], "b" * 300], {}, ([1, [2, {"x": "]}"}]], {})),
        (['say "hi", \\', "b" * 300], {}, (['say "hi", \\'], {})),
        (["a"], {"to": "kim", "body": "b" * 300}, (["a"], {"to": "kim"})),
        ([], {"body": "b" * 300}, ([], {})),
        (["ü" * 120, "ü" * 300], {}, (["ü" * 120], {})),
        ([[[["b" * 300]]]], {}, ([], {})),
        ([*range(200)], {}, None),
    ],
)
def test_arguments_that_were_cut_off_leave_the_whole_ones(
    args: list[Any], kwargs: dict[str, Any], kept: Any, redis_server: Store
) -> None:
    echo.enqueue(*args, **kwargs)
    work_off()

    [task] = scan().tasks

    assert task.is_clipped
    if kept is None:
        assert task.record.args == args[: len(task.record.args)] != []
    else:
        assert (task.record.args, task.record.kwargs) == kept


def test_whole_arguments_are_not_marked_as_clipped(redis_server: Store) -> None:
    exact = "a" * (256 - len('[[""],{}]'))
    echo.enqueue(exact)
    work_off()

    [task] = scan().tasks

    assert (task.record.args, task.is_clipped) == ([exact], False)


@pytest.mark.parametrize(
    "row", [b"", b"\t", b"id", b"id\tx\ty\tz\tr\t\t\tw", b"\xff\t1\t2\t3\t4\t\t\t\xff\t\xff\t[[", b"a" * 300]
)
def test_rows_of_other_clients_are_read(row: bytes, redis_server: Store) -> None:
    redis_server.raw.rpush(queue_key(redis_server, "successful"), row)

    get_queue("default").tasks("successful")
    scan()
    recover()


def test_reused_id_does_not_change_the_row(redis_server: Store) -> None:
    first = note.using(id="order-7").enqueue("first")
    work_off()
    forget_record(redis_server, first)
    note.using(id="order-7", run_after=60).enqueue("second")

    [task] = get_queue("default").tasks("successful")

    assert (task.state, task.args) == ("successful", ["first"])


def settle_together(worker: str, count: int) -> None:
    fetcher = new_fetcher(worker=worker)
    settle_now(fetcher, *[execute(job) for job in fetcher.fetch("0", count)])


def run_all(*ran_us: int) -> None:
    """Run the ready tasks of the queue, each as if it had taken this long."""
    fetcher = new_fetcher()
    settle_now(
        fetcher,
        *[
            Ack(job.id, job.token, "succeeded", b"null", ttl_ms=60_000, ran_us=us)
            for job, us in zip(fetcher.fetch("0", len(ran_us)), ran_us, strict=True)
        ],
    )


def slowest(name: str = note.name, limit: int = 3, **options: Any) -> SlowestRuns:
    return run(connections.client(), find_slowest(home(), "default", name, limit, **options))


@pytest.mark.contract
def test_slowest_runs_of_a_task_are_found_among_the_newest(store: Store) -> None:
    results = [note.enqueue(number) for number in range(6)]
    other = echo.enqueue("other")
    run_all(2_000, 9_000, 1_000, 9_000, 0, 5_000, 80_000)
    forget_record(store, results[1])

    found = slowest()

    assert (found.scanned, found.matched) == (7, 6)
    assert [(task.record.id, task.duration) for task in found.tasks] == [
        (results[3].id, 0.009),
        (results[1].id, 0.009),
        (results[5].id, 0.005),
    ]
    assert [task.record.id for task in slowest(echo.name).tasks] == [other.id]
    assert slowest(note.name[:-1]).matched == 0, "the whole name"
    assert slowest("unknown") == SlowestRuns(7, 0, [])


def test_search_for_slow_runs_is_bounded(redis_server: Store, settings: Any) -> None:
    note.enqueue_many([((number,), {}) for number in range(250)])
    run_all(*range(250_000, 0, -1_000))

    bounded = slowest(budget=130)
    taskqueue_settings(settings, KEEP_FINISHED=20)

    assert (bounded.scanned, bounded.matched, bounded.tasks[0].duration) == (130, 130, 0.13)
    assert (slowest().scanned, slowest().tasks[0].duration) == (20, 0.02)


def test_runs_older_than_the_time_for_which_they_are_kept_do_not_count(redis_server: Store, settings: Any) -> None:
    note.enqueue("x")
    run_all(7_000)
    [row] = redis_server.raw.lrange(queue_key(redis_server, "successful"), 0, -1)
    finished_us = row.split(b"\t")[1]
    old = row.replace(finished_us, b"%d" % (int(finished_us) - 3_600_000_000))
    redis_server.raw.lpush(queue_key(redis_server, "successful"), old)
    assert slowest().matched == 2

    taskqueue_settings(settings, FINISHED_TTL=600)

    assert (slowest().scanned, slowest().matched) == (1, 1)


@pytest.mark.parametrize("row", [b"", b"x", b"\t\t\t", b"a\t1e99\t\t\t\t1\t\t\tname\t"])
def test_search_for_slow_runs_skips_rows_of_another_client(redis_server: Store, row: bytes) -> None:
    redis_server.raw.rpush(queue_key(redis_server, "successful"), row)

    assert slowest("name") == SlowestRuns(1, 0, [])
