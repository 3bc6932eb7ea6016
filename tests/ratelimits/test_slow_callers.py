"""The time until a reply is the server's alone: a busy interpreter or event loop is no slow Redis."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from django_redis_components.core import circuit_breaker
from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.client import event_loops, multiplexed_connection, transport
from django_redis_components.core.rates import parse_rate
from django_redis_components.ratelimits import Decision, RateLimit, local_counts
from django_redis_components.ratelimits.algorithms import ALGORITHMS
from django_redis_components.ratelimits.local_counts import COUNT_BYTES, LOCAL_COUNTS, LocalCounts
from tests.support import Proxy, Store, run_async


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thresholds of a site, or lower ones: the tests of other modules use long ones."""
    monkeypatch.setattr(circuit_breaker, "SLOW_S", 0.05)
    monkeypatch.setattr(circuit_breaker, "BURST_S", 0.2)
    for module in (transport, event_loops, multiplexed_connection):
        monkeypatch.setattr(module, "PART_S", 0.05)


def late(proxy: Proxy, seconds: float) -> RateLimit:
    """Return a limit whose replies are late from now on."""
    limit = RateLimit("login", "5/m", using="proxied", deny_cache=False)
    assert limit.hit("warm-up").is_checked
    proxy.delay(seconds)
    return limit


def test_limit_holds_in_each_process_while_replies_are_slow(
    proxy: Proxy, strict: None, caplog: pytest.LogCaptureFixture
) -> None:
    limit = late(proxy, 0.3)

    decisions = [limit.hit("ada") for _ in range(2_000)]

    assert breaker_for("proxied").is_open
    assert sum(decision.is_allowed for decision in decisions) <= 10, "at most 5 of the server, and 5 of this process"
    assert not decisions[-1].is_allowed
    assert not decisions[-1].is_checked
    assert 0 < decisions[-1].retry_after <= 12
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("ratelimits")]
    assert lines == ["Rate limits cannot be checked, hits are counted in this process: Redis is slow."]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_limit_holds_in_each_process_while_redis_is_away(own_server: Store, algorithm: str, is_async: bool) -> None:
    limit = RateLimit("login", "5/m", "6/h", algorithm=algorithm)
    own_server.servers[0].kill()

    async def hit_all() -> list[Decision]:
        return [await limit.ahit("ada") for _ in range(50)]

    decisions = run_async(hit_all) if is_async else [limit.hit("ada") for _ in range(50)]

    assert [decision.is_allowed for decision in decisions] == [True] * 5 + [False] * 45
    assert not any(decision.is_checked for decision in decisions)
    assert [decision.remaining for decision in decisions[:6]] == [4, 3, 2, 1, 0, 0]
    assert limit.hit("bob").is_allowed, "another key has its own count"
    assert not limit.peek("ada").is_allowed
    assert limit.hit("eve", cost=5).is_allowed
    assert not limit.hit("eve").is_allowed


def test_single_hits_try_redis_again_and_the_server_decides_after_the_outage(
    own_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = RateLimit("login", "2/m")
    own_server.servers[0].stop()
    assert [limit.hit("ada").is_checked for _ in range(3)] == [False] * 3
    own_server.servers[0].start()
    breaker_for("default").record_failure(open_s=0)

    decision = limit.hit("ada")

    assert (decision.is_allowed, decision.is_checked) == (True, True)


def test_closed_limit_denies_while_redis_is_away(own_server: Store) -> None:
    limit = RateLimit("login", "5/m", on_error="closed")
    own_server.servers[0].kill()

    decisions = [limit.hit("ada") for _ in range(3)]

    assert [(decision.is_allowed, decision.is_checked) for decision in decisions] == [(False, False)] * 3
    assert len(LOCAL_COUNTS) == 0


def test_threads_that_compute_are_no_slow_redis(redis_server: Store, strict: None) -> None:
    limit = RateLimit("login", "1000/s", deny_cache=False)
    limit.hit("warm-up")
    stopped = threading.Event()

    def compute() -> None:
        while not stopped.is_set():
            sum(range(10_000))

    threads = [threading.Thread(target=compute) for _ in range(12)]
    for each in threads:
        each.start()
    try:
        decisions = [limit.hit("ada") for _ in range(15)]
    finally:
        stopped.set()
        for each in threads:
            each.join()

    unchecked = [decision for decision in decisions if not decision.is_checked]
    assert unchecked == [] or breaker_for("default").reason == "Redis is slow.", unchecked
    assert len(unchecked) <= len(decisions) // 2, "the machine itself may stop the server for a moment"


@pytest.mark.parametrize("busy_s", [0.3, 1.2])
def test_view_that_computes_on_the_event_loop_is_no_slow_redis(
    redis_server: Store, settings: Any, strict: None, busy_s: float
) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"TIMEOUT": 0.2, "COUNT_HITS": False}}
    limit = RateLimit("login", "1000/s", deny_cache=False)

    async def hit_beside_a_busy_view() -> list[Decision]:
        await limit.ahit("warm-up")
        hits = [asyncio.ensure_future(limit.ahit(number)) for number in range(6)]
        await asyncio.sleep(0)  # they are sent, or connect
        started_at = time.monotonic()
        while time.monotonic() - started_at < busy_s:
            pass
        found = await asyncio.gather(*hits)
        return [*found, *[await limit.ahit("next") for _ in range(5)]]

    decisions = run_async(hit_beside_a_busy_view)

    assert [decision.is_checked for decision in decisions] == [True] * 11
    assert not breaker_for("default").is_open


def test_memory_of_the_local_counts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_counts, "MAX_BYTES", 100 * COUNT_BYTES)
    counts, rate = LocalCounts(), (parse_rate("100/m"),)

    for algorithm in ALGORITHMS:
        for number in range(1_000):
            counts.decide(algorithm, [f"{algorithm}:{number % 300}"], rate, 1, count=True)
        for _ in range(200):
            counts.decide(algorithm, [f"{algorithm}:one"], rate, 1, count=True)
        assert 0 < counts.bytes <= 100 * COUNT_BYTES
        assert not counts.decide(algorithm, [f"{algorithm}:one"], rate, 1, count=True), "the key hit last is kept"

    counts.clear()
    assert (len(counts), counts.bytes) == (0, 0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_local_counts_expire(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000.0]
    monkeypatch.setattr(local_counts, "time", SimpleNamespace(monotonic=lambda: now[0]))
    counts, rate = LocalCounts(), (parse_rate("3/s"),)

    def hit() -> bool:
        return counts.decide(algorithm, ["key"], rate, 1, count=True).is_allowed

    assert [hit() for _ in range(5)] == [True, True, True, False, False]
    now[0] += counts.decide(algorithm, ["key"], rate, 1, count=False).retry_after + 0.001
    assert hit()
    now[0] += 1.001
    assert [hit() for _ in range(4)] == [True, True, True, False]
