"""The history of all queues counts each minute once, in buckets of four lengths, in bounded space."""

from __future__ import annotations

import random
import struct
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from django_redis_components.taskqueue import failpoints, get_queue
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.history import RANGES, History, ahistory, history
from django_redis_components.taskqueue.stats.metrics import SIZE
from tests.support import Proxy, Store, run_async
from tests.taskqueue.schedulers import next_round, poller_of
from tests.taskqueue.stats.support import this_minute
from tests.taskqueue.support import base_key, queue_key, recover, work_off
from tests.taskqueue.tasks import add, fail

#: Counters of one minute of one queue.
Numbers = tuple[int, ...]

#: Rounds that add all minutes that are kept, five minutes in each.
ALL_ROUNDS = 34


def write(store: Store, minute: int, numbers: Numbers, queue: str = "default") -> None:
    """Write the counters of a minute, as the scripts do that finish tasks."""
    store.raw.zadd(base_key(store, "queues"), {queue: 1})
    store.raw.set(queue_key(store, f"minute:{minute}", queue), struct.pack(f">{len(numbers)}I", *numbers), ex=20_000)


def mark(store: Store, minute: int) -> None:
    """Let a poller have added all minutes up to this one."""
    store.raw.set(base_key(store, "rollup"), minute, ex=20_000)


def random_minutes(store: Store, count: int, *, seed: int) -> dict[int, list[int]]:
    """Write random counters of three queues; return their sum by minute."""
    rnd, latest = random.Random(seed), this_minute(store)
    sums: dict[int, list[int]] = {}
    for minute in range(latest - count, latest + 1):
        for queue in ("high", "default", "low"):
            if rnd.random() < 0.3:
                continue
            numbers = tuple(rnd.choice((0, rnd.randrange(50))) for _ in range(rnd.choice((1, 8, 60, SIZE))))
            write(store, minute, numbers, queue)
            padded = numbers + (0,) * (SIZE - len(numbers))
            sums[minute] = [mine + other for mine, other in zip(sums.get(minute, [0] * SIZE), padded, strict=True)]
    mark(store, latest - count - 1)
    return sums


def assert_equals_model(found: History, sums: dict[int, list[int]]) -> None:
    """Compare a range with the sums of the minutes in it."""
    minutes, count = RANGES[found.range].minutes, RANGES[found.range].count
    newest = int(found.at.timestamp()) // 60 // minutes
    model = {newest - ago: [0] * SIZE for ago in range(count)}
    for minute, numbers in sums.items():
        if minute // minutes in model:
            bucket = model[minute // minutes]
            model[minute // minutes] = [mine + other for mine, other in zip(bucket, numbers, strict=True)]
    expected = [model[bucket] for bucket in sorted(model)]
    assert [each.at.timestamp() for each in found.intervals] == [bucket * minutes * 60 for bucket in sorted(model)]
    assert [(each.counts.succeeded, each.counts.failed) for each in found.intervals] == [
        (numbers[0], numbers[1]) for numbers in expected
    ]
    assert [each.wait_time for each in found.intervals] == [Histogram(tuple(each[8:56])) for each in expected]
    assert [each.run_time for each in found.intervals] == [Histogram(tuple(each[56:])) for each in expected]
    assert found.totals.succeeded == sum(numbers[0] for numbers in expected)
    assert found.run_time.count == sum(sum(numbers[56:]) for numbers in expected)
    assert found.missing is None


@pytest.mark.contract
@pytest.mark.parametrize("seed", range(3))
def test_each_range_equals_the_sum_of_its_minutes_before_during_and_after_the_roll_up(seed: int, store: Store) -> None:
    sums = random_minutes(store, 40, seed=seed)

    for _ in range(12):
        for name in RANGES:
            assert_equals_model(history(name), sums)
        recover()


@pytest.mark.contract
def test_finished_tasks_of_all_queues_are_counted_at_once(store: Store) -> None:
    add.enqueue(1, 2)
    add.using(queue_name="mail").enqueue(1, 2)
    fail.enqueue()
    work_off("default", "mail")

    for name in RANGES:
        found = history(name)
        assert (found.totals.succeeded, found.totals.failed, found.run_time.count) == (2, 1, 3)
        assert found.intervals[-1].counts.finished + found.intervals[-2].counts.finished == 3


def test_the_async_twin(store: Store) -> None:
    add.enqueue(1, 2)
    work_off()

    found = run_async(lambda: ahistory("24h"))

    assert (found.range, found.step, len(found.intervals), found.totals.succeeded) == ("24h", 600, 144, 1)


def test_unknown_range_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"^range='2h': expected one of '1h', '24h', '7d', '90d'\.$"):
        history("2h")


@pytest.mark.contract
def test_history_without_queues_is_empty(store: Store) -> None:
    for name, found in ((name, history(name)) for name in RANGES):
        assert (found.totals.finished, found.wait_time.p95, found.missing) == (0, None, None)
        assert len(found.intervals) == RANGES[name].count


@pytest.mark.contract
def test_two_pollers_add_each_minute_once(store: Store) -> None:
    sums = random_minutes(store, 8, seed=5)
    first, second = poller_of(), poller_of()

    for _ in range(4):
        for poller in (first, second):
            poller.next_prune_at = 0.0
            next_round(poller)
            poller.close()

    for name in RANGES:
        assert_equals_model(history(name), sums)


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of failpoints; reaching one raises SystemExit, once."""
    points: list[str] = []

    def die(name: str) -> None:
        if name in points:
            points.remove(name)
            raise SystemExit(name)

    monkeypatch.setattr(failpoints, "hook", die)
    yield points
    assert points == []


@pytest.mark.parametrize("point", ["before_maintain", "after_maintain"])
def test_crash_of_a_poller_in_its_round_neither_loses_nor_repeats_a_minute(
    store: Store, crash: list[str], point: str
) -> None:
    sums = random_minutes(store, 4, seed=7)
    first, second = poller_of(), poller_of()
    crash.append(point)

    with pytest.raises(SystemExit, match=point):
        next_round(first)
    store.raw.delete(base_key(store, "poller"))  # as if the lease of the first had expired
    next_round(second)

    assert second.is_active
    assert int(store.raw.get(base_key(store, "rollup"))) >= max(sums) - 1
    for name in RANGES:
        assert_equals_model(history(name), sums)


def test_repeated_round_after_a_lost_reply_adds_each_minute_once(proxy: Proxy, redis_server: Store) -> None:
    sums = random_minutes(redis_server, 4, seed=9)
    poller = poller_of(using="proxied")
    next_round(poller)
    mark_before = this_minute(redis_server) - 5
    redis_server.raw.delete(*[key for key in redis_server.keys() if b":history:" in key])  # noqa: SIM118 - a Store is no dict
    mark(redis_server, mark_before)
    poller.next_prune_at = 0.0
    proxy.drop_next_reply(after=poller.id.encode())

    for _ in range(3):
        next_round(poller)
        poller.next_prune_at = 0.0

    assert proxy.dropped == 1
    assert int(redis_server.raw.get(base_key(redis_server, "rollup"))) >= mark_before + 4
    for name in RANGES:
        assert_equals_model(history(name), sums)


def test_minutes_of_three_hours_without_a_poller_are_added_when_one_returns(redis_server: Store) -> None:
    latest = this_minute(redis_server)
    for minute in range(latest - 169, latest):
        write(redis_server, minute, (1,))
    mark(redis_server, latest - 180)

    assert history("24h").totals.succeeded == pytest.approx(169, abs=1), "read from the queue until then"
    for _ in range(ALL_ROUNDS):
        recover()
    redis_server.raw.delete(*[queue_key(redis_server, f"minute:{minute}") for minute in range(latest - 169, latest)])

    found = history("24h")
    assert found.totals.succeeded == pytest.approx(169, abs=2), "the oldest may have left the kept minutes meanwhile"
    assert found.missing is None
    assert len([key for key in redis_server.keys() if b":history:1:" in key]) <= 62  # noqa: SIM118 - a Store is no dict


def test_mark_outlives_the_minutes(store: Store) -> None:
    add.enqueue(1, 2)
    work_off()
    recover()

    assert store.raw.ttl(base_key(store, "rollup")) > 14 * 86_400


def test_time_that_is_too_much_to_read_is_reported_as_missing(redis_server: Store) -> None:
    latest = this_minute(redis_server)
    for number in range(200):
        write(redis_server, latest - 20, (1,), f"queue-{number}")
        write(redis_server, latest - 2, (1,), f"queue-{number}")
    mark(redis_server, latest - 60)

    found = history("24h")

    assert found.totals.succeeded == 200
    assert found.missing is not None
    start, end = found.missing
    assert start == datetime.fromtimestamp((latest - 59) * 60, UTC)
    assert timedelta(minutes=54) <= end - start <= timedelta(minutes=56)


@pytest.mark.contract
def test_buckets_expire_after_the_longest_time_that_a_range_shows_them(store: Store) -> None:
    minute = this_minute(store) - 1
    write(store, minute, (5,))
    mark(store, minute - 1)

    recover()

    for name, found in RANGES.items():
        key = base_key(store, "history", f"{found.minutes}:{minute // found.minutes}")
        longest_s = (found.count + 2) * found.minutes * 60
        assert longest_s - 240 < store.raw.ttl(key) <= longest_s - 60, name


def test_memory_of_a_full_history_is_bounded(redis_server: Store) -> None:
    full = struct.pack(f">{SIZE}I", *[2**31] * SIZE)
    keys = []
    for found in RANGES.values():
        for bucket in range(found.count + 2):
            keys.append(base_key(redis_server, "history", f"{found.minutes}:{10**7 + bucket}"))
            redis_server.raw.set(keys[-1], full, ex=600)

    used = sum(redis_server.raw.memory_usage(key) for key in keys)

    assert Counter(len(redis_server.raw.get(key)) for key in keys) == {416: 470}
    assert used < 350_000


def test_counters_of_the_history_saturate(redis_server: Store) -> None:
    minute = this_minute(redis_server) - 1
    for queue in ("high", "low"):
        write(redis_server, minute, (2**32 - 1,), queue)
    mark(redis_server, minute - 1)
    assert max(each.counts.succeeded for each in history("1h").intervals) == 2 * (2**32 - 1), "it is added up here"

    recover()

    assert max(each.counts.succeeded for each in history("1h").intervals) == 2**32 - 1


def test_history_of_more_than_one_chunk_of_queues_is_complete_after_the_roll_up(redis_server: Store) -> None:
    minute = this_minute(redis_server) - 1
    names = [f"q{number:04}" for number in range(600)]
    redis_server.raw.zadd(base_key(redis_server, "queues"), {name: at for at, name in enumerate(names)})
    for name in names:
        redis_server.raw.set(queue_key(redis_server, f"minute:{minute}", name), struct.pack(">I", 1), ex=600)
    for suffix in ("", ":1"):
        redis_server.raw.set(base_key(redis_server, "rollup") + suffix, minute - 1)
    poller = poller_of()

    next_round(poller)
    poller.next_prune_at = 0.0
    next_round(poller)

    assert {name: history(name).totals.succeeded for name in RANGES} == dict.fromkeys(RANGES, 600)
    poller.close()


def test_history_of_a_queue_still_has_its_own_hours(store: Store) -> None:
    minute = this_minute(store) - 1
    write(store, minute, (7, 2))
    mark(store, minute - 1)

    recover()

    totals = get_queue("default").history(hours=2).totals
    assert (totals.succeeded, totals.failed) == (7, 2)
    assert history("7d").totals.succeeded == 7
