"""A key that an operator blocks: for a time or until it is unblocked, by each algorithm."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ConnectionError

from django_redis_components.core import keys
from django_redis_components.ratelimits import Decision, HashedKey, RateLimit, RateLimitMiddleware, rate_limit
from django_redis_components.ratelimits.algorithms import ALGORITHMS
from django_redis_components.ratelimits.denials import BLOCK_S, DenialCache
from django_redis_components.ratelimits.limiter import ENDLESS_BLOCK_S, MAX_BLOCK_S
from django_redis_components.ratelimits.middleware import NAME
from tests.ratelimits.clock import Clock, settable
from tests.ratelimits.histories import histories, numbers, rates_of
from tests.support import Proxy, Store, run_async

__all__ = ["settable"]

every_algorithm = pytest.mark.parametrize("algorithm", list(ALGORITHMS))


@pytest.mark.contract
@every_algorithm
def test_blocked_key_is_denied_whatever_the_cost_until_the_block_ends(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "5/m", "9/h", algorithm=algorithm, deny_cache=False)
    limit.hit("ada")

    limit.block("ada", 7_200, author="kim")

    denials = [limit.hit("ada"), limit.hit("ada", 5), limit.peek("ada"), limit.peek("ada", 5)]
    assert [(each.is_allowed, each.is_blocked, each.blocked_by) for each in denials] == [(False, True, "kim")] * 4
    assert all(7_190 < each.retry_after <= 7_200 for each in denials)
    assert not limit.hit("ada", timeout=60)
    assert limit.hit("bob").blocked_by is None
    lives = [store.raw.pttl(key) for key in [*store.keys()] if keys.digest("ada").encode() in key]
    assert len(lives) == 2
    assert all(7_190_000 < life <= 7_200_001 for life in lives)


@every_algorithm
def test_hits_change_nothing_of_a_block(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "1/m", algorithm=algorithm, deny_cache=False, penalty=(2, 60))
    limit.hit("ada")
    limit.block("ada", 7_200)
    stored = {key: store.raw.dump(key) for key in [*store.keys()]}

    for _ in range(5):
        limit.hit("ada")
        limit.refund("ada")

    assert {key: store.raw.dump(key) for key in [*store.keys()]} == stored


@pytest.mark.contract
@every_algorithm
def test_async_twins_block_and_unblock(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "5/m", algorithm=algorithm)

    async def main() -> list[Any]:
        await limit.ablock("ada", 600, author="kim")
        decision = await limit.ahit("ada")
        ended = [await limit.aunblock("ada"), await limit.aunblock("ada")]
        return [decision.blocked_by, *ended, (await limit.ahit("ada")).remaining]

    assert run_async(main) == ["kim", True, False, 4]


@every_algorithm
def test_second_block_replaces_the_first(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "5/m", algorithm=algorithm)
    limit.hit("ada")

    found = []
    for seconds, author in ((600, "kim"), (3_600, "ada"), (60, "")):
        limit.block("ada", seconds, author=author)
        decision = limit.hit("ada")
        found.append((round(decision.retry_after), decision.blocked_by))

    assert found == [(600, "kim"), (3_600, "ada"), (60, "")]
    assert limit.unblock("ada")
    assert limit.hit("ada").remaining == 3


@pytest.mark.contract
@every_algorithm
def test_unblock_keeps_the_counts_and_their_lifetime(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "5/m", "9/h", algorithm=algorithm)
    limit.hit("ada", 3)
    limit.block("ada", None)

    assert limit.unblock("ada")

    assert [state.remaining for state in limit.peek("ada").states] == [2, 6]
    assert all(0 < store.raw.pttl(key) <= 3_600_001 for key in [*store.keys()])
    limit.reset("ada")
    limit.block("ada", 600)
    assert limit.unblock("ada")
    assert store.keys() == []


@every_algorithm
def test_reset_ends_a_block(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "5/m", algorithm=algorithm)
    limit.block("ada", 600)

    limit.reset("ada")

    assert store.keys() == []
    assert limit.hit("ada")


@every_algorithm
def test_block_without_an_end_has_a_number_and_a_ttl(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "5/m", algorithm=algorithm)

    limit.block("ada", None)

    assert ENDLESS_BLOCK_S - 60 < limit.hit("ada").retry_after <= ENDLESS_BLOCK_S
    [key] = store.keys()
    assert store.raw.pttl(key) > MAX_BLOCK_S * 1_000


@every_algorithm
def test_lost_replies_of_block_and_unblock_change_nothing(proxy: Proxy, redis_server: Store, algorithm: str) -> None:
    limit = RateLimit("api", "5/h", algorithm=algorithm, using="proxied")
    limit.hit("ada")
    proxy.drop_next_reply(after=b"{api:", times=2)

    limit.block("ada", 600, author="kim")
    decision = limit.peek("ada")
    assert proxy.dropped == 2
    assert (round(decision.retry_after), decision.blocked_by) == (600, "kim")
    proxy.drop_next_reply(after=b"{api:", times=2)
    limit.unblock("ada")

    assert proxy.dropped == 4
    assert RateLimit("api", "5/h", algorithm=algorithm).peek("ada").remaining == 4


@every_algorithm
def test_hit_that_starts_after_the_block_is_never_allowed(redis_server: Store, algorithm: str) -> None:
    limit = RateLimit("api", "10000/h", algorithm=algorithm, deny_cache=False)
    allowed: list[float] = []
    last: list[Decision] = []
    is_running = threading.Barrier(5, timeout=60)

    def hit_until_blocked() -> None:
        is_running.wait()
        while True:
            started_at = time.monotonic()
            decision = limit.hit("ada")
            if not decision:
                last.append(decision)
                return
            allowed.append(started_at)

    threads = [threading.Thread(target=hit_until_blocked) for _ in range(4)]
    for each in threads:
        each.start()
    is_running.wait()
    while len(allowed) < 20:
        time.sleep(0.001)
    limit.block("ada", 600)
    blocked_at = time.monotonic()
    for each in threads:
        each.join()

    assert max(allowed) < blocked_at
    assert [each.is_blocked for each in last] == [True] * 4
    limit.unblock("ada")
    assert limit.peek("ada").remaining in range(10_000 - len(allowed), 10_000 - len(allowed) + 3)


#: Operation, time before it as a share of the first period, cost.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["hit"] * 5 + ["peek", "refund", "block", "block", "unblock"]),
        st.one_of(st.just(0.0), st.floats(0, 0.5), st.floats(0, 2.5)),
        st.integers(1, 1_000_000),
    ),
    min_size=1,
    max_size=30,
)


@every_algorithm
def test_counts_continue_after_a_block_as_if_it_had_not_been(
    redis_server: Store, settable: None, algorithm: str
) -> None:
    """Two keys have the same history, but the other one has neither the blocks nor what happens during them."""

    @histories
    @given(rates_of(algorithm), STEPS)
    def check(rates: list[tuple[int, int]], steps: list[Any]) -> None:
        limit = RateLimit("m", *((count, us / 1e6) for count, us in rates), algorithm=algorithm, deny_cache=False)
        key, other = str(next(numbers)), str(next(numbers))
        clocks = [Clock(redis_server, "m", each) for each in (key, other)]
        ends_us, most = 0, min(count for count, _ in rates)
        for act, share, number in steps:
            for clock in clocks:
                clock.advance(int(share * rates[0][1]))
            now_us, cost = clocks[0].now_us, (number - 1) % most + 1
            if act == "block":
                limit.block(key, number / 1e6)
                ends_us = now_us + number
            elif act == "unblock":
                assert limit.unblock(key) == (now_us < ends_us)
                ends_us = 0
            elif now_us < ends_us:
                decision = getattr(limit, act)(key, cost)
                assert decision is None or (decision.is_blocked, decision.retry_after) == (
                    True,
                    (ends_us - now_us) / 1e6,
                )
            else:
                assert getattr(limit, act)(key, cost) == getattr(limit, act)(other, cost)

    check()


@every_algorithm
def test_block_ends_at_its_time_when_the_clock_goes_back(redis_server: Store, settable: None, algorithm: str) -> None:
    limit = RateLimit("m", "5/m", algorithm=algorithm, deny_cache=False)
    clock = Clock(redis_server, "m", "a")
    limit.hit("a")
    clock.advance(-30_000_000)

    limit.block("a", 600)
    clock.advance(-60_000_000)
    denial = limit.hit("a")
    clock.advance(659_999_999)
    last = limit.peek("a")
    clock.advance(1)

    assert (denial.is_blocked, denial.retry_after) == (True, 660)
    assert last.is_blocked
    assert limit.hit("a")


@pytest.mark.contract
@every_algorithm
def test_longer_penalty_stays_and_a_shorter_one_is_replaced(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "1/h", algorithm=algorithm, penalty=(1, 600), deny_cache=False)
    for key in ("ada", "bob"):
        limit.hit(key)
        assert limit.hit(key).is_blocked

    limit.block("ada", 60, author="kim")
    limit.block("bob", 3_600, author="kim")

    assert [limit.peek(key).blocked_by for key in ("ada", "bob")] == [None, "kim"]
    assert [round(limit.peek(key).retry_after, -2) for key in ("ada", "bob")] == [600, 3_600]
    assert limit.unblock("ada")
    assert limit.peek("ada").is_blocked


def test_key_is_blocked_by_its_hash(redis_server: Store) -> None:
    limit = RateLimit("login", "5/m")
    hashed = HashedKey(keys.digest("ada"))

    limit.block(hashed, 600)
    assert limit.hit("ada").is_blocked
    assert limit.unblock(hashed)

    assert limit.hit("ada")


@pytest.mark.parametrize("author", ["", "用户" * 60, "a\nb\0c", "\udc80x", "x" * 500])
def test_any_text_is_accepted_as_an_author(redis_server: Store, author: str) -> None:
    for algorithm in ALGORITHMS:
        limit = RateLimit("login", "5/m", algorithm=algorithm)

        limit.block("ada", 600, author=author)

        found = limit.hit("ada").blocked_by
        assert found is not None
        assert len(found.encode()) <= 100
        assert found.isprintable()


@pytest.mark.parametrize(
    ("seconds", "error", "text"),
    [
        (0, ValueError, "seconds=0: expected a number of seconds above 0, or a timedelta."),
        (-1, ValueError, "seconds=-1: expected a number of seconds above 0, or a timedelta."),
        (float("nan"), ValueError, "seconds=nan: expected a number of seconds above 0, or a timedelta."),
        ("1h", TypeError, "seconds='1h': expected a number of seconds above 0, or a timedelta."),
        (True, TypeError, "seconds=True: expected a number of seconds above 0, or a timedelta."),
        (
            MAX_BLOCK_S + 1,
            ValueError,
            "seconds=31622401: expected at most 31622400, a year; or None for no end.",
        ),
    ],
)
def test_wrong_time_is_named_with_what_is_accepted(
    redis_server: Store, seconds: Any, error: type[Exception], text: str
) -> None:
    limit = RateLimit("login", "5/m")

    with pytest.raises(error) as caught:
        limit.block("ada", seconds)
    with pytest.raises(error):
        asyncio.run(limit.ablock("ada", seconds))

    assert str(caught.value) == text
    assert redis_server.keys() == []


def test_wrong_author_and_key_are_named(redis_server: Store) -> None:
    limit = RateLimit("login", "5/m")

    with pytest.raises(TypeError, match=r"^author=7: expected a string\.$"):
        limit.block("ada", 60, author=7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^key=None: expected a string, bytes or an integer\.$"):
        limit.block(None, 60)  # type: ignore[arg-type]


def test_block_is_refused_while_redis_is_away(own_server: Store) -> None:
    limit = RateLimit("api", "5/m")
    own_server.servers[0].kill()

    for change in (lambda: limit.block("ada", 60), lambda: limit.unblock("ada")):
        with pytest.raises(ConnectionError):
            change()

    assert limit.hit("ada").is_allowed


def test_cached_block_is_asked_for_again_after_five_seconds() -> None:
    cache, now = DenialCache(), time.monotonic()
    block = Decision(False, 5, 0, 3_600.0, 3_600.0, is_blocked=True, blocked_by="kim")
    cache.store("a", ("limit", 1), block, now - 1, 0)
    cache.store("b", ("limit", 1), block, now - BLOCK_S, 0)

    found = cache.get("a", ("limit", 1))

    assert found is not None
    assert found.blocked_by == "kim"
    assert 3_590 < found.retry_after <= 3_599
    assert cache.get("b", ("limit", 1)) is None


def test_responses_of_decorator_and_middleware_name_the_end_of_the_block(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"RATES": ["9/m"], "COUNT_HITS": False}}

    @rate_limit("5/m", name="page")
    def view(request: Any) -> HttpResponse:
        return HttpResponse("shown")

    RateLimit("page", "5/m").block("ip:127.0.0.1", 600)
    middleware = RateLimitMiddleware(lambda request: HttpResponse("shown"))
    RateLimit(NAME, "9/m").block("ip:127.0.0.1", 600)

    for respond in (view, middleware):
        response = respond(RequestFactory().get("/"))
        assert (response.status_code, response["Retry-After"]) == (429, "600")
