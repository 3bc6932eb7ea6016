"""The scripts against a model in plain Python, on a clock that the test sets: any rates, costs and times."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_redis_components.core.client.connections import client
from django_redis_components.core.protocol import run
from django_redis_components.ratelimits import RateLimit, algorithms
from django_redis_components.ratelimits.limit import read_flow
from django_redis_components.ratelimits.limiter import Limiter
from tests.ratelimits.clock import LONGER_MS, Clock, settable
from tests.ratelimits.histories import histories, numbers, rates_of
from tests.ratelimits.models import Model
from tests.support import Store

__all__ = ["settable"]

#: Operation, time before it as a share of the first period (negative: the clock goes back), cost.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["hit"] * 6 + ["repeat", "peek", "refund", "reset"]),
        st.one_of(st.just(0.0), st.floats(0, 0.5), st.floats(0, 2.5), st.floats(-0.5, 0), st.floats(-20, 0)),
        st.one_of(st.just(1), st.integers(1, 1_000_000)),
    ),
    min_size=1,
    max_size=30,
)
PENALTIES = st.one_of(st.none(), st.tuples(st.integers(1, 3), st.integers(1, 10**8)))


class History:
    """A limit and its model, given the same operations."""

    def __init__(
        self, store: Store, algorithm: str, rates: list[tuple[int, int]], penalty: tuple[int, int] | None
    ) -> None:
        penalty_option = penalty and (penalty[0], timedelta(microseconds=penalty[1]))
        durations = [(count, timedelta(microseconds=period_us)) for count, period_us in rates]
        self.limit = RateLimit("m", *durations, algorithm=algorithm, penalty=penalty_option, deny_cache=False)
        self.limiter = Limiter(
            "m",
            tuple(durations),
            algorithm=algorithm,
            penalty=penalty_option,
            on_error="open",
            deny_cache=False,
            using="default",
        )
        self.model = Model(algorithm, rates, penalty)
        self.key = str(next(numbers))
        self.clock = Clock(store, "m", self.key)
        self.last: tuple[bytes, int] | None = None

    def hit(self, hit_id: bytes, cost: int) -> Any:
        decision = run(client(), self.limiter.hit(self.key, cost, hit_id=hit_id))
        states = [
            (state.remaining, round(state.retry_after * 1_000_000), round(state.reset_after * 1_000_000))
            for state in decision.states
        ]
        return decision.is_allowed, decision.is_blocked, states

    def step(self, act: str, cost: int) -> None:
        now = self.clock.now_us
        if act == "hit":
            hit_id = os.urandom(8)
            outcome = self.hit(hit_id, cost)
            assert comparable(outcome) == comparable(self.model.decide(now, cost, counts=True))
            self.last = (hit_id, cost) if outcome[0] else None
            return
        if act == "repeat" and self.last is not None:
            expected = [rate.state(now, 1) for rate in self.model.rates]
            allowed, _, states = self.hit(*self.last)
            assert allowed
            assert [(left, reset) for left, _, reset in states] == [(left, reset) for left, _, reset in expected]
        elif act == "peek":
            assert comparable(self.hit(b"", cost)) == comparable(self.model.decide(now, cost, counts=False))
        elif act == "refund":
            self.limit.refund(self.key, cost)
            self.model.refund(now, cost)
            self.last = None  # a client that refunds has received the reply
        elif act == "reset":
            self.limit.reset(self.key)
            self.model.reset()
            self.last = None


def comparable(outcome: Any) -> Any:
    """Return the documented part of an outcome: only a denial has a time until a retry."""
    allowed, blocked, states = outcome
    return allowed, blocked, [(left, 0 if allowed else retry, reset) for left, retry, reset in states]


@pytest.mark.parametrize("algorithm", list(algorithms.ALGORITHMS))
def test_scripts_match_the_model_for_any_history(redis_server: Store, settable: None, algorithm: str) -> None:
    @histories
    @given(rates_of(algorithm), PENALTIES, STEPS)
    def check(rates: list[tuple[int, int]], penalty: tuple[int, int] | None, steps: list[Any]) -> None:
        history = History(redis_server, algorithm, rates, penalty)
        most = min(limit for limit, _ in rates)
        for act, share, cost in steps:
            passed_us = int(share * rates[0][1])
            if passed_us:
                history.last = None  # its record may have expired: then a repetition counts as a new hit
            history.clock.advance(passed_us)
            history.step(act, (cost - 1) % most + 1)

    check()


@pytest.mark.parametrize("algorithm", list(algorithms.ALGORITHMS))
def test_retry_after_is_exact(redis_server: Store, settable: None, algorithm: str) -> None:
    limit = RateLimit("m", (3, 7), "7/s", algorithm=algorithm, deny_cache=False)
    clock = Clock(redis_server, "m", "a")
    for _ in range(50):
        decision = limit.hit("a", 2)
        if not decision:
            wait_us = round(decision.retry_after * 1_000_000)
            clock.advance(wait_us - 1)
            assert not limit.peek("a", 2)
            clock.advance(1)
            assert limit.peek("a", 2)


@pytest.mark.parametrize(("limit", "period_us"), [(7, 1_000_000), (999_983, 1_000_000), (3, 1), (1_000_000, 7)])
def test_rate_does_not_drift(redis_server: Store, settable: None, limit: int, period_us: int) -> None:
    """n periods of hits at the maximum rate allow n times the limit, including the first burst."""
    rate = RateLimit("m", (limit, timedelta(microseconds=period_us)), deny_cache=False)
    clock = Clock(redis_server, "m", f"{limit}/{period_us}")
    key, allowed, periods = f"{limit}/{period_us}", 0, 40
    for _ in range(periods):
        while (left := rate.peek(key).remaining) > 0:
            allowed += left
            assert rate.hit(key, left)
        clock.advance(period_us)

    assert allowed == periods * limit


every_algorithm = pytest.mark.parametrize("algorithm", list(algorithms.ALGORITHMS))
DAY_US = 86_400_000_000


@every_algorithm
def test_limit_allows_again_after_its_period_when_the_clock_went_back(
    redis_server: Store, settable: None, algorithm: str
) -> None:
    limit = RateLimit("m", "2/m", algorithm=algorithm, deny_cache=False)
    clock = Clock(redis_server, "m", "a")
    limit.hit("a", 2)

    clock.advance(-DAY_US)
    denial = limit.hit("a")
    clock.advance(round(denial.retry_after * 1_000_000))

    assert not denial.is_allowed
    assert denial.retry_after <= 60
    assert limit.hit("a")


@every_algorithm
def test_unused_part_of_a_limit_stays_usable_when_the_clock_went_back(
    redis_server: Store, settable: None, algorithm: str
) -> None:
    limit = RateLimit("m", "5/d", algorithm=algorithm, deny_cache=False)
    clock = Clock(redis_server, "m", "a")
    limit.hit("a", 2)

    clock.advance(-DAY_US)

    assert [bool(limit.hit("a")) for _ in range(4)] == [True, True, True, False]


@every_algorithm
def test_first_hit_after_the_clock_went_back_shortens_the_ttl(
    redis_server: Store, settable: None, algorithm: str
) -> None:
    limit = RateLimit("m", "1/m", algorithm=algorithm, deny_cache=False, penalty=(9, 60))
    clock = Clock(redis_server, "m", "a")
    limit.hit("a")
    limit.hit("a")
    clock.advance(-DAY_US)
    counters = [key for key in [*redis_server.keys()] if not key.endswith(b":clock")]
    for key in counters:
        redis_server.raw.pexpire(key, DAY_US // 1000)  # a step of the server's clock lengthens every TTL

    limit.hit("a")

    assert len(counters) == 2
    assert all(redis_server.raw.pttl(key) <= 121_000 + LONGER_MS for key in counters)


@every_algorithm
def test_peek_is_right_when_the_clock_went_back(redis_server: Store, settable: None, algorithm: str) -> None:
    limit = RateLimit("m", "1/m", algorithm=algorithm, deny_cache=False)
    clock = Clock(redis_server, "m", "a")
    limit.hit("a")
    clock.advance(-DAY_US)

    first = limit.peek("a").retry_after
    clock.advance(20_000_000)
    second = limit.peek("a").retry_after
    clock.advance(round(second * 1_000_000))

    assert 0 < first <= 60
    assert second == pytest.approx(first - 20)
    assert limit.peek("a")
    assert limit.hit("a")


@every_algorithm
def test_peek_during_a_block_is_right_when_the_clock_went_back(
    redis_server: Store, settable: None, algorithm: str
) -> None:
    limit = RateLimit("m", "1/s", algorithm=algorithm, deny_cache=False, penalty=(1, 60))
    clock = Clock(redis_server, "m", "a")
    limit.hit("a")
    limit.hit("a")
    clock.advance(-DAY_US)

    assert limit.peek("a").retry_after == 60
    clock.advance(20_000_000)
    assert limit.peek("a").retry_after == 40


@every_algorithm
def test_page_writes_nothing_when_the_clock_went_back(redis_server: Store, settable: None, algorithm: str) -> None:
    limit = RateLimit("m", "1/m", algorithm=algorithm, deny_cache=False, penalty=(2, 60))
    clock = Clock(redis_server, "m", "a")
    limit.hit("a")
    clock.advance(-DAY_US)
    keys = [key for key in redis_server.raw.scan_iter(f"{redis_server.prefix}:*") if not key.endswith(b":clock")]
    before = [redis_server.raw.dump(key) for key in keys]

    found = run(client(), read_flow(limit, "a"))

    assert 0 < found.retry_after <= 60
    assert keys
    assert [redis_server.raw.dump(key) for key in keys] == before
    assert limit.peek("a").retry_after == found.retry_after


@every_algorithm
def test_block_ends_in_time_when_the_clock_went_back(redis_server: Store, settable: None, algorithm: str) -> None:
    limit = RateLimit("m", "1/s", algorithm=algorithm, deny_cache=False, penalty=(1, 60))
    clock = Clock(redis_server, "m", "a")
    limit.hit("a")
    assert limit.hit("a").is_blocked

    clock.advance(-DAY_US)
    denial = limit.hit("a")
    clock.advance(60_000_000)

    assert denial.is_blocked
    assert denial.retry_after <= 60
    assert not limit.hit("a").is_blocked


def test_denials_within_any_window_of_the_penalty_start_a_block(redis_server: Store, settable: None) -> None:
    limit = RateLimit("m", "1/h", deny_cache=False, penalty=(5, 3))
    clock = Clock(redis_server, "m", "a")
    limit.hit("a")
    limit.hit("a")  # a first denial long before the others, and within 3 seconds of the next three
    clock.advance(2_700_000)

    denials = []
    for _ in range(7):
        clock.advance(100_000)
        denials.append(limit.hit("a").is_blocked)

    # The first denial is 3.1 s old when the fourth of these comes: only the fifth is one of five within 3 s.
    assert denials == [False, False, False, False, True, True, True]


def test_denials_further_apart_than_the_penalty_start_no_block(redis_server: Store, settable: None) -> None:
    limit = RateLimit("m", "1/h", deny_cache=False, penalty=(3, 2))
    clock = Clock(redis_server, "m", "a")
    limit.hit("a")

    for _ in range(20):
        clock.advance(1_000_000)
        assert not limit.hit("a").is_blocked


def test_penalty_stores_no_more_denials_than_it_counts(redis_server: Store, settable: None) -> None:
    limit = RateLimit("m", "1/h", deny_cache=False, penalty=(5, 60))
    clock = Clock(redis_server, "m", "a")
    limit.hit("a")

    for _ in range(50):
        clock.advance(20_000_000)  # never five within a minute: nothing is blocked
        assert not limit.hit("a").is_blocked

    (key,) = [key for key in [*redis_server.keys()] if key.endswith(b":penalty")]
    assert redis_server.raw.llen(key) == 4
