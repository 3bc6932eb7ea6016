"""`rate` limits how many tasks start per period over all workers; each starts at its exact time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from django_redis_components.locks import Lock, lock
from django_redis_components.taskqueue import Concurrency, Rate, TaskResult, get_queue, task
from django_redis_components.taskqueue.task import Task
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from tests.support import Store, eventually, run_together
from tests.taskqueue.support import (
    Ack,
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    running_worker,
    server_ms,
    settle_now,
    work_off,
    work_until_finished,
)
from tests.taskqueue.tasks import note, recorded

#: One now, and the next in an hour.
hourly = note.using(rate=(1, 3_600))
HOUR_MS = 3_600_000


@task(rate="100/s")
@lock("rate:{number}", on_conflict="delay")
def alone(number: int) -> int:
    return number


def take(fetcher: Fetcher, want: int = 100) -> list[Any]:
    """The words of what is leased now."""
    return [job.message()[0][0] for job in fetcher.fetch("0", want)]


def send(what: Task[..., Any, Any], *words: Any) -> list[TaskResult]:
    return what.enqueue_many([((word,), {}) for word in words])


def start_us(store: Store, result: TaskResult) -> int:
    """When its last lease began."""
    return int(store.raw.hget(base_key(store, "t", result.id), "l"))


def due_ms(store: Store, result: TaskResult, queue: str = "default") -> float | None:
    score: float | None = store.raw.zscore(queue_key(store, "scheduled", queue), result.id)
    return score


def an_hour_passes(store: Store, queue: str = "default") -> None:
    """The called ones have fallen due, and the rate lets one start.

    A moment is called at the next whole millisecond, so it takes one more to have fallen due for certain.
    """
    for key in [key for key in store.keys() if b":rate:r:" in key]:  # noqa: SIM118 - a Store is no dict
        store.raw.set(key, int(store.raw.get(key)) - HOUR_MS * 1_000, keepttl=True)
    sched = queue_key(store, "scheduled", queue)
    for task_id, score in store.raw.zrange(sched, 0, -1, withscores=True):
        store.raw.zadd(sched, {task_id: score - HOUR_MS - 1})


def test_task_over_the_rate_is_scheduled_at_its_exact_time(store: Store) -> None:
    first, second, third = send(hourly, 1, 2, 3)

    assert take(new_fetcher()) == [1]

    exact_us = start_us(store, first) + HOUR_MS * 1_000
    assert due_ms(store, second) == -(-exact_us // 1_000)
    assert due_ms(store, third) is None, "it waits behind the second"
    for result, ahead in ((second, 1), (third, 2)):
        result.refresh()
        assert (result.state, result.attempts, result.errors) == ("scheduled", 0, [])
        expected_us = start_us(store, first) + ahead * HOUR_MS * 1_000
        assert abs(result.run_after.timestamp() * 1e6 - expected_us) < 1_000_000  # type: ignore[union-attr]
    depth = get_queue("default").info()
    assert (depth.ready, depth.scheduled, depth.limited, depth.running) == (0, 2, 1, 1)
    assert [job.args[0] for job in get_queue("default").tasks("scheduled")] == [2, 3]
    assert get_queue("default").tasks("ready") == []


def test_tasks_start_one_by_one_at_their_times(store: Store) -> None:
    send(hourly, *range(4))
    fetcher = new_fetcher()

    started = [take(fetcher)]
    for _ in range(3):
        assert take(new_fetcher(worker="early")) == []
        an_hour_passes(store)
        started.append(take(fetcher))

    assert started == [[0], [1], [2], [3]]
    assert not [key for key in store.keys() if b":reserved" in key or b":limited" in key]  # noqa: SIM118


@pytest.mark.parametrize("want", [1, 100])
def test_tasks_start_in_order_and_never_early(store: Store, want: int) -> None:
    results = send(note.using(rate=(200, 1)), *range(15))
    fetcher = new_fetcher()

    def all_started() -> bool:
        for job in fetcher.fetch("0", want):
            fetcher.settle(execute(job))
        return len(recorded) == 15

    eventually(all_started)

    assert recorded == list(range(15))
    starts = [start_us(store, result) for result in results]
    assert min(later - earlier for earlier, later in itertools.pairwise(starts)) >= 5_000


def test_workers_start_each_task_when_due(redis_server: Store) -> None:
    with running_worker(threads=2, worker="here:1"), running_worker(threads=2, worker="here:2"):
        results = send(note.using(rate="50/s"), *range(20))
        for result in results:
            result.get(60)

    assert sorted(recorded) == list(range(20))
    starts = [start_us(redis_server, result) for result in results]
    assert min(later - earlier for earlier, later in itertools.pairwise(starts)) >= 20_000, "in order, too"


@pytest.mark.parametrize(("burst", "rate"), [(1, (20, 0.1)), (5, (20, 0.1)), (1, (2_000, 1))])
def test_starts_in_any_window_stay_below_rate_and_burst(
    redis_server: Store, burst: int, rate: tuple[int, float]
) -> None:
    results = send(note.using(rate=Rate(rate, burst=burst)), *range(60))
    fetchers = [new_fetcher(worker=f"w:{number}") for number in range(3)]

    def fetch_until_done(number: int) -> None:
        def done() -> bool:
            for job in fetchers[number].fetch("0", 7):
                settle_now(fetchers[number], execute(job))
            return len(recorded) == 60

        eventually(done)

    run_together(3, fetch_until_done)

    starts = sorted(start_us(redis_server, result) for result in results)
    count, window_us = rate[0], round(rate[1] * 1_000_000)
    allowed = count + max(burst, rate[0] * 5 // round(1_000 * rate[1])) - 1
    for start in starts:
        assert sum(start <= other < start + window_us for other in starts) <= allowed


def test_burst_starts_at_once_after_a_pause(store: Store) -> None:
    send(note.using(rate=Rate((4, 3_600), burst=3)), *range(5))

    assert take(new_fetcher()) == [0, 1, 2]
    assert get_queue("default").info().scheduled == 2


def test_burst_of_waiting_tasks_starts_in_one_call(store: Store) -> None:
    send(note.using(rate=Rate((4, 3_600), burst=4)), *range(10))
    fetcher = new_fetcher()
    assert take(fetcher) == [0, 1, 2, 3]
    an_hour_passes(store)

    assert take(fetcher) == [4, 5, 6, 7]


def test_task_over_the_rate_does_not_block_the_next(store: Store) -> None:
    send(hourly, "first", "waits", "waits too")
    send(note, "behind")

    assert take(new_fetcher()) == ["first", "behind"]


def test_task_over_the_rate_notifies_no_worker(store: Store) -> None:
    send(hourly, *range(5))
    fetcher = new_fetcher()
    take(fetcher)
    for name in ("q:default", "poller"):
        store.raw.delete(base_key(store, "wakeup", name))

    assert take(new_fetcher(worker="b")) == []
    assert new_fetcher(worker="c").seconds_to_due() is None
    assert 3_590 < (fetcher.seconds_to_due() or 0) < 3_601

    assert not [key for key in store.keys() if b":wakeup:" in key]  # noqa: SIM118 - a Store is no dict


def test_waiting_task_of_higher_priority_starts_first(store: Store) -> None:
    send(hourly, "first", "second", "third")
    fetcher = new_fetcher()
    take(fetcher)
    send(hourly.using(priority=5), "urgent", "urgent too")
    assert take(fetcher) == []

    started = []
    for _ in range(4):
        an_hour_passes(store)
        started += take(fetcher)

    assert started == ["urgent", "urgent too", "second", "third"]


def test_rate_applies_to_recovered_tasks_before_waiting_ones(store: Store) -> None:
    results = send(hourly, *range(3))
    new_fetcher(worker="dies").fetch("0", 9)
    end_lease(store, results[0].id)
    recover()
    fetcher = new_fetcher(worker="lives")
    assert take(fetcher) == [], "its start was counted"

    started = []
    for _ in range(3):
        an_hour_passes(store)
        started += take(fetcher)

    assert started == [0, 1, 2]


def test_cancelled_reserved_task_passes_its_start_to_the_next(store: Store) -> None:
    first, second, third, fourth = send(hourly, *range(4))
    take(new_fetcher())
    for name in ("q:default", "poller"):
        store.raw.delete(base_key(store, "wakeup", name))

    assert second.cancel()
    assert fourth.cancel()

    exact_us = start_us(store, first) + HOUR_MS * 1_000
    assert due_ms(store, third) == -(-exact_us // 1_000)
    assert get_queue("default").info().scheduled == 1
    assert all(store.raw.exists(base_key(store, "wakeup", name)) for name in ("q:default", "poller"))
    an_hour_passes(store)
    assert take(new_fetcher(worker="b")) == [2]


def test_expired_reserved_task_passes_its_start_to_the_next(store: Store) -> None:
    _, second, _ = send(hourly.using(expires=86_400), *range(3))
    fetcher = new_fetcher()
    take(fetcher)
    store.raw.hset(base_key(store, "t", second.id), "X", "1 60000")

    an_hour_passes(store)

    eventually(lambda: take(fetcher) == [2])
    second.refresh()
    assert second.state == "expired"


def test_rescheduled_reserved_task_passes_its_start_to_the_next(store: Store) -> None:
    _, second, third = send(hourly, *range(3))
    take(new_fetcher())

    second.reschedule(7_200)

    assert due_ms(store, third) is not None
    an_hour_passes(store)
    fetcher = new_fetcher(worker="b")
    assert take(fetcher) == [2]
    an_hour_passes(store)
    assert take(fetcher) == [1]


def test_reschedule_to_now_does_not_bypass_the_rate(store: Store) -> None:
    _, second, third = send(hourly, *range(3))
    fetcher = new_fetcher()
    take(fetcher)

    third.run_now()
    second.run_now()

    assert take(fetcher) == []
    assert get_queue("default").info().scheduled == 2
    an_hour_passes(store)
    assert take(fetcher) == [1]
    an_hour_passes(store)
    assert take(fetcher) == [2]


def test_task_waiting_for_a_rate_can_be_rescheduled(store: Store) -> None:
    _, _, third = send(hourly, *range(3))
    take(new_fetcher())

    third.reschedule(10)

    assert abs((due_ms(store, third) or 0) - server_ms(store) - 10_000) < 5_000
    assert store.raw.zcard(queue_key(store, "limited")) == 0


def test_purged_tasks_hold_no_place_in_the_rate(store: Store) -> None:
    first, *_, fourth = send(hourly, *range(4))
    fetcher = new_fetcher()
    take(fetcher)

    purge = get_queue("default").purge()

    assert purge.count == 3
    # An hour after either start is another millisecond, else tasks 1 and 2 are due at the same time, in no order.
    eventually(lambda: server_ms(store) > start_us(store, first) / 1_000 + 1)
    send(hourly, "young")
    assert take(fetcher) == []
    an_hour_passes(store)
    assert take(fetcher) == ["young"]
    assert get_queue("default").restore(purge) == 3
    fourth.refresh()
    assert fourth.state == "ready"
    started = []
    for _ in range(4):
        started += take(fetcher)
        an_hour_passes(store)
    assert started == [1, 2, 3]


def test_queues_share_a_rate(store: Store) -> None:
    send(hourly, 1, 2)
    send(hourly.using(queue_name="mail"), 3, 4)
    fetcher = new_fetcher("default", "mail")
    assert take(fetcher) == [1]

    started = []
    for _ in range(4):
        an_hour_passes(store)
        an_hour_passes(store, "mail")
        started += take(fetcher)

    assert started == [2, 3, 4]


def test_paused_queue_leaves_the_rate_to_another(store: Store) -> None:
    send(hourly, 1, 2)
    send(hourly.using(queue_name="mail"), 3)
    fetcher = new_fetcher("default", "mail")
    assert take(fetcher) == [1]
    get_queue("default").pause()

    an_hour_passes(store)
    an_hour_passes(store, "mail")

    assert take(fetcher) == [3]
    get_queue("default").resume()
    assert take(fetcher) == []
    an_hour_passes(store)
    assert take(fetcher) == [2]


def test_reserved_task_without_a_record_blocks_no_other(store: Store) -> None:
    _, second, _ = send(hourly, *range(3))
    fetcher = new_fetcher()
    take(fetcher)
    store.raw.delete(base_key(store, "t", second.id))
    an_hour_passes(store)
    assert take(fetcher) == []

    send(hourly, "young")

    assert take(fetcher) == ["young"]
    an_hour_passes(store)
    assert take(fetcher) == [2]


def test_higher_rate_applies_at_once_to_waiting_tasks(store: Store) -> None:
    _, second, _ = send(hourly, *range(3))
    fetcher = new_fetcher()
    take(fetcher)

    send(note.using(rate=(1, 60)), 3)
    assert take(fetcher) == [], "it waits behind those that came first"
    assert (due_ms(store, second) or 0) - server_ms(store) <= 60_001

    for number in (1, 2, 3):
        an_hour_passes(store)
        assert take(fetcher) == [number]


def test_lower_rate_applies_from_the_next_start(store: Store) -> None:
    first, second, third = send(note.using(rate=(1, 0.02)), *range(3))
    fetcher = new_fetcher()
    take(fetcher)

    send(hourly, 3)
    eventually(lambda: take(fetcher) == [1])

    exact_us = start_us(store, second) + HOUR_MS * 1_000
    assert due_ms(store, third) == -(-exact_us // 1_000)
    assert first.id


def test_task_delayed_by_a_lock_respects_its_rate(store: Store) -> None:
    first, second = alone.enqueue(1), alone.enqueue(1)

    with Lock("rate:1"):
        work_off()
    work_until_finished(first, second)

    assert (first.attempts, second.attempts) == (1, 1)


def test_keys_of_a_rate_expire(store: Store) -> None:
    send(hourly, 1)
    take(new_fetcher())

    assert 3_590_000 < store.raw.pttl(base_key(store, "rate", f"r:{note.name}")) <= HOUR_MS
    assert 29 * 86_400 < store.raw.ttl(base_key(store, "limit", f"r:{note.name}")) <= 30 * 86_400


both = note.using(rate=(1, 3_600), concurrency=1)


def test_concurrency_and_rate_both_apply(store: Store) -> None:
    send(both, *range(4))
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 9)
    an_hour_passes(store)
    assert take(fetcher) == [], "the slot is taken"

    settle_now(fetcher, execute(job))
    [job] = fetcher.fetch("0", 9)
    assert job.message()[0] == [1]
    settle_now(fetcher, execute(job))
    assert take(fetcher) == [], "the rate is reached"

    an_hour_passes(store)
    assert take(fetcher) == [2]


def test_task_over_its_rate_leaves_its_slot_to_another(store: Store) -> None:
    by_word = note.using(concurrency=Concurrency(2, group="all"), rate=Rate((1, 3_600), key="{what}"))
    send(by_word, *["kim"] * 6, "lee", "lee", "kim")
    fetcher = new_fetcher()
    first, second = fetcher.fetch("0", 9)
    assert [first.message()[0], second.message()[0]] == [["kim"], ["lee"]]

    send(by_word, "max")
    settle_now(fetcher, execute(first))

    assert take(fetcher) == ["max"]
    an_hour_passes(store)
    settle_now(fetcher, execute(second))
    assert take(fetcher) in (["kim"], ["lee"])


def test_task_waiting_for_a_slot_is_not_overtaken_by_a_newer_one(store: Store) -> None:
    group = Concurrency(1, group="all")
    limited = note.using(concurrency=group, rate=(1, 3_600))
    send(note.using(concurrency=group, queue_name="other"), "other")
    other = new_fetcher("other", worker="other")
    [job] = other.fetch("0", 1)
    send(limited, *range(2))
    fetcher = new_fetcher()
    assert take(fetcher) == []
    settle_now(other, execute(job))
    [first] = fetcher.fetch("0", 9)
    an_hour_passes(store)
    assert take(fetcher) == []
    settle_now(fetcher, Ack(first.id, first.token, "succeeded", b"0", ttl_ms=60_000))

    send(limited, "young")

    assert take(fetcher) == [1]


def test_cancelled_task_waiting_for_a_slot_passes_its_start_to_the_next(store: Store) -> None:
    results = send(both, *range(4))
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 9)
    an_hour_passes(store)
    assert take(fetcher) == []

    assert results[1].cancel()
    settle_now(fetcher, execute(job))

    eventually(lambda: take(fetcher) == [2])
