"""What a query may cost: the documents, words, phrases and results that it is bounded to, and how it says so."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from django_redis_components.search import Document, SearchIndex
from django_redis_components.search import request as module
from django_redis_components.search.query import MAX_DROPPED, MAX_EXCLUDED, MAX_PHRASES, MAX_TERMS, MAX_WORDS
from django_redis_components.search.tokens import query_terms
from tests.support import Store


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank at most 10 documents, and look at 20 whole."""
    monkeypatch.setattr(module, "MAX_CANDIDATES", 10)


@pytest.mark.usefixtures("small")
def test_rare_facet_value_is_found_among_the_documents_of_a_frequent_word(redis_server: Store) -> None:
    index = SearchIndex("items")
    for number in range(100):
        index.add(
            number, "word", facets={"kind": "rare" if number % 20 == 7 else "often"}, sort_values={"updated": -number}
        )

    by_relevance = index.search("word", filters={"kind": "rare"})
    newest = index.search("word", filters={"kind": "rare"}, order_by="-updated")

    assert (sorted(by_relevance.ids), by_relevance.is_partial) == (["27", "47", "67", "7", "87"], False)
    assert (newest.ids, newest.is_partial) == (["7", "27", "47", "67", "87"], False)


@pytest.mark.usefixtures("small")
def test_frequent_facet_value_of_a_frequent_word_is_bounded_and_says_so(redis_server: Store) -> None:
    index = SearchIndex("items")
    for number in range(100):
        index.add(number, "word", facets={"kind": "often"})

    page = index.search("word", filters={"kind": "often"}, per_page=100)

    assert (page.paginator.count, page.is_partial) == (10, True)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("query", ["cat", "ca"])
def test_words_of_a_group_are_sorted_whole(redis_server: Store, query: str) -> None:
    index = SearchIndex("items", synonyms={"cat": ["cab"]})
    for number in range(15):
        index.add(number, "cat " + "filler " * number, sort_values={"updated": number})
    for number in range(15, 18):
        index.add(number, "cab", sort_values={"updated": -number})

    page = index.search(query, order_by="-updated", prefix=query == "ca")

    assert (page.ids[0], page.paginator.count, page.is_partial) == ("14", 18, False)


@pytest.mark.usefixtures("small")
def test_words_of_a_frequent_group_come_first_by_the_order(redis_server: Store) -> None:
    index = SearchIndex("items", synonyms={"cat": ["cats"]})
    for number in range(60):
        index.add(number, "cat" if number % 2 else "cats", sort_values={"updated": number})

    page = index.search("cat", order_by="-updated")

    assert (page.ids, page.is_partial) == ([str(number) for number in range(59, 49, -1)], True)


@pytest.fixture
def hostile(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> SearchIndex:
    """Documents that no word, filter or place narrows, each with 64 values of facets; the work of a search is 800."""
    monkeypatch.setattr(module, "MAX_CANDIDATES", 100)
    index = SearchIndex("items", language=None)
    text = " ".join(["all", *(f"w{number:02}" for number in range(31))])
    kinds, places = [f"k{number:02}" for number in range(62)], [(number / 2, 10.0) for number in range(190)]
    index.rebuild(
        (number, Document(text, {"kind": kinds, "rare": f"r{number:03}", "color": "red"}, {"price": number}, place))
        for number, place in enumerate(places)
    )
    return index


SYNONYMS = "w00 +" + " +".join(f"w{number:02}" for number in range(1, 31))
PAIRS = " ".join(f"w{number:02} +w{number + 15:02}" for number in range(16))
EVERYWHERE = {"near": (0.0, 0.0), "within": 20_000.0}


@pytest.mark.parametrize(
    ("query", "options", "sets"),
    [
        (SYNONYMS, {}, 31),
        (f"all {SYNONYMS}", {}, 31),
        (PAIRS, {}, 60),
        ("all w", {"prefix": True}, 20),
        ("w", {"prefix": True}, 20),
        ("all w", {"prefix": True, **EVERYWHERE}, 20),
        (PAIRS, EVERYWHERE, 60),
        (PAIRS + " " + " ".join(f'-"w{number + 1:02} w{number:02}"' for number in range(16)), {}, 70),
    ],
)
def test_documents_are_fewer_the_more_sets_each_is_stored_in(
    hostile: SearchIndex, query: str, options: dict[str, Any], sets: int
) -> None:
    page = hostile.search(query, order_by="price", facets=["kind"], per_page=200, **options)

    assert page.is_partial
    assert 0 < page.paginator.count * sets <= 800


@pytest.mark.parametrize("options", [{}, {"filters": {"kind": "k01"}}, EVERYWHERE])
def test_values_of_facets_are_counted_within_the_work_of_a_search_and_the_page_says_so(
    hostile: SearchIndex, options: dict[str, Any]
) -> None:
    page = hostile.search("all", order_by="price", facets=["kind", "rare"], per_page=200, **options)

    [counted] = set(page.facets["kind"].values())
    assert page.is_partial
    assert 0 < counted <= page.paginator.count <= 190
    assert (counted - 1) * 63 * 0.5 <= 800
    assert set(page.facets["rare"]) == {f"r{int(id_):03}" for id_ in page.ids[:counted]}
    assert hostile.search("all", order_by="price", facets=["kind", "rare"], page=2, **options).is_partial


def test_few_values_of_all_documents_are_counted(hostile: SearchIndex) -> None:
    page = hostile.search("all", order_by="price", facets=["color", "rare"])

    assert (page.paginator.count, page.is_partial, page.facets["color"]) == (190, False, {"red": 190})
    assert len(page.facets["rare"]) == 50


def test_values_of_a_facet_are_not_those_of_one_whose_name_ends_alike(redis_server: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "lamp", facets={"kind": ["a", "b"], "my-kind": "c", "kinds": "d", "kin": "kind=e"})

    page = index.search("lamp", facets=["kind", "my-kind", "kin", "ind"])

    assert page.facets == {"kind": {"a": 1, "b": 1}, "my-kind": {"c": 1}, "kin": {"kind=e": 1}, "ind": {}}


def test_synonyms_beyond_the_bound_are_dropped_and_named() -> None:
    index = SearchIndex("items")

    parsed = index.parse("w0 " + " ".join(f"+w{number}" for number in range(1, 200)))

    assert parsed.groups == (tuple(f"w{number}" for number in range(MAX_TERMS)),)
    assert parsed.dropped == tuple(f"w{number}" for number in range(MAX_TERMS, MAX_TERMS + MAX_DROPPED))


def test_words_phrases_and_exclusions_beyond_the_bounds_are_dropped_and_named() -> None:
    index = SearchIndex("items")

    many = index.parse(" ".join(f"w{number}" for number in range(MAX_WORDS + 2)))
    phrases = index.parse(" ".join(f'"a{number} b"' for number in range(MAX_PHRASES + 1)))
    repeated = index.parse(" ".join(['"red lamp"'] * 50))
    excluded = index.parse("red " + " ".join(f"-w{number}" for number in range(MAX_EXCLUDED + 1)))
    long = index.parse("中文字符很多的一个句子没有空格也没有标点符号所以它是一个长长的词")

    assert (len(many.groups), many.dropped) == (MAX_WORDS, ("w16", "w17"))
    assert (len(phrases.phrases), phrases.dropped) == (MAX_PHRASES, ('"a4 b"',))
    assert (repeated.phrases, repeated.dropped) == (("red lamp",), ())
    assert (len(excluded.excluded), excluded.dropped) == (MAX_EXCLUDED, ("-w16",))
    assert len(query_terms(long.groups[0][0])) <= MAX_TERMS
    assert long.dropped == ("有标点符号所以它是一个长长的词",)


def test_rest_of_a_long_query_is_dropped_and_named() -> None:
    parsed = SearchIndex("items").parse("lamp " + " " * 1_000 + "unicorn")

    assert (parsed.groups, parsed.dropped) == ((("lamp",),), ("unicorn",))
    within = SearchIndex("items").parse("lamp" + " " * 990 + "red unicorn", prefix=True)
    assert (within.groups, within.prefix, within.dropped) == ((("lamp",), ("red",)), False, ("unicorn",))


@pytest.mark.contract
def test_page_of_a_query_with_dropped_words_says_so(store: Store) -> None:
    index = SearchIndex("items")
    words = [f"w{number}" for number in range(20)]
    index.add(1, " ".join(words))

    page = index.search(" ".join(words))

    assert (page.ids, page.is_partial, page.query.dropped) == (["1"], True, ("w16", "w17", "w18", "w19"))


@pytest.mark.contract
def test_pages_show_the_first_documents_of_a_result_and_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SHOWN", 30)
    monkeypatch.setattr("django_redis_components.search.page.MAX_SHOWN", 30)
    index = SearchIndex("items")
    for number in range(50):
        index.add(number, "lamp", facets={"kind": "light"}, sort_values={"updated": number})

    first = index.search("lamp", order_by="-updated", per_page=20, facets=["kind"])
    second = index.search("lamp", order_by="-updated", per_page=20, page=2, facets=["kind"])

    assert (first.paginator.count, first.paginator.num_pages, first.has_next(), second.has_next()) == (
        50,
        2,
        True,
        False,
    )
    assert [*first.ids, *second.ids] == [str(number) for number in range(49, 19, -1)]
    assert first.facets == second.facets == {"kind": {"light": 50}}
    assert index.search("lamp", order_by="-updated", per_page=20, page=3).ids == []


def test_last_page_is_one_that_may_be_asked_for() -> None:
    from django_redis_components.search import ParsedQuery, SearchPage, SearchPaginator

    page = SearchPage((), 1_000, SearchPaginator(5_000, 1), is_partial=True, facets={}, query=ParsedQuery(()))

    assert (page.paginator.num_pages, page.has_next()) == (1_000, False)


@pytest.mark.contract
def test_stored_results_are_bounded_and_the_oldest_is_deleted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESULTS", 5)
    index = SearchIndex("items", result_ttl=30)
    index.add(1, "lamp")

    for number in range(12):
        index.search("lamp" + " " * number + f"-w{number}")

    results = [key for key in store.keys() if b":r:" in key]  # noqa: SIM118 - a Store is no dict
    assert len([key for key in results if key.endswith(b":about")]) == 5
    assert len(results) == 10
    [noted] = [key for key in store.keys() if key.endswith(b":results")]  # noqa: SIM118 - a Store is no dict
    assert store.raw.zcard(noted) == 5
    assert 0 < store.raw.pttl(noted) <= 30_000


def test_facets_of_a_page_come_from_the_stored_result(redis_server: Store) -> None:
    index = SearchIndex("items")
    for number in range(30):
        index.add(number, "lamp", facets={"kind": f"k{number % 3}", "color": "red"})
    first = index.search("lamp", facets=["kind"])
    index.add(99, "lamp", facets={"kind": "k0"})

    assert (
        index.search("lamp", facets=["kind"], page=2).facets == first.facets == {"kind": {"k0": 10, "k1": 10, "k2": 10}}
    )
    assert index.search("lamp", facets=["color"], page=2).facets == {"color": {"red": 30}}
    with pytest.raises(ValueError, match=r"^facets=.*: expected a list of at most 16 names\.$"):
        index.search("lamp", facets=[f"f{number}" for number in range(17)])


def test_phrases_of_many_documents_are_looked_for_in_the_first_ones(redis_server: Store) -> None:
    index = SearchIndex("items")
    for number in range(2_100):
        index.add(number, "red lamp" if number % 2 else "lamp red", sort_values={"updated": number})

    page = index.search('"red lamp"', order_by="-updated")
    without = index.search('red -"red lamp"', order_by="-updated")

    assert (page.ids[0], page.paginator.count, page.is_partial) == ("2099", 1_000, True)
    assert (without.ids[0], without.paginator.count, without.is_partial) == ("2098", 1_000, True)


def test_search_on_a_full_server_raises_unless_its_result_is_stored(own_server: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "lamp")
    before = index.search("lamp")
    own_server.raw.config_set("maxmemory-policy", "noeviction")
    own_server.raw.config_set("maxmemory", 1)

    with pytest.raises(OutOfMemoryError):
        index.search("lamp -x")

    assert (index.search("lamp").object_list, index.count()) == (before.object_list, 1)


def test_document_is_refused_whole_on_a_full_server(own_server: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "lamp")
    own_server.raw.config_set("maxmemory-policy", "noeviction")
    own_server.raw.config_set("maxmemory", 1)

    for id_ in (1, 2):
        with pytest.raises(OutOfMemoryError):
            index.add(id_, "chair", facets={"kind": "x"})

    own_server.raw.config_set("maxmemory", 0)
    assert (index.search("lamp").ids, index.search("chair").ids, index.count()) == (["1"], [], 1)
