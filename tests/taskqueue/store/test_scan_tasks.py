"""Lists by cursor: each task once, in order, with filters and a bounded cost, while the queue changes."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import control
from django_redis_components.taskqueue.store.scan import Filters, TaskScan, read_tasks, scan_tasks
from tests.support import Store
from tests.taskqueue.store.support import fail_many, fill, ids, park_many
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, recover, work_off
from tests.taskqueue.tasks import fail, fail_thrice, note, recorded


def scan(
    state: str, *, name: str = "", text: str = "", error: str = "", fingerprint: str = "", **options: Any
) -> TaskScan:
    filters = Filters(name, text, error, fingerprint)
    return run(connections.client(), scan_tasks(home(), "default", state, filters, **options))


def seen(found: TaskScan) -> list[str]:
    return [task.record.id for task in found.tasks]


def walk(state: str, limit: int, **filters: str) -> list[str]:
    """Return the ids of all pages."""
    found = scan(state, limit=limit, **filters)
    every = seen(found)
    while found.has_more:
        found = scan(state, limit=limit, cursor=found.last, **filters)
        every += seen(found)
    return every


def test_ready_tasks_are_listed_from_the_back_of_the_queue(store: Store) -> None:
    *ready, _ = fill(store)
    front, due, *rest = ready

    assert scan("ready").total == len(ready) == get_queue("default").info().ready
    for limit in (1, 2, 3, 50):
        assert walk("ready", limit) == [*reversed(ids(rest)), due.id, front.id]


@pytest.mark.parametrize("state", ["failed", "unregistered"])
def test_finished_tasks_are_listed_newest_first(state: str, store: Store) -> None:
    results = fail_many(7) if state == "failed" else park_many(7)

    newest_first = [each.decode() for each in reversed(store.raw.zrange(queue_key(store, state), 0, -1))]
    assert sorted(newest_first) == sorted(ids(results))
    for limit in (2, 7):
        assert walk(state, limit) == newest_first


def test_pages_neither_repeat_nor_skip_tasks_while_the_queue_changes(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(40)])
    newest = ids(results)[::-1]
    fetcher = new_fetcher()

    first = scan("ready", limit=10)
    note.enqueue_many([((number,), {}) for number in range(7)])  # shifts each position
    fetcher.fetch("0", 5)
    second = scan("ready", limit=10, cursor=first.last)
    back = scan("ready", limit=10, cursor=second.first, direction="before")

    assert (seen(first), seen(second), seen(back)) == (newest[:10], newest[10:20], newest[:10])


def test_page_follows_a_task_that_has_left_the_state(store: Store) -> None:
    results = [fail.enqueue(str(number)) for number in range(5)]
    work_off()
    newest = ids(results)[::-1]
    first = scan("failed", limit=2)

    get_queue("default").retry_failed(newest[:2])

    assert seen(scan("failed", limit=2, cursor=first.last)) == newest[2:4]


def test_scheduled_retrying_limited_waiting_and_running_tasks_are_told_apart(store: Store) -> None:
    retried = fail_thrice.using(backoff=600).enqueue()
    work_off()
    late, soon = note.using(run_after=900).enqueue("late"), note.using(run_after=60).enqueue("soon")
    limited = [note.using(concurrency=1).enqueue(str(number)) for number in range(3)]
    fetcher = new_fetcher()
    fetcher.fetch("0", 5)

    assert seen(scan("retrying")) == [retried.id]
    assert walk("scheduled", 1) == [soon.id, retried.id, late.id]
    assert walk("limited", 1) == ids(limited[1:])
    assert seen(scan("running")) == [limited[0].id]
    assert walk("ready", 1) == ids(limited[1:])[::-1]
    assert seen(scan("waiting")) == []


def test_filters_match_parts_of_name_message_and_error(store: Store) -> None:
    for number in range(6):
        fail.enqueue(f"order-{number}")
    note.enqueue("order-1")
    work_off()
    note.enqueue("x" * 9_000)
    note.enqueue("ä")

    [found] = scan("failed", text="order-1").tasks
    assert (found.record.args, found.error_class, found.error_text) == (["order-1"], "builtins.LookupError", "order-1")
    assert len(seen(scan("failed", name="tasks.fail"))) == 6
    assert seen(scan("failed", name="note")) == []
    assert len(seen(scan("failed", error="LookupError"))) == 6
    assert len(seen(scan("failed", error='":"order-5"'))) == 1
    assert seen(scan("failed", error="Traceback")) == []
    [long, short] = reversed(scan("ready").tasks)
    assert (long.size > 9_000, short.record.args) == (True, ["ä"])
    assert seen(scan("ready", text="ä")) == [short.record.id]
    assert seen(scan("ready", text="xxx")) == []


def test_fingerprint_selects_the_tasks_of_one_error_exactly(store: Store) -> None:
    one = [fail.enqueue(f"no user {number}") for number in range(3)]
    quoted = fail.enqueue("another error that quotes 'no user 1'")
    retried = fail_thrice.using(backoff=600).enqueue("no user 4")
    work_off()
    killed = note.using(max_deliveries=1).enqueue("killer")
    new_fetcher(worker="dies").fetch("0", 1)
    end_lease(store, killed.id)
    recover()
    groups = {(group.message, group.location.rpartition(".")[2]): group for group in get_queue("default").errors()}

    assert sorted(seen(scan("failed", fingerprint=groups["no user #", "fail"].fingerprint))) == sorted(ids(one))
    assert seen(scan("failed", fingerprint=groups["another error that quotes '…'", "fail"].fingerprint)) == [quoted.id]
    assert seen(scan("retrying", fingerprint=groups["no user #", "fail_thrice"].fingerprint)) == [retried.id]
    assert seen(scan("failed", fingerprint=groups["", ""].fingerprint)) == [killed.id]
    assert seen(scan("failed", fingerprint="0" * 16)) == []
    assert scan("failed", fingerprint=groups["no user #", "fail"].fingerprint, mode="names").matched == 3


def test_scan_looks_at_no_more_than_its_budget_and_continues(store: Store) -> None:
    results = note.enqueue_many([((f"n{number}",), {}) for number in range(250)])

    first = scan("ready", text='"n3"', budget=200)
    rest = scan("ready", text='"n3"', budget=200, cursor=first.last)

    assert (first.scanned, seen(first), first.has_more) == (200, [], True)
    assert (rest.start, rest.scanned, seen(rest), rest.has_more) == (200, 50, [results[3].id], False)
    counted = scan("ready", mode="names", limit=10, budget=200)
    assert (len(counted.tasks), counted.matched, counted.names[note.name][0]) == (10, 200, 200)


def test_cancelled_and_deleted_tasks_are_not_listed(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(5)])
    results[1].cancel()
    store.raw.delete(base_key(store, "t", results[4].id))

    assert walk("ready", 2) == [results[3].id, results[2].id, results[0].id]


def test_cost_of_a_page_does_not_depend_on_the_length(redis_server: Store) -> None:
    def commands() -> int:
        before = redis_server.raw.info("stats")["total_commands_processed"]
        page = scan("ready", limit=50)
        scan("ready", limit=50, cursor=page.last)
        return int(redis_server.raw.info("stats")["total_commands_processed"]) - int(before)

    note.enqueue_many([((number,), {}) for number in range(200)])
    scan("ready")
    few = commands()
    for _ in range(10):
        note.enqueue_many([((number,), {}) for number in range(2_000)])

    assert commands() <= few + 30  # a binary search of 100 times as many: 7 steps of two commands


def test_tasks_are_read_by_id_if_they_are_in_the_state(store: Store) -> None:
    results = fail_many(3)
    get_queue("default").retry_failed([results[1].id])

    at_us, found = run(connections.client(), read_tasks(home(), "default", "failed", [*ids(results), "unknown"]))

    assert [each.record.id for each in found] == [results[0].id, results[2].id]
    assert at_us > 1_700_000_000_000_000
    assert [each.record.args for each in found] == [["0"], ["2"]]


def purge_until(found: TaskScan, trash: str = "bin") -> int:
    total, part, skip = 0, 1, 0
    while part:
        flow = control.purge_until(home(), "default", trash, found.at_us, found.sequence, part, skip)
        moved, part, skip = run(connections.client(), flow)
        total += moved
    return total


def test_purge_with_a_watermark_keeps_later_tasks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CHUNK", 2)
    limited = [note.using(concurrency=1).enqueue(f"limited {number}") for number in range(4)]
    new_fetcher(worker="other:one").fetch("0", 4)
    old = fill(store)
    old[3].cancel()
    watermark = scan("ready")
    later = [note.using(priority=priority).enqueue(f"later {priority}") for priority in (0, 5, -5)]
    later += [note.using(run_after=60).enqueue("later"), note.using(concurrency=1).enqueue("later limited")]

    purged = purge_until(watermark)

    depth = get_queue("default").info()
    assert purged == len(old) - 1 + len(limited) - 1
    assert (depth.ready, depth.scheduled, depth.running) == (4, 1, 1)
    assert sorted(walk("ready", 50) + walk("scheduled", 50)) == sorted(ids(later))
    assert get_queue("default").restore("bin") == purged
    depth = get_queue("default").info()
    assert (depth.ready, depth.scheduled) == (4 + purged - 1, 2)
    work_off()
    assert recorded.index("later 5") > recorded.index("urgent")
    assert recorded.index("later 0") > recorded.index("ready 2") > recorded.index("ready 1")
    assert "ready 0" not in recorded


def test_purge_with_a_watermark_passes_the_start_reserved_for_a_rate(store: Store) -> None:
    note.using(rate="1/h").enqueue("started")
    note.using(rate="1/h").enqueue("reserved")
    work_off()
    watermark = scan("ready")
    assert recorded == ["started"]
    later = note.using(rate="1/h").enqueue("later")
    work_off()

    assert purge_until(watermark) == 1
    assert seen(scan("scheduled")) == [later.id]
    assert seen(scan("limited")) == []


def test_purged_task_frees_its_unique_key_and_leaves_no_tombstone(store: Store) -> None:
    old = note.using(unique=True).enqueue("a")
    watermark = scan("ready")
    purge_until(watermark)

    new = note.using(unique=True).enqueue("a")
    old.cancel()

    assert new.id != old.id
    assert get_queue("default").info().ready == 1


def test_trash_is_listed_newest_first(store: Store) -> None:
    fail_many(3)
    run(connections.client(), control.delete_tasks(home(), "default", "failed", None, trash="one"))
    store.raw.zincrby(base_key(store, "trash_index"), -1_000, "default/one")  # both may be of one millisecond
    note.enqueue("x")
    purge = get_queue("default").purge()
    note.using(queue_name="other").enqueue("x")
    get_queue("other").purge()

    found = run(connections.client(), control.read_trash(home(), "default", 5))

    assert [(each.id, each.count) for each in found] == [(purge.id, 1), ("one", 3)]
