"""Minutes of many queues are read from a few hashes, with the same result as from their own keys."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import packed_minutes
from django_redis_components.taskqueue.stats.metrics import Metrics, parse_recent, recent_requests
from tests.support import Store
from tests.taskqueue.stats.support import minute_key, write_minute
from tests.taskqueue.support import base_key, recover, server_ms

QUEUES = ("mail", "news", "idle")


def packed_range() -> range:
    found: range = run(connections.client(), packed_minutes.read_range(home()))
    return found


def read(minutes: range = packed_minutes.NONE, count: int = 60) -> dict[str, Metrics]:
    """Return the metrics of the queues, without the moment at which they were read."""
    requests = recent_requests(home(), QUEUES, count, minutes)
    found = parse_recent(connections.client().execute_many(requests), QUEUES, count, minutes)
    return {name: dataclasses.replace(each, at=each.intervals[-1].at) for name, each in found.items()}


def write_minutes(store: Store, count: int, seed: int = 1) -> None:
    """Write random counters of two queues, of which no poller has added any."""
    chance = random.Random(seed)
    store.raw.zadd(base_key(store, "queues"), dict.fromkeys(QUEUES, 1))
    for ago in range(count + 1):
        for queue in QUEUES[:2]:
            if chance.random() < 0.7:
                numbers = [chance.choice((0, chance.randrange(50))) for _ in range(chance.choice((1, 8, 60, 104, 208)))]
                write_minute(store, ago, *numbers, queue=queue)
    store.raw.set(base_key(store, "rollup"), int(server_ms(store)) // 60_000 - count - 1)


@pytest.mark.contract
@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_the_same_before_during_and_after_the_minutes_are_packed(seed: int, store: Store) -> None:
    write_minutes(store, 40, seed)
    packed: list[int] = []

    for _round in range(10):
        minutes = packed_range()
        packed.append(len(minutes))
        for count in (7, 60):
            with_packed, without = read(minutes, count), read(count=count)
            if with_packed["mail"].at == without["mail"].at:  # else a minute has begun between them
                assert with_packed == without
        recover()

    assert packed[:3] == [0, 5, 10]
    assert packed[-1] >= 40


def test_packed_minutes_are_read_from_the_hashes_alone(redis_server: Store) -> None:
    write_minutes(redis_server, 20)
    for _round in range(5):
        recover()
    before = read()

    redis_server.raw.delete(*[minute_key(redis_server, ago, queue) for ago in range(2, 21) for queue in QUEUES])

    assert read(packed_range())["mail"].totals == before["mail"].totals
    assert read()["mail"].totals != before["mail"].totals
    requests: list[Any] = recent_requests(home(), QUEUES, 60, packed_range())
    assert len(requests) <= 8, "one script, and at most seven hashes of ten minutes"


def test_minutes_that_a_poller_of_an_earlier_version_has_added_are_read_from_the_queues(redis_server: Store) -> None:
    write_minutes(redis_server, 20)
    recover()
    first = packed_range()
    redis_server.raw.incr(base_key(redis_server, "rollup"))  # it has added one

    recover()

    assert packed_range() == range(first.stop + 1, first.stop + 6)
    assert read(packed_range())["mail"].totals == read()["mail"].totals


def test_range_is_that_of_all_chunks_of_queues(redis_server: Store) -> None:
    redis_server.raw.zadd(base_key(redis_server, "queues"), {f"q{number}": number for number in range(501)})
    redis_server.raw.hset(base_key(redis_server, "packed"), mapping={0: "100 140", 1: "90 139"})
    assert packed_range() == range(100, 140)

    redis_server.raw.hset(base_key(redis_server, "packed"), "1", "20 150")
    redis_server.raw.hset(base_key(redis_server, "packed"), "0", "10 140")
    assert packed_range() == range(81, 141), "at most 60"

    redis_server.raw.hdel(base_key(redis_server, "packed"), "1")
    assert packed_range() == packed_minutes.NONE, "no poller has packed those of the second chunk"


@pytest.mark.parametrize("odd", ["", "x", "1 2 3", "5 1"])
def test_odd_note_counts_as_nothing(odd: str, redis_server: Store) -> None:
    redis_server.raw.hset(base_key(redis_server, "packed"), "0", odd)
    assert not packed_range()

    redis_server.raw.delete(base_key(redis_server, "packed"))
    redis_server.raw.set(base_key(redis_server, "packed"), odd)
    assert not packed_range()


def test_hashes_expire(redis_server: Store) -> None:
    write_minutes(redis_server, 20)
    recover()

    keys = redis_server.raw.keys(base_key(redis_server, "packed_minutes", "*"))

    assert keys
    assert all(0 < redis_server.raw.ttl(key) <= 72 * 60 for key in keys)
    assert redis_server.raw.ttl(base_key(redis_server, "packed")) > 0


def test_nothing_is_packed_on_a_site_with_more_queues_than_a_page_reads_so(redis_server: Store) -> None:
    write_minutes(redis_server, 10)
    most = packed_minutes.CHUNK * packed_minutes.MAX_CHUNKS
    redis_server.raw.zadd(base_key(redis_server, "queues"), {f"q{number}": 2 for number in range(most)})

    recover()

    assert redis_server.raw.exists(base_key(redis_server, "rollup"))
    assert not redis_server.raw.exists(base_key(redis_server, "packed"))
