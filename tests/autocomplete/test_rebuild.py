"""A rebuild: nothing half-built is ever seen, nothing written meanwhile is lost, one that fails leaves no trace."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_redis_components.autocomplete import Entry, PrefixIndex, Suggestion
from django_redis_components.autocomplete.rebuilding import IndexRebuild
from django_redis_components.exceptions import RebuildSuperseded
from tests.support import Proxy, Store, run_async, run_together
from tests.support.waiting import TIMEOUT_S

CHUNK = IndexRebuild.chunk_size


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IndexRebuild, "chunk_size", 2)


def texts(index: PrefixIndex) -> list[str]:
    return sorted(one.text for one in index.complete("", limit=1000))


def build_keys(store: Store) -> list[bytes]:
    return [key for key in sorted(store.keys()) if b":build" in key]


def test_rebuild_replaces_all_entries_and_returns_their_number(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Anna", weight=4)
    index.add(2, "Bert")

    count = index.rebuild([(2, "Berta"), Entry(3, "Carl", terms=["charles"], weight=1), (2, "Bertha")])

    assert count == index.count() == 2
    assert texts(index) == ["Bertha", "Carl"]
    assert index.complete("charl") == [Suggestion("3", "Carl")]


def test_rebuild_loads_more_than_one_chunk(store: Store) -> None:
    index = PrefixIndex("contacts")

    count = index.rebuild((n, f"Name {n:05d}") for n in range(CHUNK * 2 + 1))

    assert count == CHUNK * 2 + 1
    assert index.complete(f"name {CHUNK * 2:05d}") == [Suggestion(str(CHUNK * 2), f"Name {CHUNK * 2:05d}")]


def test_finished_rebuild_has_no_time_to_live_and_leaves_only_the_mark_of_its_token(store: Store) -> None:
    index = PrefixIndex("contacts")

    index.rebuild([Entry(1, "Anna", weight=1)])

    ttls = {key.rpartition(b":")[2].decode(): store.raw.ttl(key) for key in sorted(store.keys())}
    assert ttls.pop("built") in range(590, 601)
    assert ttls == {"lex": -1, "top": -1, "entries": -1}


@pytest.mark.contract
def test_rebuild_from_an_empty_iterable_empties_the_index(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Anna", weight=1)

    assert index.rebuild([]) == 0
    assert texts(index) == []


@pytest.mark.usefixtures("small_chunks")
def test_readers_see_the_old_index_until_the_rebuild_completes(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Old")
    seen: list[list[str]] = []

    def source() -> Iterator[tuple[int, str]]:
        for number in range(10):
            seen.append(texts(index))
            yield number, f"New {number}"

    index.rebuild(source())

    assert seen == [["Old"]] * 10
    assert len(texts(index)) == 10


@pytest.mark.usefixtures("small_chunks")
def test_data_of_a_crashed_rebuild_expires(store: Store) -> None:
    index = PrefixIndex("contacts")
    ttls: dict[str, int] = {}

    def source() -> Iterator[Entry]:
        for number in range(6):
            if number == 4:
                index.add(99, "Live", weight=1)
                ttls.update({key.rpartition(b":")[2].decode(): store.raw.ttl(key) for key in build_keys(store)})
            yield Entry(number, f"New {number}", weight=1)

    index.rebuild(source())

    assert set(ttls) == {"build", "build_lex", "build_top", "build_entries", "build_live"}
    assert all(890 < ttl <= 900 for ttl in ttls.values()), ttls


@pytest.mark.usefixtures("small_chunks")
def test_changes_during_a_rebuild_override_loaded_entries(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.rebuild([(n, f"Old {n}") for n in range(6)])

    def source() -> Iterator[tuple[int, str]]:
        yield from [(0, "Stale 0"), (1, "Stale 1")]  # loaded before the changes below
        index.add(0, "Fresh 0")
        index.remove(1)
        index.add(2, "Fresh 2")
        index.remove(3)
        index.add(9, "Fresh 9")
        yield from [(2, "Stale 2"), (3, "Stale 3"), (4, "New 4")]

    count = index.rebuild(source())

    assert texts(index) == ["Fresh 0", "Fresh 2", "Fresh 9", "New 4"]
    assert count == 4


def test_changes_during_a_rebuild_are_visible_immediately(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Anna")

    def source() -> Iterator[tuple[int, str]]:
        index.add(2, "Bert")
        index.remove(1)
        assert texts(index) == ["Bert"]
        yield 3, "Carl"

    index.rebuild(source())

    assert texts(index) == ["Bert", "Carl"]


def test_error_of_the_iterable_leaves_the_index_unchanged(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Anna")

    def source() -> Iterator[tuple[int, str]]:
        yield from [(n, f"New {n}") for n in range(CHUNK + 1)]
        raise LookupError("the database went away")

    with pytest.raises(LookupError, match="the database went away"):
        index.rebuild(source())

    assert texts(index) == ["Anna"]
    assert build_keys(store) == []


@pytest.mark.parametrize("bad", [(1, "a", "b"), "ab", {"id": 1}, (1,)])
def test_rebuild_rejects_values_that_are_not_entries(store: Store, bad: object) -> None:
    with pytest.raises(TypeError, match=r"expected an Entry or a tuple of id and text\."):
        PrefixIndex("contacts").rebuild([bad])  # type: ignore[list-item]

    assert store.keys() == []


@pytest.mark.contract
def test_later_rebuild_supersedes_an_earlier_one(store: Store) -> None:
    index = PrefixIndex("contacts")

    def source() -> Iterator[tuple[int, str]]:
        yield 1, "Early"
        index.rebuild([(2, "Late")])

    with pytest.raises(RebuildSuperseded) as raised:
        index.rebuild(source())

    assert str(raised.value) == (
        "The rebuild of index 'contacts' was discarded: a later one started, 900 s passed between two chunks, or the"
        " server removed its keys."
    )
    assert raised.value.name == "contacts"
    assert texts(index) == ["Late"]
    assert build_keys(store) == []


@pytest.mark.usefixtures("small_chunks")
def test_superseded_rebuild_does_not_delete_the_active_one(store: Store) -> None:
    index = PrefixIndex("contacts")
    early_started, late_loaded = threading.Event(), threading.Event()

    def early() -> Iterator[tuple[int, str]]:
        early_started.set()
        assert late_loaded.wait(TIMEOUT_S)
        raise LookupError("the database went away")
        yield  # makes it a generator

    def late() -> Iterator[tuple[int, str]]:
        yield from [(1, "Late 1"), (2, "Late 2"), (3, "Late 3")]  # the first two are loaded before the next is read
        late_loaded.set()
        assert isinstance(failing.exception(TIMEOUT_S), LookupError)
        yield 4, "Late 4"

    with ThreadPoolExecutor(1) as pool:
        failing = pool.submit(index.rebuild, early())
        assert early_started.wait(TIMEOUT_S)

        assert index.rebuild(late()) == 4

    assert texts(index) == ["Late 1", "Late 2", "Late 3", "Late 4"]


def test_concurrent_rebuilds_leave_one_complete_index(store: Store) -> None:
    index = PrefixIndex("contacts")
    outcomes = []

    def rebuild(number: int) -> None:
        try:
            index.rebuild((n, f"Build {number} entry {n:04d}") for n in range(CHUNK * 3))
        except RebuildSuperseded:
            outcomes.append("superseded")
        else:
            outcomes.append("in")

    run_together(4, rebuild)

    assert "in" in outcomes
    assert len({text.split(" entry ")[0] for text in texts(index)}) == 1
    assert index.count() == CHUNK * 3
    assert build_keys(store) == []


def test_writers_during_rebuilds_lose_nothing(store: Store) -> None:
    """Two writers change a table and the index all the time, while rebuilds read the table row by row."""
    index = PrefixIndex("contacts")
    table: dict[str, str] = {f"{writer}-{row}": "First" for writer in (1, 2) for row in range(60)}
    stop = threading.Event()

    def rows() -> Iterator[tuple[str, str]]:
        for id_ in list(table):  # read when the rebuild has begun
            if (text := table.get(id_)) is not None:
                yield id_, text

    def rebuild_or_write(number: int) -> None:
        if number == 0:
            for _ in range(6):
                index.rebuild(rows())
            stop.set()
        version = 0
        while not stop.is_set():
            version += 1
            for row in range(0, 60, 7):
                id_ = f"{number}-{row}"
                if version % 3:
                    table[id_] = f"Version {version}"
                    index.add(id_, table[id_])
                else:
                    table.pop(id_, None)
                    index.remove(id_)

    run_together(3, rebuild_or_write)

    known = index.get_many([f"{writer}-{row}" for writer in (1, 2) for row in range(60)])
    assert {id_: one.text for id_, one in known.items()} == table
    assert index.count() == len(table)


def test_concurrent_adds_of_one_id_leave_one_entry(store: Store) -> None:
    index = PrefixIndex("contacts")

    def add(number: int) -> None:
        for step in range(40):
            index.add(1, f"Name {number} {step}", terms=[f"alias{number}"], weight=number)

    run_together(5, add)

    found = index.complete("", limit=1000)
    assert [one.id for one in found] == ["1"]
    base = f"{store.prefix}:autocomplete:{{contacts}}:v5.2"
    number = found[0].text.split()[1]
    assert store.raw.hlen(f"{base}:entries") == 1
    assert store.raw.zcard(f"{base}:lex") == 4  # the text, two words of it that differ, the alias
    assert [one.id for one in index.complete(f"alias{number}")] == ["1"]


def test_asynchronous_source_is_loaded(store: Store) -> None:
    index = PrefixIndex("contacts")

    async def source(entries: int) -> AsyncIterator[tuple[int, str]]:
        for number in range(entries):
            yield number, f"Name {number}"

    async def scene() -> tuple[int, int, int]:
        first = await index.arebuild(source(CHUNK + 5))
        second = await index.arebuild(source(CHUNK))
        return first, second, await index.arebuild([(1, "Anna"), Entry(2, "Bert")])

    assert run_async(scene) == (CHUNK + 5, CHUNK, 2)
    assert texts(index) == ["Anna", "Bert"]


@pytest.mark.contract
def test_failed_async_iterable_leaves_the_index_unchanged(store: Store) -> None:
    index = PrefixIndex("contacts")

    async def source() -> AsyncIterator[tuple[int, str]]:
        yield 1, "Anna"
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run_async(lambda: index.arebuild(source()))

    assert store.keys() == []


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_rebuild_completes_after_a_lost_reply_at_any_step(proxy: Proxy, lost: int) -> None:
    index = PrefixIndex("contacts", using="proxied")
    index.add(1, "Old")
    asked = iter(range(1, 4))

    def source() -> Iterator[tuple[int, str]]:
        drop(2)
        yield from [(n, f"New {n}") for n in range(CHUNK)]
        drop(3)

    def drop(step: int) -> None:
        next(asked)
        if step == lost:
            proxy.drop_next_reply(after=b"{contacts}")

    drop(1)
    count = index.rebuild(source())

    assert proxy.dropped == 1
    assert count == CHUNK
    assert index.complete("old") == []


def test_rebuild_completes_after_many_lost_replies(proxy: Proxy) -> None:
    index = PrefixIndex("contacts", using="proxied")
    proxy.drop_random(0.1, seed=4)

    count = index.rebuild((n, f"Name {n:05d}") for n in range(CHUNK * 20))
    proxy.drop_random(0)

    assert proxy.dropped > 0
    assert count == index.count() == CHUNK * 20
