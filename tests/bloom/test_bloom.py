"""Bloom filters: no false "no", a known rate of false "yes", growth, races, lost replies and rebuilds."""

from __future__ import annotations

import itertools
import math
import re
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import ConnectionError

from django_redis_components.bloom import BloomFilter, FilterMismatch, plans
from django_redis_components.bloom.plans import MAX_BITS, layers
from django_redis_components.bloom.scripts import ADD
from django_redis_components.exceptions import RebuildSuperseded
from tests.support import Proxy, Store, run_async, run_together


@pytest.mark.contract
def test_added_items_are_found_and_were_new_once(store: Store) -> None:
    seen = BloomFilter("urls", 1_000, error_rate=0.001)

    assert not seen.contains("a")
    assert [seen.add("a"), seen.add("a"), seen.add("b")] == [True, False, True]
    assert seen.add_many(["b", "c", "c", "d"]) == [False, True, False, True]
    assert seen.contains_many(["a", "b", "c", "d", "e"]) == [True, True, True, True, False]
    assert seen.info().items == 4


def test_missing_filter_answers_with_the_default(redis_server: Store) -> None:
    seen = BloomFilter("urls", 100)

    assert [seen.contains(1), seen.contains(1, default=True)] == [False, True]
    seen.add(1)
    assert seen.contains_many([1, 2], default=True) == [True, False]


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    seen = BloomFilter("urls", 1_000, error_rate=0.001)

    async def scene() -> list[object]:
        found = [
            await seen.acontains("a"),
            await seen.aadd("a"),
            await seen.aadd_many(["a", "b"]),
            await seen.acontains_many(["a", "b", "c"]),
        ]
        found.append(await seen.arebuild(["c"]))
        found += [await seen.acontains_many(["a", "c"]), (await seen.ainfo()).items]
        found.append(await seen.adelete())
        return [*found, await seen.acontains("c")]

    assert run_async(scene) == [False, True, [False, True], [True, True, False], 1, [False, True], 1, True, False]


@pytest.mark.parametrize(("one", "other"), [(7, "7"), ("a", b"a"), (UUID(int=7), str(UUID(int=7)))])
def test_items_of_other_types_are_their_text(redis_server: Store, one: Any, other: Any) -> None:
    seen = BloomFilter("urls", 100)

    seen.add(one)

    assert seen.contains(other)


@pytest.mark.contract
def test_filter_grows_by_layers_and_keeps_its_error_rate(store: Store) -> None:
    seen = BloomFilter("urls", 500, error_rate=0.01)

    added = seen.add_many(range(5_000))
    wrong = sum(seen.contains_many(f"absent {n}" for n in range(5_000)))

    info = seen.info()
    assert (info.layers, info.is_over_capacity) == (4, False)
    assert sum(added) > 4_950
    assert info.items == pytest.approx(sum(added), rel=0.01)
    assert info.expected_error < 0.01
    assert wrong < 5_000 * 0.01 + 4 * math.sqrt(5_000 * 0.01)
    assert all(seen.contains_many(range(5_000)))
    sizes = [store.raw.strlen(key) for key in layer_keys(store)]
    assert sizes == [plan.bytes + 8 for plan in layers(500, 0.01, scaling=True)[:4]]


def test_fixed_filter_warns_beyond_its_capacity(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    seen = BloomFilter("urls", 1_000, error_rate=0.01, scaling=False)
    assert sum(seen.add_many(range(1_000))) > 980
    assert seen.info().expected_error == pytest.approx(0.01, rel=0.1)
    assert caplog.text == ""

    seen.add_many(range(1_000, 3_000))

    info = seen.info()
    assert (info.layers, info.is_over_capacity) == (1, True)
    assert 0.2 < info.expected_error < 0.6
    assert len(caplog.records) == 1
    assert "more than its capacity of 1000: its error rate is 0." in caplog.text
    assert all(seen.contains_many(range(3_000)))


@pytest.mark.parametrize("error_rate", [0.1, 0.01, 0.001])
def test_error_rate_at_capacity_is_that_of_the_formula(redis_server: Store, error_rate: float) -> None:
    count = 20_000
    seen = BloomFilter("urls", count, error_rate=error_rate, scaling=False)
    seen.add_many(range(count))

    wrong = sum(seen.contains_many(f"absent {n}" for n in range(count)))

    expected = count * error_rate
    assert abs(wrong - expected) < 4 * math.sqrt(expected) + 0.1 * expected
    info = seen.info()
    assert info.expected_error == pytest.approx(error_rate, rel=0.1)
    plan = BloomFilter.plan(count, error_rate)
    assert info.fill == pytest.approx(1 - math.exp(-plan.hashes * count / plan.bits), abs=0.01)
    [key] = layer_keys(redis_server)
    assert redis_server.raw.bitcount(key) / (8 * info.bytes) == pytest.approx(info.fill, abs=0.01)


@pytest.mark.contract
def test_other_parameters_are_refused_until_a_rebuild(store: Store) -> None:
    BloomFilter("urls", 1_000).add("a")
    other = BloomFilter("urls", 2_000)

    problem = (
        "Bloom filter 'urls' was created with capacity=1000, error_rate=0.01, scaling=True, not capacity=2000,"
        " error_rate=0.01, scaling=True. Use the same parameters, or rebuild or delete it."
    )
    for call in (lambda: other.add("b"), lambda: other.contains("a"), other.info):
        with pytest.raises(FilterMismatch, match=f"^{re.escape(problem)}$"):
            call()
    other.rebuild(["b"])
    assert other.contains_many(["a", "b"]) == [False, True]
    with pytest.raises(FilterMismatch):
        BloomFilter("urls", 1_000).contains("a")


def test_concurrent_callers_find_each_item_new_once(redis_server: Store) -> None:
    news: list[int] = []

    def add(number: int) -> None:
        seen = BloomFilter("urls", 200, error_rate=0.000001)
        for start in range(0, 1_000, 50):
            items = range(start, start + 50)
            news.extend(item for item, is_new in zip(items, seen.add_many(items), strict=True) if is_new)

    run_together(4, add)

    assert sorted(news) == list(range(1_000))
    assert BloomFilter("urls", 200, error_rate=0.000001).info().items == pytest.approx(1_000, rel=0.02)


def test_concurrent_single_adds_find_each_item_new_once_while_the_filter_grows(redis_server: Store) -> None:
    news: list[int] = []

    def add(number: int) -> None:
        seen = BloomFilter("urls", 20, error_rate=0.000001)
        news.extend(item for item in range(400) if seen.add(item))

    run_together(4, add)

    assert sorted(news) == list(range(400))
    seen = BloomFilter("urls", 20, error_rate=0.000001)
    assert all(seen.contains(item) for item in range(400))
    assert seen.info().layers >= 4


@pytest.mark.contract
def test_client_notices_that_another_one_grew_rebuilt_or_deleted_the_filter(store: Store) -> None:
    one, other = BloomFilter("urls", 100, error_rate=0.0001), BloomFilter("urls", 100, error_rate=0.0001)

    def both_know() -> None:
        assert [each.contains("first") for each in (one, other)] == [True, True]

    one.add("first")
    other.add("first")
    both_know()
    other.add_many(range(300))
    assert [one.add(7), one.contains(299), one.add("fresh"), one.add("fresh")] == [False, True, True, False]
    assert other.contains("fresh")

    assert other.rebuild(iter(["first"])) == 1
    assert [one.contains(7), one.add(7), one.add(7), other.contains(7)] == [False, True, False, True]
    both_know()

    other.delete()
    assert [one.contains("first"), one.add("first"), one.add("first")] == [False, True, False]
    both_know()
    other.delete()
    assert [one.add("second"), other.add("second"), other.contains("first")] == [True, False, False]
    assert sum(store.raw.strlen(key) > 1 for key in store.keys() if not key.endswith(b":meta")) == 1  # noqa: SIM118


def test_bits_that_a_client_adds_to_a_removed_filter_are_removed(redis_server: Store) -> None:
    one, other = BloomFilter("urls", 100), BloomFilter("urls", 100)
    one.add("first")
    other.delete()
    for key in redis_server.keys():  # noqa: SIM118 - a Store is no dict
        redis_server.raw.delete(key)  # its byte has expired too

    assert one.add("first")

    assert len(redis_server.keys()) == 2


def test_item_added_during_a_rebuild_by_a_plain_command_is_kept(redis_server: Store) -> None:
    one, other = BloomFilter("urls", 1_000), BloomFilter("urls", 1_000)
    one.add("old")
    other.add("old")
    results: list[bool] = []

    def items() -> Any:
        results.extend([one.add("new"), one.add("new"), one.add("old"), one.contains("new")])
        yield "loaded"

    other.rebuild(items())

    assert results == [True, False, False, True]
    assert one.contains_many(["new", "old", "loaded"]) == [True, True, True], "what was added meanwhile is kept"
    assert other.contains_many(["new", "old", "loaded", "absent"]) == [True, True, True, False]


def test_no_item_is_lost_while_the_filter_is_rebuilt_again_and_again(redis_server: Store) -> None:
    added: list[str] = []
    is_done = threading.Event()

    def work(number: int) -> None:
        seen = BloomFilter("urls", 50, error_rate=0.0001)
        if number == 0:
            for _ in range(60):
                seen.rebuild(lazily(added))
            is_done.set()
            return
        for item in itertools.count():
            if is_done.is_set():
                return
            added.append(f"{number}-{item}")
            seen.add(f"{number}-{item}")

    run_together(3, work)

    seen = BloomFilter("urls", 50, error_rate=0.0001)
    lost = [item for item, found in zip(added, seen.contains_many(added), strict=True) if not found]
    assert lost == []


def test_item_is_kept_if_the_rebuild_ends_between_command_and_script(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = BloomFilter("urls", 50), BloomFilter("urls", 50)
    one.add("old")
    other.add("old")
    has_started, may_end = threading.Event(), threading.Event()

    def items() -> Iterator[str]:
        has_started.set()
        may_end.wait(60)
        yield "loaded"

    rebuilder = threading.Thread(target=lambda: other.rebuild(items()))
    rebuilder.start()
    has_started.wait(60)

    def after_the_rebuild(**arguments: Any) -> Any:
        may_end.set()
        rebuilder.join(60)
        return ADD(**arguments)

    monkeypatch.setattr("django_redis_components.bloom.part.ADD", after_the_rebuild)
    assert one.add("new")

    assert other.contains_many(["new", "loaded", "old"]) == [True, True, False]


def test_filter_created_during_a_rebuild_gets_what_is_added_meanwhile(redis_server: Store) -> None:
    seen = BloomFilter("urls", 50)

    def items() -> Iterator[str]:
        for item in ("first", "second", "third"):
            assert BloomFilter("urls", 50).add(item)
            assert seen.add(f"{item} too")
        yield "loaded"

    BloomFilter("urls", 50).rebuild(items())

    assert all(seen.contains_many(["first", "second", "third", "first too", "third too", "loaded"]))


def lazily(items: list[str]) -> Iterator[str]:
    """Yield the items that are there when the rebuild has started."""
    yield from items[:]


def test_filter_is_added_to_by_a_plain_command_again_after_a_killed_rebuild(redis_server: Store) -> None:
    seen = BloomFilter("urls", 1_000)
    seen.add("old")
    with pytest.raises(SystemExit):
        seen.rebuild(exit_at_once())
    seen.add("first")
    before = calls(redis_server)

    for number in range(40):
        seen.add(number)

    assert calls(redis_server) - before < 30, "some look whether the filter is full"


def exit_at_once() -> Any:
    yield "x"
    raise SystemExit


def calls(store: Store) -> int:
    """Return how many scripts the server ran."""
    return int(store.raw.info("commandstats")["cmdstat_evalsha"]["calls"])


def test_add_with_a_lost_reply_raises_and_is_not_repeated(proxy: Proxy) -> None:
    seen = BloomFilter("urls", 100, using="proxied")
    seen.add("a")
    proxy.drop_next_reply(after=b"{urls}")

    with pytest.raises(ConnectionError):
        seen.add("b")

    assert proxy.dropped == 1
    assert seen.contains("b")


def test_lookup_is_repeated_after_a_lost_reply(proxy: Proxy) -> None:
    seen = BloomFilter("urls", 100, using="proxied")
    seen.add("a")
    proxy.drop_next_reply(after=b"{urls}")

    assert seen.contains("a")
    assert proxy.dropped == 1


@pytest.mark.contract
def test_items_added_during_a_rebuild_are_kept(store: Store) -> None:
    seen = BloomFilter("urls", 100)
    seen.add_many(["old", "kept"])

    def items() -> Any:
        yield "kept"
        assert BloomFilter("urls", 100).add("meanwhile")
        assert seen.info().is_rebuilding
        assert seen.contains_many(["old", "kept", "meanwhile"]) == [True, True, True]
        yield "loaded"

    seen.rebuild(items())

    assert seen.contains_many(["old", "kept", "meanwhile", "loaded"]) == [False, True, True, True]
    assert (seen.info().items, seen.info().is_rebuilding) == (3, False)
    assert store.raw.delete(f"{store.prefix}:bloom:{{urls}}:v1:built") == 1
    assert sorted(store.raw.pttl(key) > 0 for key in store.keys()) == [False, False, True]  # noqa: SIM118 - no dict
    [former] = [key for key in store.keys() if store.raw.pttl(key) > 0]  # noqa: SIM118 - a Store is no dict
    assert store.raw.get(former) == b"\4", "the former layer says that it was removed"


def test_rebuild_that_fails_leaves_the_filter_and_nothing_else(redis_server: Store) -> None:
    seen = BloomFilter("urls", 100)
    seen.add("old")
    before = sorted(redis_server.keys())

    def items() -> Any:
        yield from range(2_000)
        raise LookupError("gone")

    with pytest.raises(LookupError):
        seen.rebuild(items())

    assert sorted(redis_server.keys()) == before
    assert seen.contains("old")


def test_killed_rebuild_expires_and_a_later_one_replaces_it(redis_server: Store) -> None:
    seen = BloomFilter("urls", 100)

    def items() -> Any:
        yield "first"
        for key in redis_server.keys():  # noqa: SIM118 - a Store is no dict
            assert 0 < redis_server.raw.pttl(key) <= 15 * 60 * 1_000
        seen.rebuild(["second"])
        yield "third"

    with pytest.raises(RebuildSuperseded, match="The rebuild of Bloom filter 'urls' was discarded"):
        seen.rebuild(items())

    assert seen.contains_many(["first", "second", "third"]) == [False, True, False]


def test_rebuild_that_has_lost_a_layer_replaces_nothing(redis_server: Store) -> None:
    """A server with a policy such as `volatile-lru` may evict what has a TTL."""
    seen = BloomFilter("urls", 100)
    seen.add_many(["kept", "old"])

    def items() -> Any:
        yield from ["kept", *range(1_500)]
        keys = redis_server.keys()
        [layer] = [key for key in keys if redis_server.raw.pttl(key) > 0 and key.endswith(b":0")]
        redis_server.raw.delete(layer)

    with pytest.raises(RebuildSuperseded):
        seen.rebuild(items())

    assert seen.contains_many(["kept", "old"]) == [True, True]


def test_layers_that_adds_fill_during_a_rebuild_expire_with_it(redis_server: Store) -> None:
    seen, other = BloomFilter("urls", 20, scaling=True), BloomFilter("urls", 20, scaling=True)
    seen.add("old")

    def items() -> Any:
        yield "loaded"
        kept = {*redis_server.keys()}
        other.add_many(range(100))  # by another process, while this one is slow or dead
        added = [redis_server.raw.pttl(key) for key in {*redis_server.keys()} - kept]
        assert sorted(0 < ttl <= 15 * 60 * 1_000 for ttl in added) == [False] * 2 + [True] * 2

    seen.rebuild(items())

    assert all(seen.contains_many(["loaded", *range(100)]))
    generation = redis_server.raw.hget(f"{redis_server.prefix}:bloom:{{urls}}:v1:meta", "generation")
    layers = [key for key in list(redis_server.keys()) if generation in key]
    assert [redis_server.raw.pttl(key) for key in layers] == [-1] * 3


@pytest.mark.contract
def test_deleted_filter_leaves_a_byte_that_expires(store: Store) -> None:
    seen = BloomFilter("urls", 10)
    seen.add_many(range(100))

    assert seen.delete() is True

    assert [store.raw.strlen(key) for key in store.keys()] == [1]  # noqa: SIM118 - a Store is no dict
    assert all(0 < store.raw.pttl(key) <= 3_600_000 for key in store.keys())  # noqa: SIM118 - a Store is no dict
    assert not seen.contains(1)
    assert seen.info().items == 0
    assert seen.delete() is False


def test_layer_takes_no_more_memory_than_it_says(redis_server: Store) -> None:
    seen = BloomFilter("urls", 200_000, error_rate=0.01, scaling=False)
    seen.add("a")

    [key] = layer_keys(redis_server)
    assert seen.info().bytes <= redis_server.raw.memory_usage(key) < 1.3 * seen.info().bytes


def test_filter_of_a_version_with_other_sizes_is_read_by_its_own(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as former:
        former.setattr(plans, "EXTRA_MEMORY", 0.5)
        BloomFilter("urls", 100, error_rate=0.001).add_many(range(250))

    seen = BloomFilter("urls", 100, error_rate=0.001)

    assert all(seen.contains(number) for number in range(250))
    assert sum(seen.contains(f"absent {number}") for number in range(250)) <= 3
    assert seen.add("new")
    assert seen.contains_many(["new", 7]) == [True, True]
    assert seen.info().items == pytest.approx(251, abs=15)


def test_error_rates_that_differ_little_are_other_parameters(redis_server: Store) -> None:
    BloomFilter("urls", 40_000_000, error_rate=0.01).add("a")

    with pytest.raises(FilterMismatch, match=r"error_rate=0\.01, .* not capacity=40000000, error_rate=0\.01000004,"):
        BloomFilter("urls", 40_000_000, error_rate=0.01000004).contains("a")


def test_plan_is_that_of_the_formula() -> None:
    plan = BloomFilter.plan(1_000_000, 0.01)

    assert (plan.bits, plan.hashes, plan.bytes) == (9_848_832, 5, 1_231_104)
    assert plans.expected_error(plan, 1_000_000) == pytest.approx(0.01, rel=0.01)


@given(st.integers(1, 20_000_000), st.floats(1e-8, 0.5), st.booleans())
def test_layers_of_any_filter_stay_below_its_error_rate(capacity: int, error_rate: float, scaling: bool) -> None:
    try:
        found = layers(capacity, error_rate, scaling=scaling)
    except ValueError:
        assert capacity > 5_000_000
        return

    assert all(plan.bits <= MAX_BITS and plan.bits % 64 == 0 for plan in found)
    assert 1 - math.prod(1 - plans.expected_error(plan, plan.capacity) for plan in found) <= error_rate * 1.1
    assert len(found) == (16 if scaling else 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.text(max_size=20), st.binary(max_size=20), st.integers()), max_size=50))
def test_any_items_are_found(redis_server: Store, items: list[Any]) -> None:
    seen = BloomFilter("urls", 50, error_rate=0.01)

    seen.add_many(items)

    assert all(seen.contains_many(items))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: BloomFilter("", 1), "filter name is empty: expected 1 to 200 bytes of text."),
        (lambda: BloomFilter("a", 0), "capacity=0: expected an integer of at least 1."),
        (lambda: BloomFilter("a", 1.5), "capacity=1.5: expected an integer of at least 1."),
        (lambda: BloomFilter("a", 1, error_rate=1.0), "error_rate=1.0: expected a number from 1e-09 to 0.5."),
        (lambda: BloomFilter("a", 1, error_rate="1 %"), "error_rate='1 %': expected a number from 1e-09 to 0.5."),
        (lambda: BloomFilter("a", 1, scaling=1), "scaling=1: expected True or False."),
        (
            lambda: BloomFilter("a", 10**9, error_rate=0.01, scaling=False),
            "capacity=1,000,000,000: at most 54,511,281 with error_rate=0.01: 64 MiB.",
        ),
        (lambda: BloomFilter("a", 1).add(None), "item=None: expected a string, bytes, an integer or a UUID."),
        (lambda: BloomFilter("a", 1).add(True), "item=True: expected a string, bytes, an integer or a UUID."),
        (lambda: BloomFilter("a", 1).add_many("abc"), "items='abc': expected an iterable of items."),
    ],
)
def test_invalid_arguments_raise_with_the_reason(redis_server: Store, call: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(problem)}$"):
        call()

    assert redis_server.keys() == []


def layer_keys(store: Store) -> list[bytes]:
    """Return the keys of the layers, the first layer first."""
    found = [key for key in store.keys() if not key.endswith(b":meta")]  # noqa: SIM118 - a Store is no dict
    return sorted(found, key=lambda key: int(key.rpartition(b":")[2]))


def test_outage_after_the_item_was_added_does_not_lose_the_answer(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = BloomFilter("urls", 50)
    assert seen.add("first")
    looks: list[object] = []

    def away(**arguments: object) -> None:
        looks.append(arguments)
        raise ConnectionError("Redis is away.")

    monkeypatch.setattr("django_redis_components.bloom.part.LOOK", away)

    assert [seen.add("second"), seen.add("second"), seen.add_many(["third"])] == [True, False, [True]]
    assert looks
