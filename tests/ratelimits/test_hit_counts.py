"""Counts of hits for the dashboard: kinds, keys, the thread, forks, exits, and Redis away."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.ratelimits import RateLimit, hit_counts
from django_redis_components.ratelimits.hit_counts import COUNTER, LimitCounts, read_counts
from tests.ratelimits.support import count_hits, send_counts_by_hand
from tests.support import Store, eventually, run_async
from tests.support.processes import Children


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Only `flush` sends counts."""
    send_counts_by_hand(monkeypatch)


def counts_of(limit: RateLimit) -> LimitCounts:
    return run(connections.client(limit.using), read_counts([limit.policy.id], 10))[limit.policy.id]


@pytest.mark.contract
def test_hits_are_counted_by_kind_and_denied_key(store: Store, settings: Any, at_rest: None) -> None:
    count_hits(settings)
    limit, other = RateLimit("login", "2/h"), RateLimit("other", "2/h")
    for key in ("ada", "ada", "ada", "ada", 7, 7, 7):
        limit.hit(key)
    limit.peek("ada")

    COUNTER.flush()
    COUNTER.flush()

    counts = counts_of(limit)
    assert counts.totals == (4, 3, 0)
    assert len(counts.minutes) == 60
    assert counts.denied_keys == [(keys.digest("ada"), 2), (keys.digest("7"), 1)]
    assert counts_of(other).totals == (0, 0, 0)
    for name in store.raw.keys("*:hits:*"):
        assert 0 < store.raw.pttl(name) <= hit_counts.KEPT_MS


def test_counts_of_several_transfers_are_added(redis_server: Store, settings: Any, at_rest: None) -> None:
    count_hits(settings)
    limit = RateLimit("login", "1/h")
    for _ in range(3):
        limit.hit("ada")
        COUNTER.flush()

    assert counts_of(limit).totals == (1, 2, 0)


def test_each_kind_of_hit_is_counted(redis_server: Store, settings: Any, at_rest: None) -> None:
    count_hits(settings)
    limit = RateLimit("login", "9/h")

    async def hits() -> None:
        await limit.ahit("ada")
        await limit.ahit("ada", timeout=1)

    run_async(hits)
    limit.hit("ada", timeout=1)
    COUNTER.flush()

    assert counts_of(limit).totals == (3, 0, 0)


def test_the_thread_of_the_process_sends_the_counts(redis_server: Store, settings: Any) -> None:
    count_hits(settings)
    limit = RateLimit("login", "9/h")
    for total in (1, 2):  # the thread also serves the next hit
        limit.hit("ada")
        eventually(lambda total=total: counts_of(limit).totals == (total, 0, 0))


def test_denied_keys_are_stored_as_text_if_the_site_allows_it(
    redis_server: Store, settings: Any, at_rest: None
) -> None:
    count_hits(settings, DENIED_KEYS="text")
    limit = RateLimit("login", "1/h", deny_cache=False)
    for key in ("ada@example.org", b"\xff", "\ud800", "x" * 1_000, 7):
        limit.hit(key)
        limit.hit(key)
    COUNTER.flush()

    assert {key for key, _ in counts_of(limit).denied_keys} == {"ada@example.org", "\ufffd", "?", "x" * 200, "7"}


def test_denied_keys_are_bounded(
    redis_server: Store, settings: Any, at_rest: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_hits(settings)
    monkeypatch.setattr(hit_counts, "MAX_DENIED", 5)
    monkeypatch.setattr(hit_counts, "MAX_SENT", 3)
    monkeypatch.setattr(hit_counts, "MAX_KEPT", 4)
    limit = RateLimit("login", "1/h")
    for round_number in range(2):
        for key in range(8):
            for _ in range(3):
                limit.hit(f"{round_number}-{key}")
        COUNTER.flush()

    assert counts_of(limit).totals == (16, 32, 0)
    assert len(counts_of(limit).denied_keys) == 4
    monkeypatch.setattr(hit_counts, "MAX_COUNTED", 0)
    assert limit.hit("another"), "it is not counted, but decided"


def test_hits_without_redis_are_decided_and_not_counted_twice(
    own_server: Store, settings: Any, at_rest: None, caplog: pytest.LogCaptureFixture
) -> None:
    count_hits(settings)
    limit = RateLimit("login", "9/h")
    limit.hit("ada")
    own_server.servers[0].kill()
    limit.hit("ada")
    for _ in range(3):
        COUNTER.flush()
    own_server.servers[0].start()
    COUNTER.flush()

    assert counts_of(limit).totals == (0, 0, 0), "dropped, since it is unknown what was counted"
    assert sum("cannot be counted for the dashboard" in record.getMessage() for record in caplog.records) == 1


def test_forked_child_does_not_send_the_counts_of_its_parent(redis_server: Store, settings: Any, at_rest: None) -> None:
    count_hits(settings)
    limit = RateLimit("login", "9/h")
    limit.hit("ada")
    if (child := os.fork()) == 0:
        try:
            limit.hit("ada")
            COUNTER.flush()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    COUNTER.flush()

    assert counts_of(limit).totals == (2, 0, 0)


def hit_and_exit() -> None:
    RateLimit("login", "9/h").hit("ada")


def test_process_that_exits_at_once_sends_its_counts(redis_server: Store, settings: Any, children: Children) -> None:
    count_hits(settings)

    children.call("tests.ratelimits.test_hit_counts:hit_and_exit").wait()

    assert counts_of(RateLimit("login", "9/h")).totals == (1, 0, 0)


def test_counts_of_the_last_hour_span_two_clock_hours(
    redis_server: Store, settings: Any, at_rest: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_hits(settings)
    limit, now = RateLimit("login", "9/h"), time.time()
    clock: list[Callable[[], float]] = []
    monkeypatch.setattr(hit_counts, "time", SimpleNamespace(time=lambda: clock[0](), sleep=time.sleep))
    for ago in (61, 59, 1, 0):
        clock[:] = [lambda ago=ago: now - ago * 60]
        limit.hit("ada")
        COUNTER.flush()

    assert counts_of(limit).totals == (3, 0, 0)


@pytest.mark.parametrize("is_on", [True, False])
def test_counts_can_be_turned_off(is_on: bool, redis_server: Store, settings: Any, at_rest: None) -> None:
    count_hits(settings, COUNT_HITS=is_on)
    RateLimit("login", "9/h").hit("ada")
    COUNTER.flush()

    assert bool(redis_server.raw.keys("*:hits:*")) is is_on
