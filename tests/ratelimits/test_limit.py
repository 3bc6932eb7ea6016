"""A rate limit on every kind of server."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import time
from datetime import timedelta
from typing import Any

import pytest

from django_redis_components.ratelimits import Decision, RateLimit, clear_denial_cache, rate_limited
from django_redis_components.ratelimits.algorithms import ALGORITHMS
from django_redis_components.ratelimits.denials import DENIALS
from tests.ratelimits.redis_keys import base_key
from tests.support import Store, eventually, run_async
from tests.support.raising_logs import raising_logs

every_algorithm = pytest.mark.parametrize("algorithm", list(ALGORITHMS))

#: Methods that send requests, and their asyncio twins.
TWINS = {name: f"a{name}" for name in ("hit", "peek", "refund", "reset", "block", "unblock")}


@every_algorithm
def test_hits_are_allowed_up_to_the_limit(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "3/h", algorithm=algorithm)

    decisions = [limit.hit("ada") for _ in range(5)]

    assert [decision.is_allowed for decision in decisions] == [True, True, True, False, False]
    assert [decision.remaining for decision in decisions] == [2, 1, 0, 0, 0]
    assert {decision.limit for decision in decisions} == {3}
    assert [decision.retry_after > 0 for decision in decisions] == [False, False, False, True, True]


@every_algorithm
def test_keys_are_limited_separately(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "1/h", algorithm=algorithm)

    assert [bool(limit.hit(key)) for key in ("ada", "bob", 7, b"raw", "ada")] == [True, True, True, True, False]


@every_algorithm
def test_hit_denied_by_one_rate_writes_nothing(store: Store, algorithm: str) -> None:
    limit = RateLimit("search", "5/m", "2/h", algorithm=algorithm, deny_cache=False)
    assert limit.hit("ada", 2)
    stored = {key: store.raw.dump(key) for key in [*store.keys()]}
    assert len(stored) == 2

    denied = limit.hit("ada")

    assert not denied
    assert (denied.limit, denied.remaining) == (2, 0)
    assert {key: store.raw.dump(key) for key in [*store.keys()]} == stored


@every_algorithm
def test_denied_hit_leaves_the_remaining_limit_to_cheaper_hits(store: Store, algorithm: str) -> None:
    limit = RateLimit("search", "5/h", algorithm=algorithm)
    limit.hit("ada", 3)

    assert [bool(limit.hit("ada", cost)) for cost in (3, 2, 1)] == [False, True, False]


@every_algorithm
def test_peek_counts_nothing(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "1/h", algorithm=algorithm)

    assert [limit.peek("ada").remaining for _ in range(3)] == [1, 1, 1]
    assert store.keys() == []
    limit.hit("ada")
    assert not limit.peek("ada")


@every_algorithm
def test_refund_never_exceeds_what_was_used(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "5/h", "7/d", algorithm=algorithm)
    limit.hit("ada", 3)

    limit.refund("ada", 2)
    assert limit.peek("ada").remaining == 4
    limit.refund("ada", 5)

    assert limit.peek("ada").remaining == 5


@pytest.mark.contract
@every_algorithm
def test_reset_deletes_counts_and_block(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "1/h", "2/d", algorithm=algorithm, penalty=(1, 3600))
    limit.hit("ada")
    assert limit.hit("ada").is_blocked

    limit.reset("ada")

    assert store.keys() == []
    assert limit.hit("ada")


@every_algorithm
def test_every_key_has_a_ttl(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", "2/h", "5/d", algorithm=algorithm, penalty=(9, 60), deny_cache=False)
    for _ in range(3):
        limit.hit("ada")

    lives = {key.rpartition(b"}:")[2].decode(): store.raw.pttl(key) for key in [*store.keys()]}

    most = {f"{algorithm}:2/3600000000": 3_600_000, f"{algorithm}:5/86400000000": 86_400_000, "penalty": 60_000}
    assert lives.keys() == most.keys()
    assert all(0 < lives[name] <= most[name] + 1 for name in most)


@every_algorithm
def test_limit_allows_again_after_its_period(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", (1, 0.02), algorithm=algorithm)
    limit.hit("ada")

    eventually(lambda: bool(limit.hit("ada")))


def test_gcra_key_expires_when_the_full_limit_is_available(store: Store) -> None:
    limit = RateLimit("login", "6/m")

    limit.hit("ada")

    assert all(0 < store.raw.pttl(key) <= 10_001 for key in [*store.keys()])


@pytest.mark.parametrize("algorithm", ["gcra", "fixed"])
def test_key_of_a_fast_rate_is_kept_for_a_second(store: Store, algorithm: str) -> None:
    limit = RateLimit("login", (1_000_000, 1), (1, 0.001), algorithm=algorithm)

    limit.hit("ada")

    assert all(900 < store.raw.pttl(key) <= 1_001 for key in [*store.keys()])


def test_redis_keys_of_one_limit_key_share_a_slot_of_their_own(store: Store) -> None:
    limit = RateLimit("login", "5/m", "9/h", penalty=(9, 60))
    limit.hit("ada")
    limit.hit("bob")

    tags = {key[key.index(b"{") : key.index(b"}") + 1] for key in [*store.keys()]}

    assert len(store.keys()) == 4
    assert len(tags) == 2
    assert all(tag.startswith(b"{login:") and b"ada" not in tag for tag in tags)


@pytest.mark.parametrize("key", ["", "{}", "\0\n", "x" * 10_000, "\udc80", "用户", b"\xff", -1])
def test_any_text_is_accepted_as_a_key(redis_server: Store, key: Any) -> None:
    limit = RateLimit("login", "1/h")

    assert [bool(limit.hit(key)), bool(limit.hit(key))] == [True, False]


@pytest.mark.contract
@every_algorithm
def test_large_cost_is_counted_in_full(store: Store, algorithm: str) -> None:
    limit = RateLimit("bytes", "10000/h", algorithm=algorithm)

    assert limit.hit("ada", 4_321).remaining == 5_679
    assert not limit.hit("ada", 6_000)
    limit.refund("ada", 4_000)
    assert limit.hit("ada", 9_679)


def test_denials_start_a_block_that_hits_do_not_extend(store: Store) -> None:
    limit = RateLimit("login", "1/s", penalty=(3, 3600), deny_cache=False)
    limit.hit("ada", 1)
    denials = []
    while not denials or not denials[-1].is_blocked:
        decision = limit.hit("ada")
        if not decision:
            denials.append(decision)

    assert [denial.is_blocked for denial in denials] == [False, False, True]
    assert denials[-1].retry_after == 3600
    (key,) = [key for key in [*store.keys()] if key.endswith(b"penalty")]
    before = store.raw.dump(key)
    assert limit.hit("ada").is_blocked
    assert limit.peek("ada").is_blocked
    assert store.raw.dump(key) == before


def test_denials_of_peek_and_of_waiting_hits_do_not_count_towards_the_penalty(redis_server: Store) -> None:
    limit = RateLimit("login", "1/h", penalty=(1, 3600))
    limit.hit("ada")

    assert not limit.peek("ada").is_blocked
    assert not limit.hit("ada", timeout=1).is_blocked
    assert limit.hit("ada", timeout=timedelta(0)).is_blocked
    assert limit.hit("ada", timeout=1).is_blocked


@every_algorithm
def test_hit_with_a_timeout_returns_an_allowed_hit_within_the_timeout(store: Store, algorithm: str) -> None:
    limit = RateLimit("api", (1, 0.02), algorithm=algorithm)
    limit.hit("ada")

    assert limit.hit("ada", timeout=10)


def test_hit_denies_at_once_if_the_timeout_is_too_short(redis_server: Store) -> None:
    limit = RateLimit("api", "1/h")
    limit.hit("ada")

    decision = limit.hit("ada", timeout=60)

    assert not decision
    assert 3000 < decision.retry_after <= 3600


def test_every_method_has_an_async_twin_with_the_same_arguments() -> None:
    for name, twin_name in TWINS.items():
        method, twin = getattr(RateLimit, name), getattr(RateLimit, twin_name)

        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(method).parameters.keys() == inspect.signature(twin).parameters.keys()


@every_algorithm
def test_async_twins_behave_like_the_sync_methods(store: Store, algorithm: str) -> None:
    async def main() -> None:
        limit = RateLimit("api", "2/h", (2, 0.5), algorithm=algorithm)
        assert (await limit.ahit("ada", 2)).remaining == 0
        assert not await limit.apeek("ada")
        await limit.arefund("ada")
        assert (await limit.apeek("ada")).remaining == 1
        await limit.areset("ada")
        assert (await limit.apeek("ada")).remaining == 2
        assert await limit.ahit("ada", timeout=10)

    run_async(main)


def test_concurrent_tasks_share_one_object(store: Store) -> None:
    async def main() -> int:
        limit = RateLimit("api", "7/h")
        return sum(map(bool, await asyncio.gather(*(limit.ahit("ada") for _ in range(30)))))

    assert run_async(main) == 7


@every_algorithm
def test_flushed_scripts_are_loaded_again(store: Store, algorithm: str) -> None:
    limit = RateLimit("api", "3/h", algorithm=algorithm, deny_cache=False)
    for _ in range(3):
        store.raw.script_flush()
        assert limit.hit("ada")
    store.raw.script_flush()
    assert not limit.hit("ada")
    store.raw.script_flush()
    limit.refund("ada")
    assert limit.peek("ada").remaining == 1


class Receiver:
    """A receiver that fails. It has no `__qualname__`, which Django's error log reads."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []

    def __call__(self, **arguments: Any) -> None:
        self.received.append(arguments)
        raise ZeroDivisionError


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_receiver_and_logging_that_raise_change_no_decision(redis_server: Store, is_async: bool) -> None:
    limit, receiver = RateLimit("api", "1/h"), Receiver()
    rate_limited.connect(receiver)
    try:
        with raising_logs(name=""):
            decisions = [run_async(limit.ahit, "ada") if is_async else limit.hit("ada") for _ in range(3)]
    finally:
        rate_limited.disconnect(receiver)

    assert [bool(decision) for decision in decisions] == [True, False, False]
    assert len(receiver.received) == 2


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_signal_is_sent_for_every_denial_cached_ones_included(redis_server: Store, is_async: bool) -> None:
    limit, receiver = RateLimit("api", "1/h"), Receiver()
    rate_limited.connect(receiver)
    try:
        hit = (lambda: run_async(limit.ahit, "ada")) if is_async else (lambda: limit.hit("ada"))
        decisions = [hit() for _ in range(3)]
        decisions.append(run_async(lambda: limit.ahit("ada", timeout=1)) if is_async else limit.hit("ada", timeout=1))
    finally:
        rate_limited.disconnect(receiver)

    assert [bool(decision) for decision in decisions] == [True, False, False, False]
    assert [arguments["decision"] for arguments in receiver.received] == decisions[1:]
    first = receiver.received[0]
    assert (first["sender"], first["limit"], first["key"], first["request"]) == (RateLimit, limit, "ada", None)


def test_decision_is_true_if_allowed() -> None:
    assert Decision(True, 1, 0, 0.0, 0.0)
    assert not Decision(False, 1, 1, 1.0, 1.0)


def test_repr_is_the_class_and_the_name() -> None:
    assert repr(RateLimit("api", "5/m")) == "<RateLimit 'api'>"


def test_rates_have_a_short_text() -> None:
    limit = RateLimit("api", "5/m", (3, 7200), (1, 0.5), (2, 90), "1/d")

    assert limit.policy.rates == ("5/m", "3/2h", "1/0.5s", "2/90s", "1/d")


def test_denials_are_cached_until_they_expire(redis_server: Store) -> None:
    limit = RateLimit("api", "2/h")
    other = RateLimit("api", "2/h")
    limit.hit("ada", 2)
    commands = redis_server.raw.info("commandstats")["cmdstat_evalsha"]["calls"]

    denials = [limit.hit("ada"), limit.hit("ada"), other.hit("ada"), limit.peek("ada")]

    assert not any(denials)
    assert redis_server.raw.info("commandstats")["cmdstat_evalsha"]["calls"] == commands + 1
    assert [denial.retry_after for denial in denials] == sorted((d.retry_after for d in denials), reverse=True)


@pytest.mark.parametrize("operation", ["refund", "reset"])
def test_refund_and_reset_remove_cached_denials_of_this_process(redis_server: Store, operation: str) -> None:
    limit = RateLimit("api", "1/h")
    limit.hit("ada")
    assert not limit.hit("ada")

    getattr(RateLimit("api", "1/h"), operation)("ada")

    assert limit.hit("ada")


def test_denial_requested_before_a_refund_is_not_cached(redis_server: Store) -> None:
    limit = RateLimit("api", "1/h")
    limit.hit("ada")
    epoch = DENIALS.epoch
    late = limit.peek("ada")
    limit.refund("ada")

    key, limit_and_cost = base_key("api", "ada"), ("default:gcra:1/3600000000:0/0", 1)
    DENIALS.store(key, limit_and_cost, late, time.monotonic(), epoch)

    assert DENIALS.get(key, limit_and_cost) is None
    assert limit.hit("ada")


def test_clear_denial_cache_removes_the_denials_of_this_process(redis_server: Store) -> None:
    limit = RateLimit("api", "1/h")
    limit.hit("ada")
    assert not limit.hit("ada")
    redis_server.delete_keys()
    assert not limit.hit("ada")

    clear_denial_cache()

    assert limit.hit("ada")


def test_cached_denial_does_not_deny_a_cheaper_hit(redis_server: Store) -> None:
    limit = RateLimit("api", "3/h")
    limit.hit("ada", 1)
    assert not limit.hit("ada", 3)

    assert limit.hit("ada", 2)


def test_denials_before_a_block_are_counted_by_the_server(redis_server: Store) -> None:
    limit = RateLimit("api", "1/h", penalty=(3, 60))
    limit.hit("ada")

    denials = [limit.hit("ada") for _ in range(4)]

    assert [denial.is_blocked for denial in denials] == [False, False, True, True]
    assert denials[3].retry_after < 60


def test_every_hit_is_sent_without_the_deny_cache(redis_server: Store) -> None:
    limit = RateLimit("api", "1/h", deny_cache=False)
    limit.hit("ada")
    assert not limit.hit("ada")
    redis_server.delete_keys()

    assert limit.hit("ada")


def test_pickled_limit_shares_the_counts(redis_server: Store) -> None:
    limit = RateLimit("login", "2/h")
    limit.hit("ann")

    another = pickle.loads(pickle.dumps(limit))  # noqa: S301 - what this test has dumped

    assert [another.hit("ann").is_allowed for _ in range(2)] == [True, False]
    assert not copy.deepcopy(limit).peek("ann").is_allowed
