"""The cache of denials, without Redis."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from django_redis_components.ratelimits import Decision, denials
from django_redis_components.ratelimits.denials import DenialCache

DENIED = Decision(False, 5, 0, 60.0, 300.0)
LIMIT_AND_COST = ("limit", 1)


def test_cache_is_bounded_and_evicts_the_oldest_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "MAX_KEYS", 3)
    cache = DenialCache()

    for name in "abcad":
        cache.store(name, LIMIT_AND_COST, DENIED, time.monotonic(), 0)

    assert len(cache) == 3
    assert [cache.get(name, LIMIT_AND_COST) is None for name in "abcd"] == [False, True, False, False]


def test_denials_of_a_key_are_bounded() -> None:
    cache = DenialCache()

    for cost in range(100):
        cache.store("a", ("limit", cost), DENIED, time.monotonic(), 0)

    cached = [cost for cost in range(100) if cache.get("a", ("limit", cost)) is not None]
    assert len(cached) <= denials.MAX_DENIALS_PER_KEY
    assert 99 in cached


def test_cached_denial_ages_and_expires() -> None:
    cache = DenialCache()
    cache.store("a", LIMIT_AND_COST, DENIED, time.monotonic() - 50, 0)
    cache.store("b", LIMIT_AND_COST, DENIED, time.monotonic() - 60, 0)

    left = cache.get("a", LIMIT_AND_COST)

    assert left is not None
    assert 0 < left.retry_after <= 10
    assert 240 < left.reset_after <= 250
    assert cache.get("b", LIMIT_AND_COST) is None


def test_clear_removes_all_and_rejects_denials_requested_before() -> None:
    cache = DenialCache()
    cache.store("a", LIMIT_AND_COST, DENIED, time.monotonic(), 0)

    cache.clear()
    cache.store("a", LIMIT_AND_COST, DENIED, time.monotonic(), 0)

    assert len(cache) == 0


class BlockingDecision(Decision):
    """Blocks the thread that stores it, while that thread holds the cache's mutex."""

    reached = threading.Event()
    released = threading.Event()

    @property
    def retry_after(self) -> float:  # type: ignore[override]
        self.reached.set()
        self.released.wait(10)
        return 0.0

    @retry_after.setter
    def retry_after(self, value: float) -> None: ...


def test_forked_child_can_change_the_cache_while_a_thread_of_the_parent_does() -> None:
    cache, decision = denials.DENIALS, BlockingDecision(False, 5, 0, 60.0, 300.0)
    arguments = ("a", LIMIT_AND_COST, decision, time.monotonic(), cache.epoch)
    thread = threading.Thread(target=cache.store, args=arguments)
    thread.start()
    assert decision.reached.wait(10)

    child = os.fork()
    if child == 0:  # pragma: no cover - counted in the parent only
        signal.alarm(5)
        cache.clear()
        os._exit(0)
    decision.released.set()
    thread.join()
    cache.clear()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
