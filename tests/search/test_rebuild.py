"""Rebuilding an index: what it mends, what searches see meanwhile, and what is left when it fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_redis_components.search import Document, SearchError, SearchIndex
from tests.support import Store, run_async


def base_of(store: Store, generation: int = 0) -> str:
    return f"{store.prefix}:search:{{items}}:v3:{generation}"


def document(text: str, **sort_values: float) -> Document:
    return Document(text, {"kind": "pet"}, sort_values)


@pytest.mark.contract
def test_rebuild_writes_lost_postings_and_removes_stale_ones(store: Store) -> None:
    index = SearchIndex("items")
    index.index(1, "black cat", facets={"kind": "pet"})
    index.index(2, "white cat", facets={"kind": "pet"})
    store.raw.delete(f"{base_of(store)}:w:black")
    store.raw.zadd(f"{base_of(store)}:w:white", {"1": 3})
    store.raw.srem(f"{base_of(store)}:f:kind=pet", "2")

    assert index.rebuild([(1, document("black cat")), (2, document("white cat"))]) == 2

    assert [index.search(word).ids for word in ("black", "white")] == [["1"], ["2"]]
    assert sorted(index.search("cat", filters={"kind": "pet"}).ids) == ["1", "2"]


@pytest.mark.contract
def test_rebuild_leaves_only_the_keys_of_the_new_generation(store: Store) -> None:
    index = SearchIndex("items")
    index.index(1, "black cat", location=(1, 2), price=3)
    index.index(2, "old dog", facets={"kind": "pet"}, votes=3)

    index.rebuild(iter([(1, Document("black cat", {}, {"price": 4}, (1, 2)))]))

    base = f"{store.prefix}:search:{{items}}:v3"
    found = {key.decode().removeprefix(base) for key in store.keys()}  # noqa: SIM118 - a Store is no dict
    parts = ("docs", "geo", "names", "s:price", "stats", "vocabulary", "w:black", "w:cat")
    assert found == {":gen", ":state", *(f":1:{part}" for part in parts)}
    assert (index.count(), index.search("dog").total, index.search("cat", order_by="price").hits[0].score) == (1, 0, 4)


@pytest.mark.contract
def test_searches_and_writes_during_a_rebuild_are_kept(store: Store) -> None:
    index = SearchIndex("items")
    index.index("old", "cat")
    index.index("gone", "cat")
    seen: list[list[str]] = []

    def documents() -> Iterator[tuple[str, Document]]:
        for number in range(250):
            yield f"d{number}", document("lamp")
        seen.append(index.search("cat").ids)
        index.index("new", "cat")
        index.remove("gone")
        seen.append(sorted(index.search("cat").ids))

    index.rebuild(documents())

    assert [sorted(ids) for ids in seen] == [["gone", "old"], ["new", "old"]]
    assert (index.search("cat").ids, index.search("lamp").total, index.count()) == (["new"], 250, 251)


def test_rebuild_uses_the_average_length_of_all_documents(redis_server: Store) -> None:
    index = SearchIndex("items")
    index.index("first", "lamp chair")
    for number in range(30):
        index.index(number, "chair " + "table " * 40)
    index.index("last", "lamp chair")
    assert len({hit.score for hit in index.search("lamp")}) == 2, "each with the average of its time"
    texts = {"first": "lamp chair", "last": "lamp chair"} | {str(n): "chair " + "table " * 40 for n in range(30)}

    index.rebuild((id_, Document(text, {}, {})) for id_, text in texts.items())

    assert len({hit.score for hit in index.search("lamp")}) == 1


def test_rebuild_that_fails_leaves_the_old_documents(redis_server: Store) -> None:
    index = SearchIndex("items")
    index.index(1, "cat")

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

    with pytest.raises(SearchError, match=r"^Search index 'items' was not replaced: a later rebuild has started\.$"):
        index.rebuild(documents())

    assert sorted(index.search("cat").ids) == ["1", "2"], "what it still wrote counts like `index`"
    assert index.rebuild([(3, document("cat"))]) == 1
    assert index.search("cat").ids == ["3"]


@pytest.mark.contract
def test_cleared_index_is_empty_and_can_be_filled_again(store: Store) -> None:
    index = SearchIndex("items")
    for number in range(20):
        index.index(number, f"cat word{number}", facets={"kind": "pet"}, votes=number)
    assert index.search("cat").total == 20

    index.clear()

    assert (index.count(), index.search("cat").total) == (0, 0)
    assert not [key for key in store.keys() if b":0:" in key]  # noqa: SIM118 - a Store is no dict
    run_async(lambda: index.aindex(1, "cat"))
    run_async(index.aclear)
    assert run_async(lambda: index.arebuild([(5, document("cat"))])) == 1
    assert index.search("cat").ids == ["5"]
