"""Metrics count each task once, by minute, hour and name, in bounded space."""

from __future__ import annotations

import dataclasses
import re
import struct
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import Metrics, chain, get_queue, registry
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import metrics
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from tests.support import Proxy, Store, run_async, run_together
from tests.taskqueue.stats.support import minute_key, stir, write_minute
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    queue_key,
    recover,
    server_ms,
    settle_now,
    work_off,
)
from tests.taskqueue.tasks import add, come_back, fail, fail_thrice, note

ADD, FAIL, NOTE = "tests.taskqueue.tasks.add", "tests.taskqueue.tasks.fail", "tests.taskqueue.tasks.note"


def totals(queue: str = "default") -> dict[str, int]:
    """What was counted, without the zeros."""
    return {name: count for name, count in dataclasses.asdict(get_queue(queue).metrics().totals).items() if count}


def test_each_outcome_is_counted(store: Store) -> None:
    add.enqueue(1, 2)
    fail.enqueue()
    fail_thrice.using(backoff=60).enqueue()
    come_back.enqueue(60)
    lost = note.enqueue("lost")
    add.enqueue(3, 4).cancel()
    worker = new_fetcher()
    jobs = worker.fetch("0", 5)
    settle_now(worker, *[execute(job) for job in jobs[:4]])
    end_lease(store, lost.id)
    recover()
    with mock.patch.object(registry, "tasks", {}):
        work_off()

    assert totals() == {
        "succeeded": 1, "failed": 1, "retried": 1, "delayed": 1, "recovered": 1, "cancelled": 1, "unregistered": 1,
    }  # fmt: skip


def test_a_task_that_expires_is_counted(store: Store) -> None:
    late = add.using(expires=60).enqueue(1, 2)
    store.raw.hset(base_key(store, "t", late.id), "X", f"{int(server_ms(store)) - 1} 600000")
    work_off()

    late.refresh()
    assert late.state == "expired"
    assert totals() == {"expired": 1}


def test_metrics_by_task_name_list_the_busiest_first(store: Store) -> None:
    add.enqueue_many([((1, 2), {})] * 3)
    fail.enqueue()
    work_off()

    found = get_queue("default").metrics()

    assert [(each.name, each.totals.succeeded, each.totals.failed) for each in found.tasks] == [
        (ADD, 3, 0),
        (FAIL, 0, 1),
    ]
    assert [each.run_time.count for each in found.tasks] == [3, 1]
    assert (found.wait_time.count, found.run_time.count) == (4, 4)


def test_queues_are_counted_separately(store: Store) -> None:
    add.using(queue_name="high").enqueue(1, 2)
    work_off("high")

    assert totals("high") == {"succeeded": 1}
    assert totals("default") == {}


def test_minutes_of_an_idle_queue_are_empty(store: Store) -> None:
    found = get_queue("never").metrics(minutes=7)

    assert (len(found.intervals), found.totals, found.tasks) == (7, metrics.Counts(), [])
    assert (found.wait_time.p95, found.run_time.p50, found.per_minute()) == (None, None, 0.0)


def test_minutes_are_in_order_and_end_now(redis_server: Store) -> None:
    write_minute(redis_server, 0, 1)
    write_minute(redis_server, 2, 30, 3)
    write_minute(redis_server, 5, 1_000)

    found = get_queue("default").metrics(minutes=4)

    assert [span.counts.finished for span in found.intervals] == [0, 33, 0, 1]
    assert found.intervals[-1].at <= found.at < found.intervals[-1].at + timedelta(minutes=1)
    assert [span.at - found.intervals[0].at for span in found.intervals] == [timedelta(minutes=at) for at in range(4)]
    assert (found.totals.succeeded, found.totals.failed, found.step) == (31, 3, 60)


def test_rate_is_computed_over_the_elapsed_time() -> None:
    begin = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
    spans = [metrics.Interval(begin + timedelta(minutes=at), metrics.Counts()) for at in range(3)]
    empty = metrics.Histogram((0,) * metrics.BUCKETS)

    found = Metrics("q", begin + timedelta(seconds=150), 60, spans, metrics.Counts(200, 50), empty, empty, [])

    assert found.per_minute() == 100


def test_wait_time_starts_when_the_task_becomes_ready(store: Store) -> None:
    late = note.using(run_after=60).enqueue("due")
    fall_due(store, late, ms_ago=5_000)
    store.raw.hset(base_key(store, "t", late.id), "d", int(server_ms(store)) - 5_000)
    sent, back = note.enqueue("sent"), note.enqueue("back")
    for result in (late, sent, back):
        store.raw.hset(base_key(store, "t", result.id), "e", int((server_ms(store) - 60_000) * 1_000))
    worker = new_fetcher()
    jobs = {job.id: job for job in worker.fetch("0", 3)}
    settle_now(worker, Ack(back.id, jobs[back.id].token, "requeued"))
    settle_now(worker, *[execute(jobs[each.id]) for each in (late, sent)])
    work_off()

    waited = get_queue("default").metrics().wait_time

    assert waited.count == 3
    assert waited.quantile(1) == pytest.approx(60, rel=0.42)
    assert waited.p50 == pytest.approx(5, rel=0.42)
    assert waited.quantile(0.3) < 1


def test_run_time_is_measured_by_the_worker(store: Store) -> None:
    for ran_us in (900, 50_000, 50_000, 3_000_000, 86_400_000_000):
        note.enqueue("x")
        worker = new_fetcher(worker=f"here:{time.monotonic_ns()}")
        [job] = worker.fetch("0", 1)
        settle_now(worker, Ack(job.id, job.token, "succeeded", b"1", ttl_ms=600_000, ran_us=ran_us))

    ran = get_queue("default").metrics().run_time

    assert ran.count == 5
    assert ran.quantile(0.2) <= 0.001
    assert ran.p50 == pytest.approx(0.05, rel=0.42)
    assert ran.quantile(0.8) == pytest.approx(3, rel=0.42)
    assert 8_000 < ran.p99 < 8_600, "the last bucket has no end"


def test_run_time_excludes_round_trips_to_redis(store: Store) -> None:
    note.enqueue("x")
    [job] = new_fetcher().fetch("0", 1)

    assert 0 < execute(job).ran_us < 1_000_000


def test_a_retried_call_after_a_lost_reply_counts_once(proxy: Proxy, redis_server: Store) -> None:
    add.enqueue_many([((1, 2), {})] * 3)
    worker = Fetcher(home("proxied"), connections.client("proxied"), "here:1", ["default"])
    jobs = worker.fetch("0", 3)
    for job in jobs[:2]:
        worker.settle(execute(job))
    proxy.drop_next_reply(after=b"here:1")

    worker.fetch("0", 0)
    assert proxy.dropped == 1
    worker.settle(execute(jobs[2]))
    proxy.drop_next_reply(after=b"here:1")
    worker.fetch("0", 1)
    assert proxy.dropped == 2

    assert totals() == {"succeeded": 3}
    assert get_queue("default").metrics().tasks[0].run_time.count == 3


def test_outcomes_of_expired_leases_are_not_counted(store: Store) -> None:
    result = add.enqueue(2, 3)
    late = new_fetcher(worker="late")
    [job] = late.fetch("0", 1)
    end_lease(store, result.id)
    recover()
    work_off(worker="other")

    settle_now(late, execute(job))

    assert totals() == {"succeeded": 1, "recovered": 1}


def test_the_last_allowed_crash_counts_as_a_failure(store: Store) -> None:
    result = note.using(max_deliveries=1).enqueue("killer")
    new_fetcher().fetch("0", 1)
    end_lease(store, result.id)
    recover()

    assert totals() == {"failed": 1, "recovered": 1}


def test_concurrent_workers_lose_no_counts(redis_server: Store) -> None:
    add.enqueue_many([((1, 2), {})] * 200)

    run_together(4, lambda number: work_off(worker=f"w{number}"))

    assert totals() == {"succeeded": 200}
    assert get_queue("default").metrics().wait_time.count == 200


def test_counting_a_batch_costs_few_additional_commands(redis_server: Store) -> None:
    add.enqueue_many([((1, 2), {})] * 200)
    worker = new_fetcher()

    def commands(count: int) -> tuple[int, int]:
        jobs = worker.fetch("0", count)
        redis_server.raw.config_resetstat()
        settle_now(worker, *[execute(job) for job in jobs])
        stats = redis_server.raw.info("commandstats")
        return stats["cmdstat_bitfield"]["calls"], stats["cmdstat_hget"]["calls"]

    assert commands(5) == commands(100) == (1, 1)


def test_counters_have_a_ttl_that_later_writes_keep(store: Store) -> None:
    add.enqueue(1, 2)
    work_off()
    key = minute_key(store)
    assert 10_790_000 < store.raw.pttl(key) <= 10_860_000
    store.raw.pexpire(key, 50_000)
    add.enqueue(1, 2)

    work_off()

    assert store.raw.pttl(key) <= 50_000 or key != minute_key(store), "or a minute has ended meanwhile"


def test_names_beyond_the_limit_share_one_slot(store: Store) -> None:
    worker = new_fetcher()
    for number in range(40):
        add.enqueue(1, 2)
        [job] = worker.fetch("0", 1)
        store.raw.hset(base_key(store, "t", job.id), "n", f"site.tasks.number_{number}")
        settle_now(worker, Ack(job.id, job.token, "succeeded", b"1", ttl_ms=600_000, ran_us=7))

    found = get_queue("default").metrics()

    assert found.totals.succeeded == 40
    assert [each.totals.succeeded for each in found.tasks] == [1] * 30 + [10]
    assert found.tasks[-1].name == ""
    assert {each.name for each in found.tasks[:30]} == {f"site.tasks.number_{number}" for number in range(30)}
    assert store.raw.strlen(minute_key(store)) <= 31 * 416


def test_a_name_with_different_slots_in_two_hours_is_counted_as_one(redis_server: Store) -> None:
    hour = int(server_ms(redis_server)) // 3_600_000
    one, two = bytes(416) + struct.pack(">I", 5).ljust(416, b"\0"), bytes(832) + struct.pack(">I", 2)
    redis_server.raw.set(minute_key(redis_server, 0), one, ex=600)
    redis_server.raw.set(queue_key(redis_server, f"minute:{hour * 60 - 1}"), two, ex=600)
    redis_server.raw.hset(queue_key(redis_server, f"task_names:{hour}"), "a", 1)
    redis_server.raw.hset(queue_key(redis_server, f"task_names:{hour - 1}"), mapping={"b": 1, "a": 2})

    found = get_queue("default").metrics(minutes=180)

    assert [(each.name, each.totals.succeeded) for each in found.tasks if each.name] == [("a", 7)]


def test_counters_saturate_at_their_maximum(store: Store) -> None:
    write_minute(store, 0, 2**32 - 1)
    add.enqueue(1, 2)

    work_off()

    # The task may have run in the next minute; a counter that overflows is 0.
    assert totals()["succeeded"] in (2**32 - 1, 2**32)


def test_minutes_are_rolled_up_into_hours_once(store: Store) -> None:
    add.enqueue(1, 2)
    work_off()
    hour_of = {ago: (int(server_ms(store)) // 60_000 - ago) // 60 for ago in (1, 2, 3)}
    recover()  # from now on minutes are rolled up
    for ago in (1, 2, 3):
        write_minute(store, ago, 10 * ago, 1)
    store.raw.set(base_key(store, "rollup"), int(server_ms(store)) // 60_000 - 4)

    for _ in range(3):
        recover()

    found = get_queue("default").history(hours=3)
    assert (found.totals.succeeded, found.totals.failed, found.step) == (60, 3, 3_600)
    assert len(found.intervals) == 3
    for hour in set(hour_of.values()):
        assert 335 * 3_600 < store.raw.ttl(queue_key(store, f"hour:{hour}")) <= 337 * 3_600


def test_a_restarted_poller_catches_up_a_few_minutes_per_round(redis_server: Store) -> None:
    add.enqueue(1, 2)
    work_off()
    for ago in range(1, 13):
        write_minute(redis_server, ago, 1)
    redis_server.raw.set(base_key(redis_server, "rollup"), int(server_ms(redis_server)) // 60_000 - 13)

    seen = []
    for _ in range(3):
        recover()
        seen.append(get_queue("default").history(hours=2).totals.succeeded)

    assert seen in ([5, 10, 12], [5, 10, 13]), "13 when a minute has ended meanwhile"


@pytest.mark.parametrize("rolled_ms", [0, 10**15])
def test_rollup_restarts_when_its_mark_is_invalid(rolled_ms: int, redis_server: Store) -> None:
    add.enqueue(1, 2)
    work_off()
    redis_server.raw.set(base_key(redis_server, "rollup"), rolled_ms // 60_000)

    recover()

    latest = int(server_ms(redis_server)) // 60_000
    assert latest - 170 <= int(redis_server.raw.get(base_key(redis_server, "rollup"))) < latest


@pytest.mark.parametrize("seed", range(3))
def test_parts_add_up_to_the_total_after_a_random_workload(seed: int, redis_server: Store) -> None:
    stir(redis_server, seed)

    for queue in ("high", "default", "low"):
        found = get_queue(queue).metrics()
        parts = [dataclasses.astuple(each.totals) for each in found.tasks]
        assert tuple(map(sum, zip(*parts, strict=True))) == dataclasses.astuple(found.totals)
        ran = found.totals.succeeded + found.totals.failed + found.totals.retried + found.totals.delayed
        lost = found.totals.failed - len([each for each in get_queue(queue).tasks("failed") if each.errors])
        assert found.run_time.count <= ran - max(0, lost)
        assert found.wait_time.count == found.run_time.count > 0
        assert [
            sum(getattr(span.counts, event) for span in found.intervals) for event in metrics.Counts.__slots__
        ] == list(dataclasses.astuple(found.totals))


def test_the_async_twins(store: Store) -> None:
    fail.enqueue()
    work_off()

    async def read() -> tuple[Any, Any, Any]:
        queue = get_queue("default")
        return await queue.ametrics(5), await queue.ahistory(2), await queue.aerrors()

    minutes, hours, errors = run_async(read)

    assert (minutes.totals.failed, len(minutes.intervals), len(hours.intervals), len(errors)) == (1, 5, 2, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda queue: queue.metrics(0), "minutes=0: expected an integer from 1 to 180."),
        (lambda queue: queue.metrics(181), "minutes=181: expected an integer from 1 to 180."),
        (lambda queue: queue.history(337), "hours=337: expected an integer from 1 to 336."),
        (lambda queue: queue.errors(limit=101), "limit=101: expected an integer from 1 to 100."),
    ],
)
def test_periods_that_are_not_kept_are_rejected(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        call(get_queue("default"))


def test_tasks_after_a_failed_task_of_a_flow_count_as_failed(store: Store) -> None:
    chain(fail.s(), note.si("never"), note.si("never")).enqueue()

    work_off()

    assert totals() == {"failed": 3}
    assert get_queue("default").metrics().run_time.count == 1


def test_restoring_a_unique_task_whose_key_is_taken_counts_as_cancelled(store: Store) -> None:
    add.using(unique=True).enqueue(1, 2)
    purge = get_queue("default").purge()
    add.using(unique=True).enqueue(1, 2)

    get_queue("default").restore(purge)

    assert totals() == {"cancelled": 1}


def test_a_task_cancelled_while_running_is_counted_with_its_run_time(store: Store) -> None:
    result = add.enqueue(1, 2)
    worker = new_fetcher()
    [job] = worker.fetch("0", 1)
    result.cancel()
    settle_now(worker, Ack(job.id, job.token, "cancelled", ttl_ms=600_000, ran_us=5_000))

    assert totals() == {"cancelled": 1}
    result.refresh()
    assert [run.outcome for run in result.timeline] == ["cancelled"]
