"""Bloom filters in parts: one filter over several keys, in different slots of a Cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from django_redis_components.bloom import BloomFilter, FilterMismatch
from django_redis_components.bloom.rebuilding import FilterRebuild
from django_redis_components.bloom.scripts import REBUILD_SWAP
from django_redis_components.core.protocol import Batch, Call, Flow
from django_redis_components.exceptions import RebuildSuperseded
from tests.support import Store, run_async, run_together


def parts_of(store: Store) -> set[bytes]:
    """Return the hash tags of the parts that exist."""
    return {re.search(rb"\{(.*)\}", key)[1] for key in store.keys() if key.endswith(b":meta")}  # noqa: SIM118


@pytest.mark.contract
def test_filter_in_parts_answers_like_one_without(store: Store) -> None:
    whole, divided = BloomFilter("whole", 2_000), BloomFilter("divided", 2_000, parts=5)
    items = [f"item {number}" for number in range(1_500)]

    assert divided.add_many([*items, "item 3"]) == whole.add_many([*items, "item 3"])
    assert [divided.add("item 7"), divided.add("new"), divided.add("new")] == [False, True, False]
    assert divided.contains_many(items) == [True] * 1_500
    assert [divided.contains("item 7"), divided.contains("missing")] == [True, False]
    assert sum(divided.contains_many(range(2_000))) < 50

    info = divided.info()
    assert (info.parts, info.layers, info.capacity) == (5, 5, 2_000)
    assert info.items == pytest.approx(1_501, rel=0.05)
    assert info.expected_error < 0.01
    assert len(parts_of(store)) == 6


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    seen = BloomFilter("urls", 1_000, parts=3)

    async def scene() -> list[object]:
        found: list[object] = [
            await seen.acontains("a"),
            await seen.aadd("a"),
            await seen.aadd_many(["a", "b", "c", "d"]),
            await seen.acontains_many(["d", "c", "b", "x"]),
        ]
        found.append(await seen.arebuild(["c", "e"]))
        found.append(await seen.acontains_many(["a", "c", "e"]))
        found.append((await seen.ainfo()).items)
        return [*found, await seen.adelete(), await seen.acontains("c")]

    assert run_async(scene) == [
        *(False, True, [False, True, True, True], [True, True, True, False]),
        *(2, [False, True, True], 2, True, False),
    ]


def test_many_items_take_one_round_trip(redis_server: Store) -> None:
    seen = BloomFilter("urls", 1_000, parts=8)
    seen.add_many(range(100))
    seen.contains_many(range(100))  # the scripts are loaded now
    redis_server.raw.config_resetstat()

    seen.add_many(range(100, 200))
    seen.contains_many(range(200))

    stats = redis_server.raw.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == 16
    assert redis_server.raw.info("stats")["total_reads_processed"] < 16  # two batches, and what others ask


def test_single_item_is_one_plain_command(redis_server: Store) -> None:
    seen = BloomFilter("urls", 100_000, parts=2)
    seen.add_many(range(10))
    seen.contains_many(range(10))
    redis_server.raw.config_resetstat()

    for number in range(5):
        seen.contains(number)

    stats = redis_server.raw.info("commandstats")
    assert stats["cmdstat_bitfield_ro"]["calls"] == 5
    assert "cmdstat_evalsha" not in stats


@pytest.mark.contract
@pytest.mark.parametrize(("stored", "declared"), [(1, 4), (4, 1), (4, 6), (6, 4)])
def test_other_number_of_parts_is_refused_until_a_rebuild(store: Store, stored: int, declared: int) -> None:
    BloomFilter("urls", 1_000, parts=stored).add_many(range(100))
    other = BloomFilter("urls", 1_000, parts=declared)
    calls: list[Any] = [other.info, lambda: other.add_many(["x"]), lambda: other.contains_many(["x"])]
    calls += [partial(call, item) for item in range(12) for call in (other.add, other.contains)]

    for call in calls:
        with pytest.raises(FilterMismatch, match=r"^Bloom filter 'urls' was created with capacity=1000, "):
            call()
    assert other.rebuild(range(50)) == 50

    assert other.contains_many(range(100)).count(True) < 60
    assert len(parts_of(store)) == declared
    with pytest.raises(FilterMismatch):
        BloomFilter("urls", 1_000, parts=stored).contains_many(range(100))


def test_mismatch_names_the_numbers_of_parts(redis_server: Store) -> None:
    BloomFilter("urls", 1_000, parts=4).add("a")

    with pytest.raises(FilterMismatch, match=r"scaling=True, parts=4, not .* scaling=True, parts=6\. Use the same"):
        BloomFilter("urls", 1_000, parts=6).info()


def test_mismatch_of_a_filter_without_parts_names_their_number(redis_server: Store) -> None:
    BloomFilter("urls", 1_000, parts=4).add("a")

    with pytest.raises(FilterMismatch, match=r"scaling=True, parts=4, not .* scaling=True, parts=1\. Use the same"):
        BloomFilter("urls", 1_000).info()


def test_delete_removes_all_parts_also_those_that_are_not_declared(redis_server: Store) -> None:
    BloomFilter("urls", 1_000, parts=6).add_many(range(50))

    assert BloomFilter("urls", 1_000).delete()

    assert parts_of(redis_server) == set()
    assert not BloomFilter("urls", 1_000, parts=6).contains_many(range(50), default=False).count(True)


def test_lost_part_answers_with_the_default(redis_server: Store) -> None:
    seen = BloomFilter("urls", 1_000, parts=2)
    seen.add_many(range(20))
    redis_server.raw.delete(*[key for key in redis_server.keys() if b"{urls:1}" in key])  # noqa: SIM118

    found = BloomFilter("urls", 1_000, parts=2).contains_many(range(100, 200), default=True)

    assert 20 < found.count(True) < 80
    assert all(seen.add_many(range(1_000, 1_005)))  # the part is created again
    assert len(parts_of(redis_server)) == 2


def test_concurrent_callers_find_each_item_new_once(redis_server: Store) -> None:
    found = run_together(4, lambda _: BloomFilter("urls", 1_000, parts=3).add_many(range(200)))

    counts = [sum(answers) for answers in zip(*found, strict=True)]
    assert max(counts) == 1
    assert sum(counts) > 195


def test_items_added_during_a_rebuild_are_kept_in_all_parts(redis_server: Store) -> None:
    seen = BloomFilter("urls", 10_000, parts=4)
    seen.add_many(range(100))

    def items() -> Any:
        yield from range(1_000, 2_500)
        seen.add_many(range(5_000, 5_050))
        [seen.add(number) for number in range(6_000, 6_020)]

    assert seen.rebuild(items()) == 1_500

    assert all(seen.contains_many([*range(1_000, 2_500), *range(5_000, 5_050), *range(6_000, 6_020)]))
    assert seen.contains_many(range(100)).count(True) < 10


@contextmanager
def killed_after(step: Callable[[Any], bool]) -> Iterator[None]:
    """Kill a rebuild in the block after the first step of its end of which this is true."""

    def swap_until(rebuild: FilterRebuild) -> Flow[int]:
        steps, reply = swap(rebuild), None
        while True:
            request = steps.send(reply)
            reply = yield request
            if step(request):
                raise _Killed

    def abandon(_: FilterRebuild) -> Flow[None]:
        return
        yield

    swap = FilterRebuild.swap
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FilterRebuild, "swap", swap_until)
        patch.setattr(FilterRebuild, "abandon", abandon)  # a killed process does not clean up
        with pytest.raises(_Killed):
            yield


class _Killed(BaseException):
    """Raised where a process is killed."""


def swaps_first(request: Any) -> bool:
    """Return whether the first part is replaced now."""
    return isinstance(request, Call) and request.script is REBUILD_SWAP(base="", token="").script


def swaps_others(request: Any) -> bool:
    """Return whether all parts but the first are replaced now."""
    return isinstance(request, Batch) and all(map(swaps_first, request.requests))


def test_rebuild_that_is_killed_between_two_parts_is_completed_by_the_next(redis_server: Store) -> None:
    seen = BloomFilter("urls", 10_000, parts=4)
    seen.add_many(range(100))
    with killed_after(swaps_others):
        seen.rebuild(range(100, 200))
    assert 10 < seen.contains_many(range(100)).count(True) < 50
    assert 50 < seen.contains_many(range(100, 200)).count(True) < 95

    assert seen.rebuild(range(200, 300)) == 100

    assert all(seen.contains_many(range(200, 300)))
    assert seen.contains_many(range(200)).count(True) < 10


@pytest.mark.parametrize(
    ("stored", "rebuilt", "step", "declared"),
    [(4, 2, swaps_first, 2), (1, 4, swaps_others, 1), (2, 4, swaps_others, 2)],
)
@pytest.mark.parametrize("verb", ["rebuild", "delete"])
def test_parts_that_a_killed_rebuild_has_left_are_removed_by_the_next(
    redis_server: Store, stored: int, rebuilt: int, step: Callable[[Any], bool], declared: int, verb: str
) -> None:
    BloomFilter("urls", 1_000, parts=stored).add_many(range(100))
    with killed_after(step):
        BloomFilter("urls", 1_000, parts=rebuilt).rebuild(range(100))

    last = BloomFilter("urls", 1_000, parts=declared)
    if verb == "delete":
        last.delete()
    else:
        last.rebuild(range(100))
        assert all(last.contains_many(range(100)))

    kept = [key for key in redis_server.keys() if redis_server.raw.pttl(key) < 0]  # noqa: SIM118 - no dict
    assert len(kept) == (2 * declared if verb == "rebuild" else 0)


def test_later_rebuild_supersedes_all_parts(redis_server: Store) -> None:
    seen = BloomFilter("urls", 10_000, parts=4)

    def items() -> Any:
        yield from range(1_000)
        assert seen.rebuild(["later"]) == 1
        yield from range(1_000, 2_000)

    with pytest.raises(RebuildSuperseded):
        seen.rebuild(items())

    assert seen.contains("later")
    assert seen.info().items == 1


def test_rebuild_that_a_whole_one_has_passed_replaces_no_part(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = BloomFilter("urls", 10_000, parts=4)

    def begin_late(rebuild: FilterRebuild) -> Flow[Any]:
        steps = begin(rebuild)
        reply = yield next(steps)
        monkeypatch.setattr(FilterRebuild, "begin", begin)
        seen.rebuild(range(100))
        return (yield steps.send(reply))

    begin = FilterRebuild.begin
    monkeypatch.setattr(FilterRebuild, "begin", begin_late)
    with pytest.raises(RebuildSuperseded):
        seen.rebuild([])

    assert all(seen.contains_many(range(100)))


def test_part_of_an_item_is_that_of_each_version(redis_server: Store) -> None:
    """Another hash would look items up in parts that do not have them."""
    seen = BloomFilter("urls", 1_000, parts=4)
    seen.add("https://example.org/1")

    with_items = [key for key in redis_server.keys() if redis_server.raw.type(key) == b"string"]  # noqa: SIM118
    counts = {re.search(rb"\{(.*)\}", key)[1]: redis_server.raw.bitcount(key, 8, -1) for key in with_items}
    assert [tag for tag, count in counts.items() if count] == [b"urls:3"]


@pytest.mark.parametrize("scaling", [True, False])
def test_parts_are_not_full_before_the_filter_is(redis_server: Store, scaling: bool) -> None:
    seen = BloomFilter("urls", 3_000, parts=6, scaling=scaling)
    seen.add_many(range(3_000))

    info = seen.info()

    assert (info.layers, info.is_over_capacity) == (6, False)
    assert info.expected_error < 0.01


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (0, "parts=0: expected an integer from 1 to 64."),
        ("2", "parts='2': expected an integer from 1 to 64."),
        (65, "parts=65: expected an integer from 1 to 64."),
    ],
)
def test_wrong_number_of_parts_is_refused(parts: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(problem)}$"):
        BloomFilter("urls", 100, parts=parts)


def test_parts_lift_the_size_of_a_layer() -> None:
    with pytest.raises(ValueError, match="64 MiB"):
        BloomFilter("urls", 200_000_000, scaling=False)

    BloomFilter("urls", 200_000_000, scaling=False, parts=4)
