"""Counters of a few bits: values, overflow, several in one call, and bounds."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import ConnectionError

from django_redis_components.analytics import BitCounters
from tests.support import Proxy, Store, run_async


@pytest.mark.contract
def test_counters_are_added_to_read_and_set(store: Store) -> None:
    levels = BitCounters("levels")

    assert [levels.incr(7), levels.incr(7, 3), levels.get(7), levels.get(8)] == [1, 4, 4, 0]
    assert levels.incr_many({7: 1, 8: 2, 1_000: 15}) == {7: 5, 8: 2, 1_000: 15}
    levels.set(8, 9)
    assert levels.get_many([8, 7, 8, 0]) == {8: 9, 7: 5, 0: 0}
    assert (levels.incr_many({}), levels.get_many([])) == ({}, {})
    [key] = store.keys()
    assert (store.raw.strlen(key), store.raw.pttl(key)) == (501, -1)


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    levels = BitCounters("levels")

    async def scene() -> list[object]:
        found = [await levels.aincr(1), await levels.aincr_many({1: 1, 2: 5})]
        await levels.aset(2, 7)
        return [*found, await levels.aget(2), await levels.aget_many([1, 2])]

    assert run_async(scene) == [1, {1: 2, 2: 5}, 7, {1: 2, 2: 7}]


@pytest.mark.parametrize(
    ("signed", "overflow", "by", "value", "stored"),
    [
        (False, "wrap", 5, 1, 1),
        (False, "sat", 5, 15, 15),
        (False, "fail", 5, None, 12),
        (False, "sat", -100, 0, 0),
        (True, "wrap", 8, -4, -4),
        (True, "sat", 8, 7, 7),
        (True, "fail", 8, None, 4),
        (True, "sat", -100, -8, -8),
    ],
)
def test_overflow_does_what_was_declared(
    redis_server: Store, signed: bool, overflow: Any, by: int, value: int | None, stored: int
) -> None:
    counters = BitCounters("c", bits=4, signed=signed, overflow=overflow)
    counters.set(3, 4 if signed else 12)

    assert counters.incr(3, by) == value
    assert counters.get(3) == stored


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 63),
    st.booleans(),
    st.sampled_from(["wrap", "sat", "fail"]),
    st.lists(st.tuples(st.integers(0, 9), st.integers(-(2**40), 2**40)), max_size=12),
)
def test_any_changes_equal_a_model(
    redis_server: Store, bits: int, signed: bool, overflow: Any, changes: list[tuple[int, int]]
) -> None:
    redis_server.raw.unlink(*(redis_server.keys() or [b"none"]))
    counters, model = BitCounters("c", bits=bits, signed=signed, overflow=overflow), dict.fromkeys(range(10), 0)
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    for index, by in changes:
        wanted = model[index] + by
        fits = least <= wanted <= most
        if not fits and overflow == "wrap":
            wanted = (wanted - least) % (2**bits) + least
        elif not fits:
            wanted = model[index] if overflow == "fail" else min(max(wanted, least), most)
        model[index] = wanted

        assert counters.incr(index, by) == (None if not fits and overflow == "fail" else wanted)
    assert counters.get_many(range(10)) == model


@pytest.mark.contract
def test_deleted_counters_are_zero(store: Store) -> None:
    BitCounters("c").incr(7)

    assert (BitCounters("c").delete(), BitCounters("c").delete()) == (True, False)

    assert store.keys() == []
    assert run_async(lambda: BitCounters("c").adelete()) is False


def test_addition_with_a_lost_reply_raises_and_is_not_repeated(proxy: Proxy) -> None:
    counters = BitCounters("c", using="proxied")
    counters.incr(1)
    proxy.drop_next_reply(after=b"{c}")

    with pytest.raises(ConnectionError):
        counters.incr(1)

    assert counters.get(1) == 2


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: BitCounters("a", bits=64), "bits=64: expected an integer from 1 to 63."),
        (lambda: BitCounters("a", bits=65, signed=True), "bits=65: expected an integer from 1 to 64."),
        (lambda: BitCounters("a", overflow="x"), "overflow='x': expected one of 'wrap', 'sat', 'fail'."),
        (lambda: BitCounters("a").incr(2**32), f"index={2**32}: expected an integer from 0 to 134217727 (64 MiB)."),
        (lambda: BitCounters("a").incr(-1), "index=-1: expected an integer from 0 to 134217727 (64 MiB)."),
        (
            lambda: BitCounters("a").incr(1, 2**63),
            f"by={2**63}: expected an integer from -9223372036854775808 to 9223372036854775807.",
        ),
        (lambda: BitCounters("a").set(1, 16), "value=16: expected an integer from 0 to 15."),
        (lambda: BitCounters("a").get_many(1), "indexes=1: expected an iterable of integers."),
        (lambda: BitCounters("a").get_many(range(1_001)), "1001 counters: expected at most 1000 in one call."),
    ],
)
def test_invalid_arguments_raise_with_the_reason(redis_server: Store, call: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(problem)}$"):
        call()

    assert redis_server.keys() == []
