"""Count-min sketches: never too small, the bound of the error, stored sizes, lost replies."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import ConnectionError

from django_redis_components.bloom import CountMinInfo, CountMinPlan, CountMinSketch, SketchMismatch
from tests.support import Proxy, Store, run_async, run_together


def sketch_key(store: Store, name: str = "s") -> str:
    return f"{store.prefix}:bloom:{{{name}}}:cm1"


@pytest.mark.contract
def test_counts_of_few_items_are_exact(store: Store) -> None:
    sketch = CountMinSketch("s")

    assert [sketch.add("anna"), sketch.add("anna", 4), sketch.add(b"anna"), sketch.add(7), sketch.add("7")] == [
        1, 5, 6, 1, 2,
    ]  # fmt: skip
    assert [sketch.count("anna"), sketch.count("7"), sketch.count(UUID(int=1))] == [6, 2, 0]
    assert sketch.add_many({"a": 3, "b": 2}) == [3, 2]
    assert sketch.add_many(["a", "a", "b"]) == [4, 5, 3]
    assert sketch.count_many(["a", "b", "c"]) == [5, 3, 0]
    assert sketch.info() == CountMinInfo("s", 2_719, 5, 54_396, 16, 0)
    assert store.raw.strlen(sketch_key(store)) == 54_396
    assert store.raw.ttl(sketch_key(store)) == -1
    sketch.delete()
    assert store.keys() == []


@pytest.mark.contract
def test_async_twins_behave_like_the_sync_methods(store: Store) -> None:
    async def use() -> tuple[object, ...]:
        sketch = CountMinSketch("s")
        found = (
            await sketch.aadd("a", 2),
            await sketch.aadd_many(["a", "b"]),
            await sketch.acount("a"),
            await sketch.acount_many({"b": 1}),
            (await sketch.ainfo()).total,
        )
        await sketch.adelete()
        return found

    assert run_async(use) == (2, [3, 1], 3, [1], 4)
    assert store.keys() == []


def test_sketch_that_does_not_exist_counts_zero(redis_server: Store) -> None:
    sketch = CountMinSketch("s")

    assert (sketch.count("a"), sketch.count_many([]), sketch.add_many([])) == (0, [], [])
    assert sketch.info() == CountMinInfo("s", 2_719, 5, 0, 0, 0)
    assert redis_server.keys() == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 1_000)), max_size=80), st.booleans())
def test_no_estimate_is_too_small(redis_server: Store, added: list[tuple[int, int]], together: bool) -> None:
    redis_server.delete_keys()
    sketch = CountMinSketch("s", error=0.1, probability=0.3)  # 28 counters in 2 rows: many collisions
    model: Counter[int] = Counter()
    for item, count in added:
        model[item] += count
    if together:
        sketch.add_many(model)
    else:
        for item, count in added:
            assert sketch.add(item, count) >= count

    found = dict(zip(range(61), sketch.count_many(range(61)), strict=True))

    assert all(found[item] >= model[item] for item in found)
    assert sketch.info().total == sum(model.values())
    assert all(sketch.count(item) == found[item] for item in (0, 30, 60)), "one item as in a batch"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_error_is_within_its_bound_with_the_declared_probability(redis_server: Store, seed: int) -> None:
    source, items = random.Random(seed), range(6_000)
    weights = [1 / (item + 1) ** 0.6 for item in items]
    model = Counter(source.choices(items, weights, k=40_000))
    sketch = CountMinSketch("s", error=0.005, probability=0.02)
    sketch.add_many(model)

    errors = [found - model[item] for item, found in zip(items, sketch.count_many(items), strict=True)]

    bound = sketch.info().max_error
    assert bound == 200
    assert min(errors) >= 0
    beyond = sum(error > bound for error in errors) / len(errors)
    assert beyond <= 0.02, "the declared probability"
    # e / error counters in a row: the smallest of 4 has about the expected error of the best of 4 rows, not of one.
    assert sum(errors) / len(errors) < 40_000 / 544


def test_rows_are_independent(redis_server: Store) -> None:
    """Two items that share a counter in one row must rarely share those of all rows."""
    sketch = CountMinSketch("s", error=0.02, probability=0.01)  # 136 counters in 5 rows
    sketch.add("heavy", 1_000_000)

    found = sketch.count_many(range(20_000))

    # 5 / 136 of the items share one of the counters with it; all five: none is expected, of 20,000 / 136**2 about 1.
    assert sum(count > 0 for count in found) <= 5


def test_counter_stays_at_its_maximum(redis_server: Store) -> None:
    sketch = CountMinSketch("s")
    sketch.add("a", 2**32 - 1)

    assert sketch.add("a", 2**32 - 1) == sketch.count("a") == 2**32 - 1
    assert sketch.info().total == 2 * (2**32 - 1)


def test_concurrent_additions_are_all_counted(redis_server: Store) -> None:
    run_together(8, lambda number: CountMinSketch("s").add_many(["shared"] * 200 + [f"own {number}"] * 10))

    sketch = CountMinSketch("s")
    assert sketch.count("shared") == 1_600
    assert sketch.count_many(f"own {number}" for number in range(8)) == [10] * 8


def test_more_items_than_a_chunk_are_counted(redis_server: Store) -> None:
    sketch = CountMinSketch("s", error=1e-5)

    assert sketch.add_many(range(2_500)) == [1] * 2_500
    assert sketch.count_many(range(2_500)) == [1] * 2_500


def test_timeout_counts_from_each_addition(redis_server: Store) -> None:
    CountMinSketch("s", ttl=timedelta(minutes=5)).add("a")

    assert 290_000 < redis_server.raw.pttl(sketch_key(redis_server)) <= 300_000


@pytest.mark.contract
def test_other_size_raises_and_changes_nothing(store: Store) -> None:
    CountMinSketch("s").add("a")
    other = CountMinSketch("s", error=0.1, probability=0.1)
    problem = re.escape(
        "Count-min sketch 's' was created with width=2719, depth=5, not width=28, depth=3. Use the same parameters, or"
        " delete it."
    )

    calls: list[Any] = [
        lambda: other.add("a"), lambda: other.add_many(["a"]), lambda: other.count("a"), other.info,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(SketchMismatch, match=f"^{problem}$"):
            call()

    assert (CountMinSketch("s").count("a"), CountMinSketch("s").info().total) == (1, 1)


def test_lost_reply_of_an_addition_raises_and_counts_once(proxy: Proxy, redis_server: Store) -> None:
    CountMinSketch("s").add("a")
    proxy.drop_next_reply(after=b":cm1")

    with pytest.raises(ConnectionError):
        CountMinSketch("s", using="proxied").add("a")

    assert proxy.dropped == 1
    assert CountMinSketch("s").count("a") == 2


def test_lost_reply_of_a_count_is_repeated(proxy: Proxy, redis_server: Store) -> None:
    CountMinSketch("s").add("a")
    proxy.drop_next_reply(after=b":cm1")

    assert CountMinSketch("s", using="proxied").count("a") == 1
    assert proxy.dropped == 1


def test_unavailable_redis_raises() -> None:
    with pytest.raises(ConnectionError):
        CountMinSketch("s").add("a")


def test_plan_is_that_of_the_paper() -> None:
    assert CountMinSketch.plan(0.001, 0.01) == CountMinPlan(2_719, 5)
    for error, probability in ((0.5, 0.5), (0.01, 1e-9), (1e-6, 0.1)):
        plan = CountMinSketch.plan(error, probability)
        assert math.e / plan.width <= error
        assert math.exp(-plan.depth) <= probability
    assert CountMinSketch.plan(0.001, 0.01).bytes == 54_396


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: CountMinSketch(""), "sketch name is empty: expected 1 to 200 bytes of text."),
        (lambda: CountMinSketch("s", error=0), "error=0: expected a number from 1e-07 to 0.5."),
        (lambda: CountMinSketch("s", error="x"), "error='x': expected a number from 1e-07 to 0.5."),  # type: ignore[arg-type]
        (lambda: CountMinSketch("s", probability=0.6), "probability=0.6: expected a number from 1e-09 to 0.5."),
        (
            lambda: CountMinSketch("s", error=1e-7),
            "error=1e-07, probability=0.01: 543,656,396 bytes, expected at most 67,108,864.",
        ),
        (lambda: CountMinSketch("s").add("a", 0), "count=0: expected an integer from 1 to 4294967295."),
        (lambda: CountMinSketch("s").add("a", 2**32), "count=4294967296: expected an integer from 1 to 4294967295."),
        (lambda: CountMinSketch("s").add("a", True), "count=True: expected an integer from 1 to 4294967295."),
        (lambda: CountMinSketch("s").add(None), "item=None: expected a string, bytes, an integer or a UUID."),  # type: ignore[arg-type]
        (lambda: CountMinSketch("s").add_many("abc"), "items='abc': expected an iterable of items."),
        (lambda: CountMinSketch("s").count_many("abc"), "items='abc': expected an iterable of items."),
    ],
)
def test_invalid_arguments_raise_with_the_reason(redis_server: Store, call: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(problem)}$"):
        call()

    assert redis_server.keys() == []
