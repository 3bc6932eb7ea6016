"""The table of denials, by itself."""

from __future__ import annotations

import os
import time

import pytest

from django_redis_components.ratelimits import Decision, denials
from django_redis_components.ratelimits.denials import DenialCache

DENIED = Decision(False, 5, 0, 60.0, 300.0)
QUESTION = ("limit", 1)


def test_it_is_bounded_and_drops_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denials, "MAX_VISITORS", 3)
    cache = DenialCache()

    for name in "abcad":
        cache.store(name, QUESTION, DENIED, time.monotonic(), 0)

    assert len(cache) == 3
    assert [cache.find(name, QUESTION) is None for name in "abcd"] == [False, True, False, False]


def test_a_visitor_has_a_bounded_number_of_questions() -> None:
    cache = DenialCache()

    for cost in range(100):
        cache.store("a", ("limit", cost), DENIED, time.monotonic(), 0)

    assert len(cache._visitors["a"]) <= denials.MAX_QUESTIONS
    assert cache.find("a", ("limit", 99)) is not None


def test_a_denial_grows_old_and_ends() -> None:
    cache = DenialCache()
    cache.store("a", QUESTION, DENIED, time.monotonic() - 50, 0)
    cache.store("b", QUESTION, DENIED, time.monotonic() - 60, 0)

    left = cache.find("a", QUESTION)

    assert left is not None
    assert 0 < left.retry_after <= 10
    assert 240 < left.reset_after <= 250
    assert cache.find("b", QUESTION) is None


def test_clearing_forgets_all_and_what_is_under_way() -> None:
    cache = DenialCache()
    cache.store("a", QUESTION, DENIED, time.monotonic(), 0)

    cache.clear()
    cache.store("a", QUESTION, DENIED, time.monotonic(), 0)

    assert len(cache) == 0


def test_the_child_of_a_fork_is_not_held_up_by_a_thread_of_its_parent() -> None:
    cache = denials.DENIALS

    with cache._guard:
        child = os.fork()
        if child == 0:  # pragma: no cover - counted in the parent only
            os._exit(0 if cache._guard.acquire(timeout=5) else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
