"""Top lists: exact while there is room, the bounds of Space-Saving beyond, stored parameters, lost replies."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import ConnectionError

from django_redis_components.bloom import SketchMismatch, TopItem, TopK, TopKInfo
from tests.support import Proxy, Store, run_async, run_together


@pytest.mark.contract
def test_counts_are_exact_while_there_is_room(store: Store) -> None:
    searches = TopK("s", 2)

    assert [searches.add("lamp"), searches.add("lamp", 4), searches.add("Stuhl äöü"), searches.add(7)] == [1, 5, 1, 1]
    assert searches.add_many({"7": 2, UUID(int=1): 1}) == [3, 1]
    assert searches.add_many(["7", "7"]) == [4, 5]

    assert searches.top() == [TopItem("lamp", 5, 0), TopItem("7", 5, 0)]
    assert searches.top(limit=3)[2:] == [TopItem("Stuhl äöü", 1, 0)]
    assert searches.info() == TopKInfo("s", 20, 4, 12, 0)
    assert all(store.raw.ttl(key) == -1 for key in store.keys())  # noqa: SIM118 - a Store is no dict
    searches.delete()
    assert store.keys() == []


@pytest.mark.contract
def test_item_without_a_counter_takes_the_smallest(store: Store) -> None:
    searches = TopK("s", 1, counters=2)
    searches.add_many({"a": 10, "b": 3})

    assert searches.add("c") == 4

    assert searches.top(limit=2) == [TopItem("a", 10, 0), TopItem("c", 4, 3)]
    assert searches.add("b") == 5
    assert searches.top(limit=2) == [TopItem("a", 10, 0), TopItem("b", 5, 4)]
    assert searches.info() == TopKInfo("s", 2, 2, 15, 5)
    assert store.raw.hlen(f"{store.prefix}:bloom:{{s}}:tk1:errors") == 1


@pytest.mark.contract
def test_async_twins_behave_like_the_sync_methods(store: Store) -> None:
    async def use() -> tuple[object, ...]:
        searches = TopK("s", 1)
        found = (
            await searches.aadd("a", 2),
            await searches.aadd_many(["a", "b"]),
            await searches.atop(),
            (await searches.ainfo()).total,
        )
        await searches.adelete()
        return found

    assert run_async(use) == (2, [3, 1], [TopItem("a", 3, 0)], 4)
    assert store.keys() == []


def test_list_that_does_not_exist_is_empty(redis_server: Store) -> None:
    searches = TopK("s", 3)

    assert (searches.top(), searches.add_many([]), searches.info()) == ([], [], TopKInfo("s", 30, 0, 0, 0))
    assert redis_server.keys() == []


def check_bounds(searches: TopK, model: Counter[str]) -> None:
    """Check what the paper proves, for all counters."""
    info = searches.info()
    found = {each.item: each for each in searches.top(limit=searches.counters)}
    assert info.total == sum(model.values())
    assert info.max_error <= info.total / searches.counters
    for item, each in found.items():
        assert each.count - each.error <= model[item] <= each.count
        assert each.error <= info.max_error
    for item, count in model.items():
        assert item in found or count <= info.max_error
    counts = [each.count for each in searches.top(limit=searches.counters)]
    assert counts == sorted(counts, reverse=True)
    if len(model) <= searches.counters:
        assert {item: each.count for item, each in found.items()} == dict(model)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("abcdefghij"), st.integers(1, 50)), max_size=60), st.integers(1, 12))
def test_bounds_hold_for_any_order(redis_server: Store, added: list[tuple[str, int]], counters: int) -> None:
    redis_server.delete_keys()
    searches, model = TopK("s", 1, counters=counters), Counter[str]()
    for item, count in added:
        searches.add(item, count)
        model[item] += count

    check_bounds(searches, model)


@pytest.mark.parametrize("seed", [1, 2])
def test_most_frequent_items_of_a_skewed_stream_are_found(redis_server: Store, seed: int) -> None:
    source = random.Random(seed)
    items = [f"item {number}" for number in range(5_000)]
    stream = source.choices(items, [1 / (number + 1) for number in range(5_000)], k=50_000)
    searches = TopK("s", 10)  # 100 counters

    searches.add_many(stream)

    model = Counter(stream)
    check_bounds(searches, model)
    assert {each.item for each in searches.top()} == {item for item, _ in model.most_common(10)}
    assert redis_server.raw.zcard(f"{redis_server.prefix}:bloom:{{s}}:tk1:counts") == 100
    assert redis_server.raw.hlen(f"{redis_server.prefix}:bloom:{{s}}:tk1:errors") <= 100


def test_concurrent_additions_are_all_counted(redis_server: Store) -> None:
    run_together(8, lambda number: TopK("s", 2).add_many([f"own {number}", "shared"] * 100))

    searches = TopK("s", 2)
    assert searches.top(limit=1) == [TopItem("shared", 800, 0)]
    assert searches.info().total == 1_600


def test_timeout_counts_from_each_addition(redis_server: Store) -> None:
    searches = TopK("s", 1, counters=1, ttl=300)
    searches.add_many(["a", "b"])

    keys = redis_server.keys()
    assert len(keys) == 3
    assert all(290_000 < redis_server.raw.pttl(key) <= 300_000 for key in keys)


@pytest.mark.contract
def test_other_number_of_counters_raises_and_changes_nothing(store: Store) -> None:
    TopK("s", 1).add("a")
    other = TopK("s", 1, counters=11)
    problem = "Top list 's' was created with counters=10, not counters=11. Use the same parameters, or delete it."

    calls: list[Any] = [lambda: other.add("a"), lambda: other.add_many(["a"]), other.top, other.info]
    for call in calls:
        with pytest.raises(SketchMismatch, match=f"^{re.escape(problem)}$"):
            call()

    assert TopK("s", 1).top() == [TopItem("a", 1, 0)]
    assert TopK("s", 2, counters=10).top() == [TopItem("a", 1, 0)], "the length of the answer is not stored"


def test_lost_reply_of_an_addition_raises_and_counts_once(proxy: Proxy, redis_server: Store) -> None:
    TopK("s", 1).add("a")
    proxy.drop_next_reply(after=b":tk1")

    with pytest.raises(ConnectionError):
        TopK("s", 1, using="proxied").add("a")

    assert proxy.dropped == 1
    assert TopK("s", 1).top() == [TopItem("a", 2, 0)]


def test_lost_reply_of_a_read_is_repeated(proxy: Proxy, redis_server: Store) -> None:
    TopK("s", 1).add("a")
    proxy.drop_next_reply(after=b":tk1")

    assert TopK("s", 1, using="proxied").top() == [TopItem("a", 1, 0)]
    assert proxy.dropped == 1


def test_unavailable_redis_raises() -> None:
    with pytest.raises(ConnectionError):
        TopK("s", 1).add("a")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: TopK("", 1), "list name is empty: expected 1 to 200 bytes of text."),
        (lambda: TopK("s", 0), "k=0: expected an integer from 1 to 10000."),
        (lambda: TopK("s", True), "k=True: expected an integer from 1 to 10000."),
        (lambda: TopK("s", 5, counters=4), "counters=4: expected an integer from 5 to 100000."),
        (lambda: TopK("s", 1).add(""), "item='': expected 1 to 500 bytes of text, got 0."),
        (lambda: TopK("s", 1).add("é" * 251), f"item='{'é' * 99}…: expected 1 to 500 bytes of text, got 502."),
        (lambda: TopK("s", 1).add("\ud800"), "item='\\ud800': expected text that UTF-8 can encode."),
        (lambda: TopK("s", 1).add(b"a"), "item=b'a': expected a string, an integer or a UUID."),  # type: ignore[arg-type]
        (lambda: TopK("s", 1).add("a", 0), "count=0: expected an integer from 1 to 4294967295."),
        (lambda: TopK("s", 1).add_many("abc"), "items='abc': expected an iterable of items."),
        (lambda: TopK("s", 1).top(limit=11), "limit=11: expected an integer from 1 to 10."),
    ],
    ids=range(11),
)
def test_invalid_arguments_raise_with_the_reason(redis_server: Store, call: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(problem)}$"):
        call()

    assert redis_server.keys() == []
