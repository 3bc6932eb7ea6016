"""Rebuilding an index: what it mends, what searches see meanwhile, and what is left when it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, run
from django_redis_components.exceptions import RebuildSuperseded
from django_redis_components.search import Document, SearchIndex, rebuilding
from django_redis_components.search.counting import count_words
from django_redis_components.search.documents import EncodedDocument, encode
from django_redis_components.search.rebuilding import SearchRebuild
from tests.support import Store, eventually, run_async


def base_of(store: Store, generation: int = 0) -> str:
    return f"{store.prefix}:search:{{items}}:v5:{generation}"


def document(text: str, **sort_values: float) -> Document:
    return Document(text, {"kind": "pet"}, sort_values)


@pytest.mark.contract
def test_rebuild_writes_lost_postings_and_removes_stale_ones(store: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "black cat", facets={"kind": "pet"})
    index.add(2, "white cat", facets={"kind": "pet"})
    store.raw.delete(f"{base_of(store)}:w:black")
    store.raw.zadd(f"{base_of(store)}:w:white", {"1": 3})
    store.raw.srem(f"{base_of(store)}:f:kind=pet", "2")

    assert index.rebuild([(1, document("black cat")), (2, document("white cat"))]) == 2

    assert [index.search(word).ids for word in ("black", "white")] == [["1"], ["2"]]
    assert sorted(index.search("cat", filters={"kind": "pet"}).ids) == ["1", "2"]


@pytest.mark.contract
def test_rebuild_leaves_only_the_keys_of_the_new_generation(store: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "black cat", location=(1, 2), sort_values={"price": 3})
    index.add(2, "old dog", facets={"kind": "pet"}, sort_values={"votes": 3})

    index.rebuild(iter([(1, Document("black cat", {}, {"price": 4}, (1, 2)))]))

    base = f"{store.prefix}:search:{{items}}:v5"
    found = {key.decode().removeprefix(base) for key in store.keys()}  # noqa: SIM118 - a Store is no dict
    parts = ("docs", "geo", "names", "s:price", "stats", "vocabulary", "w:black", "w:cat")
    assert found == {":gen", ":state", ":built", *(f":1:{part}" for part in parts)}
    assert (index.count(), index.search("dog").paginator.count, index.search("cat", order_by="price")[0].score) == (
        1,
        0,
        4,
    )


@pytest.mark.contract
def test_searches_and_writes_during_a_rebuild_are_kept(store: Store) -> None:
    index = SearchIndex("items")
    index.add("old", "cat")
    index.add("gone", "cat")
    seen: list[list[str]] = []

    def documents() -> Iterator[tuple[str, Document]]:
        for number in range(250):
            yield f"d{number}", document("lamp")
        seen.append(index.search("cat").ids)
        index.add("new", "cat")
        index.remove("gone")
        seen.append(sorted(index.search("cat").ids))

    index.rebuild(documents())

    assert [sorted(ids) for ids in seen] == [["gone", "old"], ["new", "old"]]
    assert (index.search("cat").ids, index.search("lamp").paginator.count, index.count()) == (["new"], 250, 251)


def test_rebuild_uses_the_average_length_of_all_documents(redis_server: Store) -> None:
    index = SearchIndex("items")
    index.add("first", "lamp chair")
    for number in range(30):
        index.add(number, "chair " + "table " * 40)
    index.add("last", "lamp chair")
    assert len({hit.score for hit in index.search("lamp")}) == 2, "each with the average of its time"
    texts = {"first": "lamp chair", "last": "lamp chair"} | {str(n): "chair " + "table " * 40 for n in range(30)}

    index.rebuild((id_, Document(text, {}, {})) for id_, text in texts.items())

    assert len({hit.score for hit in index.search("lamp")}) == 1


def test_rebuild_that_fails_leaves_the_old_documents(redis_server: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "cat")

    def documents() -> Iterator[tuple[int, Document]]:
        yield 2, document("cat")
        raise LookupError("broken source")

    with pytest.raises(LookupError, match="broken source"):
        index.rebuild(documents())

    assert index.search("cat").ids == ["1"]
    assert not [key for key in redis_server.keys() if b":1:" in key]  # noqa: SIM118 - a Store is no dict
    assert index.rebuild([(3, document("cat"))]) == 1
    assert index.search("cat").ids == ["3"]


def test_later_rebuild_supersedes_an_earlier_one(redis_server: Store) -> None:
    index = SearchIndex("items")

    def documents() -> Iterator[tuple[int, Document]]:
        yield 1, document("cat")
        index.rebuild([(2, document("cat"))])

    with pytest.raises(RebuildSuperseded, match=r"^The rebuild of search index 'items' was discarded: a later one "):
        index.rebuild(documents())

    assert index.search("cat").ids == ["2"]
    assert index.rebuild([(3, document("cat"))]) == 1
    assert index.search("cat").ids == ["3"]


@pytest.mark.contract
def test_deleted_index_is_empty_and_can_be_filled_again(store: Store) -> None:
    index = SearchIndex("items")
    for number in range(20):
        index.add(number, f"cat word{number}", facets={"kind": "pet"}, sort_values={"votes": number})
    assert index.search("cat").paginator.count == 20

    assert index.delete() is True

    assert [key for key in store.keys() if b":search:" in key] == []  # noqa: SIM118 - a Store is no dict
    assert (index.count(), index.search("cat").paginator.count) == (0, 0)
    assert index.delete() is False
    run_async(lambda: index.aadd(1, "cat"))
    assert run_async(index.adelete) is True
    assert run_async(lambda: index.arebuild([(5, document("cat"))])) == 1
    assert index.search("cat").ids == ["5"]


def encoded(id_: Any, document: Document) -> EncodedDocument:
    return encode(id_, document, count_words({"": str(document.text)}, {}, frozenset()))


def keys_of(store: Store, generation: int) -> list[str]:
    base = base_of(store, generation)
    return [key.decode() for key in store.keys() if key.decode().startswith(f"{base}:")]  # noqa: SIM118 - no dict


@pytest.mark.contract
def test_rebuild_that_has_expired_is_written_to_no_longer_and_its_data_are_deleted(store: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "cat")
    killed = SearchRebuild("items", f"{store.prefix}:search:{{items}}:v5", encoded)
    loaded = [(f"d{number}", document(f"lamp word{number}", votes=number)) for number in range(30)]
    for step in (killed.begin(), killed.load(loaded)):
        assert run(connections.client("default"), step) == 1
    assert (index.info().is_rebuilding, index.info().has_old_data) == (True, False)
    assert store.raw.pttl(f"{store.prefix}:search:{{items}}:v5:build") <= 15 * 60 * 1_000
    assert keys_of(store, 1)

    store.raw.delete(f"{store.prefix}:search:{{items}}:v5:build")  # as if 15 minutes had passed
    assert (index.info().is_rebuilding, index.info().has_old_data) == (False, True)
    for _ in range(5):
        index.add(1, "black cat")

    assert keys_of(store, 1) == []
    assert (index.info().is_rebuilding, index.info().has_old_data) == (False, False)
    assert (index.search("black").ids, index.count()) == (["1"], 1)
    assert run(connections.client("default"), killed.load(loaded[:1])) == -1, "it was not killed after all"
    assert index.rebuild([(3, document("cat"))]) == 1


def going_on(flow: Flow[Any], reply: Any) -> Flow[Any]:
    """Run the rest of a flow whose first request was made."""
    try:
        request = flow.send(reply)
        while True:
            request = flow.send((yield request))
    except StopIteration as ended:
        return ended.value


def load_and_write(store: Store, index: SearchIndex) -> None:
    """Load documents into a rebuild that goes no further, and write others meanwhile."""
    killed = SearchRebuild("items", f"{store.prefix}:search:{{items}}:v5", encoded)
    documents = [(n, Document(f"lamp word{n}", {"kind": "light"}, {"votes": n}, (1, 2))) for n in range(30)]
    for step in (killed.begin(), killed.load(documents)):
        assert run(connections.client("default"), step) == 1
    index.add("late", "late cat", facets={"kind": "pet"}, sort_values={"price": 3})
    index.remove(3)


@pytest.mark.contract
def test_all_data_of_a_rebuild_expire_a_day_after_its_start(store: Store) -> None:
    load_and_write(store, SearchIndex("items"))

    built = keys_of(store, 1)
    parts = ("w:late", "w:lamp", "s:price", "s:votes", "f:kind=pet", "docs", "facets", "stats", "names", "geo", "live")
    assert {f"{base_of(store, 1)}:{part}" for part in parts} <= set(built)
    assert [key for key in built if not 0 < store.raw.pttl(key) <= rebuilding.DATA_TTL_MS] == []


@pytest.mark.contract
def test_data_of_a_killed_rebuild_are_gone_without_a_write(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    index = SearchIndex("items")
    index.add(1, "cat")

    with monkeypatch.context() as short:
        short.setattr(rebuilding, "DATA_TTL_MS", 1)
        load_and_write(store, index)
    store.raw.delete(f"{store.prefix}:search:{{items}}:v5:build")  # as if 15 minutes had passed

    assert eventually(lambda: not keys_of(store, 1))
    assert not index.info().has_old_data
    assert (sorted(index.search("cat").ids), index.count()) == (["1", "late"], 2)
    assert index.rebuild([(5, document("cat"))]) == 1


@pytest.mark.contract
def test_no_key_of_a_finished_rebuild_expires(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "KEEP_LIMIT", 7)
    index = SearchIndex("items")

    def documents() -> Iterator[tuple[int, Document]]:
        for number in range(150):
            yield number, Document(f"lamp word{number}", {"kind": f"k{number}"}, {f"v{number % 5}": number}, (1, 2))
        index.add("late", "late lamp", facets={"kind": "late"}, sort_values={"late": 1})

    assert index.rebuild(documents()) == 151

    expiring = [key for key in keys_of(store, 1) if store.raw.pttl(key) != -1]
    assert expiring == []
    assert len(keys_of(store, 1)) > 300
    assert index.search("lamp", facets=["kind"]).paginator.count == 151


@pytest.mark.contract
def test_what_is_written_while_a_rebuild_is_made_permanent_does_not_expire(store: Store) -> None:
    index, active = SearchIndex("items"), SearchRebuild("items", f"{store.prefix}:search:{{items}}:v5", encoded)
    client = connections.client("default")
    run(client, active.begin())
    run(client, active.load([(1, document("lamp", votes=1))]))

    swap = active.swap()
    first = client.execute(next(swap))
    index.add(2, "new word", facets={"kind": "new"}, sort_values={"price": 2})

    assert run(client, going_on(swap, first)) == 2
    assert [key for key in keys_of(store, 1) if store.raw.pttl(key) != -1] == []


def test_rebuild_that_takes_longer_than_its_data_last_is_refused(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "DATA_TTL_MS", rebuilding.TTL_MS - 1)
    index = SearchIndex("items")
    index.add(1, "cat")

    with pytest.raises(RebuildSuperseded):
        index.rebuild([(2, document("lamp"))])

    assert (index.search("cat").ids, keys_of(redis_server, 1)) == (["1"], [])


def test_rebuild_that_paused_too_long_fails_when_it_continues(redis_server: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "cat")

    def documents() -> Iterator[tuple[int, Document]]:
        yield 2, document("lamp")
        redis_server.raw.delete(f"{redis_server.prefix}:search:{{items}}:v5:build")
        index.add(3, "black cat")

    with pytest.raises(RebuildSuperseded, match="900 s passed between two chunks"):
        index.rebuild(documents())

    assert index.search("cat").paginator.count == 2
    assert keys_of(redis_server, 1) == []


def test_rebuild_is_renewed_with_its_documents(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SearchRebuild, "chunk_size", 1)
    index, build = SearchIndex("items"), f"{redis_server.prefix}:search:{{items}}:v5:build"
    seen = list[int]()

    def documents() -> Iterator[tuple[int, Document]]:
        for number in range(3):
            redis_server.raw.pexpire(build, 120_000)
            yield number, document("lamp")
            seen.append(redis_server.raw.pttl(build))

    index.rebuild(documents())

    assert len(seen) == 3
    assert min(seen) > 600_000
    assert index.count() == 3


@pytest.mark.contract
def test_what_is_written_during_a_rebuild_is_newer_than_what_it_loads(store: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "old cat")

    async def documents() -> AsyncIterator[tuple[int, Document]]:
        index.add(1, "new cat")
        index.add(2, "lamp")
        index.remove(2)
        for number in (1, 2, 3):
            yield number, document("stale cat")

    assert run_async(lambda: index.arebuild(documents())) == 2

    assert [index.search(word).ids for word in ("new", "stale")] == [["1"], ["3"]]
    assert not [key for key in store.keys() if key.endswith(b":live")]  # noqa: SIM118 - a Store is no dict


def test_documents_of_a_rebuild_are_found_only_after_it(redis_server: Store) -> None:
    index = SearchIndex("items")
    found: list[int] = []

    def documents() -> Iterator[tuple[int, Document]]:
        for number in range(SearchRebuild.chunk_size + 1):
            yield number, document("lamp")
        found.append(index.search("lamp").paginator.count)

    index.rebuild(documents())

    assert (found, index.search("lamp").paginator.count) == ([0], SearchRebuild.chunk_size + 1)


def test_rebuild_after_a_loss_of_the_state_does_not_mix_with_older_data(redis_server: Store) -> None:
    index = SearchIndex("items")
    index.rebuild([(1, document("cat"))])
    redis_server.raw.delete(f"{redis_server.prefix}:search:{{items}}:v5:state")

    index.rebuild([(2, document("lamp"))])

    assert (index.search("cat").ids, index.search("lamp").ids, index.count()) == ([], ["2"], 1)
