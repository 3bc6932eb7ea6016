"""The history of a task name by hour: each run once, whatever part of it a poller has added."""

from __future__ import annotations

import random
import struct

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.class_history import class_history, read_hours
from django_redis_components.taskqueue.stats.history import History
from django_redis_components.taskqueue.stats.metrics import SIZE
from django_redis_components.taskqueue.stats.task_class import read_task_class
from tests.support import Store
from tests.taskqueue.stats.support import this_minute
from tests.taskqueue.support import base_key, queue_key, recover, work_off
from tests.taskqueue.tasks import add, fail

HOUR = 60


def write(store: Store, minute: int, queue: str, names: dict[str, int]) -> None:
    """Count runs of names in a minute of a queue, as the scripts do: each run took 5 s."""
    sets = [[0] * SIZE]
    hour = queue_key(store, f"task_names:{minute // HOUR}", queue)
    for name, count in names.items():
        number = store.raw.hget(hour, name) or store.raw.hlen(hour) + 1
        store.raw.hset(hour, name, number)
        sets += [[0] * SIZE for _ in range(int(number) + 1 - len(sets))]
        sets[int(number)][0] = sets[int(number)][56 + 25] = count
    numbers = [number for each in sets for number in each]
    store.raw.set(queue_key(store, f"minute:{minute}", queue), struct.pack(f">{len(numbers)}I", *numbers), ex=600)
    store.raw.zadd(base_key(store, "queues"), {queue: 1})


def history_of(name: str, range_name: str = "3d") -> History:
    client = connections.client()
    task = run(client, read_task_class(home(), name))
    return class_history(task, run(client, read_hours(home(), name, range_name)), range_name)


def by_hour(history: History) -> dict[int, int]:
    return {
        int(each.at.timestamp()) // 3_600: each.counts.succeeded for each in history.intervals if each.counts.finished
    }


@pytest.mark.contract
@pytest.mark.parametrize("seed", range(3))
def test_each_hour_equals_the_sum_of_its_minutes_before_during_and_after_the_roll_up(seed: int, store: Store) -> None:
    rnd, latest = random.Random(seed), this_minute(store)
    sums: dict[str, dict[int, int]] = {"shop.a": {}, "shop.b": {}}
    for minute in range((latest // HOUR - 2) * HOUR, latest + 1):
        for queue in ("high", "low"):
            names = {name: rnd.randrange(1, 9) for name in sums if rnd.random() < 0.1}
            if names:
                write(store, minute, queue, names)
            for name, count in names.items():
                sums[name][minute // HOUR] = sums[name].get(minute // HOUR, 0) + count

    for _ in range(4):
        for name, expected in sums.items():
            found = history_of(name)
            assert by_hour(found) == expected
            assert found.totals.succeeded == found.run_time.count == sum(expected.values())
            assert found.intervals[-1].run_time.count == expected.get(latest // HOUR, 0)
        recover()

    assert int(store.raw.get(base_key(store, "class_rollup")) or 0) == latest // HOUR - 1
    kept = store.raw.pttl(base_key(store, f"class_hours:{latest // HOUR - 1}:shop.a"))
    assert 7 * 86_400_000 < kept <= 612_000_000


@pytest.mark.contract
def test_hours_are_kept_after_the_minutes_are_gone(store: Store) -> None:
    latest = this_minute(store)
    write(store, (latest // HOUR - 1) * HOUR, "mail", {"shop.a": 7})
    recover()
    recover()
    store.raw.delete(*[key for key in store.keys() if b":minute:" in key or b":task_names:" in key])  # noqa: SIM118

    found = history_of("shop.a", "7d")

    assert (found.range, found.step, len(found.intervals), found.totals.succeeded) == ("7d", 3_600, 168, 7)
    assert found.missing is None


def test_queues_beyond_the_budget_of_a_call_are_added_by_the_next_one(redis_server: Store) -> None:
    latest = this_minute(redis_server)
    hour = latest // HOUR - 1
    for queue in range(4):
        for minute in range(hour * HOUR, hour * HOUR + HOUR):
            write(redis_server, minute, f"q{queue}", {f"shop.{number}": 1 for number in range(25)})

    counts = []
    for _ in range(6):
        recover()
        counts.append(len([key for key in redis_server.keys() if b":class_queues:" in key]))  # noqa: SIM118
        if int(redis_server.raw.get(base_key(redis_server, "class_rollup")) or 0) == hour:
            break
        assert history_of("shop.3").totals.succeeded == 4 * HOUR, "an hour that is not added whole is read elsewhere"

    assert len(counts) == 3, "an empty hour, and two calls: a queue has 1,500 sets"
    assert history_of("shop.3").totals.succeeded == 4 * HOUR


def test_repeated_call_adds_nothing_again(redis_server: Store) -> None:
    hour = this_minute(redis_server) // HOUR - 1
    write(redis_server, hour * HOUR, "mail", {"shop.a": 3})
    recover()
    recover()
    redis_server.raw.delete(base_key(redis_server, "class_rollup"))  # as if the call had ended before it noted the hour
    recover()
    recover()

    assert by_hour(history_of("shop.a")) == {hour: 3}


def test_clock_that_is_set_back_adds_nothing_again(redis_server: Store) -> None:
    hour = this_minute(redis_server) // HOUR
    redis_server.raw.set(base_key(redis_server, "class_rollup"), hour + 5)
    write(redis_server, hour * HOUR - HOUR, "mail", {"shop.a": 3})

    recover()

    assert not [key for key in redis_server.keys() if b":class_hours:" in key]  # noqa: SIM118


def test_time_without_a_poller_is_missing(redis_server: Store) -> None:
    latest = this_minute(redis_server)
    redis_server.raw.set(base_key(redis_server, "class_rollup"), latest // HOUR - 30)
    redis_server.raw.zadd(base_key(redis_server, "queues"), {"mail": 1})

    found = history_of("shop.a")

    assert found.missing is not None
    start, end = found.missing
    assert int(start.timestamp()) // 3_600 == latest // HOUR - 29
    assert latest // HOUR - int(end.timestamp()) // 3_600 in (2, 3)


@pytest.mark.contract
def test_real_runs_are_counted_at_once(store: Store) -> None:
    add.enqueue(1, 2)
    fail.enqueue()
    work_off()

    assert history_of(add.name).totals.succeeded == 1
    assert (history_of(fail.name).totals.failed, history_of("none").totals.finished) == (1, 0)


def test_corrupt_numbers_of_names_do_not_end_the_round(redis_server: Store) -> None:
    hour = this_minute(redis_server) // HOUR - 1
    write(redis_server, hour * HOUR, "mail", {"shop.a": 3})
    redis_server.raw.hset(queue_key(redis_server, f"task_names:{hour}", "mail"), "shop.b", "x")

    recover()
    recover()

    assert by_hour(history_of("shop.a")) == {hour: 3}
