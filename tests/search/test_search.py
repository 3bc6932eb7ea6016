"""Searching documents: the grammar, the order, facets, pages, and what a changed document leaves behind."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from django.core.paginator import Paginator
from django.template import engines

from django_redis_components.search import Hit, InvalidSearch, ParsedQuery, SearchIndex
from tests.support import Store, run_async, run_together

DOCUMENTS = {
    1: "The quick black cat sleeps on the mat.",
    2: "A black dog chases the quick cat, and the cat runs.",
    3: "Kittens and cats: black kittens, white cats.",
    4: "C++ and C# are languages; Python is one too.",
    5: "北京大学在北京。",
    6: "東京タワー",
    7: "Émile's café in Łódź",
}


@pytest.fixture
def items(store: Store) -> SearchIndex:
    index = SearchIndex("items", synonyms={"cat": ["cats"]})
    for id_, text in DOCUMENTS.items():
        index.add(id_, text, sort_values={"updated": 1_000 + id_, "votes": id_ % 3})
    return index


def primary_keys(store: Store) -> list[bytes]:
    """Return the keys but those of stored results and of the log of queries, which expire."""
    keys = store.keys()
    return [key for key in keys if not any(part in key for part in (b":r:", b":results", b":slow:", b":empty:"))]


def ids(index: SearchIndex, query: str, **options: Any) -> list[int]:
    return [int(id_) for id_ in index.search(query, **options).ids]


@pytest.mark.contract
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("cat", {1, 2, 3}),
        ("CAT black", {1, 2, 3}),
        ("black cat -dog", {1, 3}),
        ("kittens +dog", {2, 3}),
        ("black -cat -cats", set()),
        ('"black cat"', {1}),
        ('"quick cat" black', {2}),
        ('black -"quick cat"', {1, 3}),
        ('cat -"the cat"', {1, 3}),
        ("京 -北京大学", {6}),
        ('京 -"北京大学"', {6}),
        ("c++", {4}),
        ("c#", {4}),
        ("京", {5, 6}),
        ("北京", {5}),
        ("北京大学", {5}),
        ("大北", set()),
        ("tower", set()),
        ("タワー", {6}),
        ("emile lodz", {7}),
        ("CAFÉ", {7}),
        ("nothing", set()),
    ],
)
def test_grammar(items: SearchIndex, query: str, found: set[int]) -> None:
    assert set(ids(items, query)) == found


@pytest.mark.parametrize("query", ["", " ", "the and of", "-dog", "+", "-", '""', '"', "+-", "!?", "the -cat"])
def test_query_without_words_finds_nothing(items: SearchIndex, query: str) -> None:
    page = items.search(query)

    assert (page.object_list, page.paginator.count, page.paginator.num_pages, page.has_next()) == ((), 0, 1, False)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("new york", "the words new, york"),
        ("t-shirt", "the words t, shirt"),
        ("O'Brien", "the words o, brien"),
        ("the", "none, or a stop word"),
        ("", "none, or a stop word"),
        ("!", "none, or a stop word"),
    ],
)
def test_synonyms_of_what_is_not_one_searched_word_are_refused(word: str, found: str) -> None:
    expected = f"synonyms[{word!r}]: expected one word that queries may have, got {found}."
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        SearchIndex("items", synonyms={word: ["x"]})


def test_synonyms_of_two_spellings_of_a_word_are_joined(redis_server: Store) -> None:
    assert SearchIndex("items", synonyms={"Car": ["auto"], "car": ["voiture"]}).parse("car").groups == (
        ("car", "auto", "voiture"),
    )
    stemmed = SearchIndex("items", stemmer="english", synonyms={"run": ["jog"], "running": ["sprint"]})
    assert stemmed.parse("runs").groups == (("run", "jog", "sprint"),)


def test_parsed_query_names_groups_synonyms_and_exclusions() -> None:
    index = SearchIndex("items", synonyms={"Car": ["automobile"]})

    assert index.parse('the car +lorry red -"old rust" "new york"') == ParsedQuery(
        groups=(("car", "lorry", "automobile"), ("red",), ("new",), ("york",)),
        excluded=(("old", "rust"),),
        excluded_phrases=("old rust",),
        phrases=("new york",),
    )
    assert index.parse("red ca", prefix=True).prefix
    assert index.parse("the", prefix=True) == ParsedQuery((("the",),), prefix=True)


@pytest.mark.contract
def test_reindexed_document_has_no_stale_word_value_or_facet(store: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "black cat", facets={"kind": ["pet", "animal"]}, sort_values={"votes": 3, "price": 7})

    index.add(1, "white dog", facets={"kind": "pet"}, sort_values={"votes": 4})

    assert [index.search(word).paginator.count for word in ("black", "cat", "white", "dog")] == [0, 0, 1, 1]
    page = index.search("dog", facets=["kind"], order_by="-votes")
    assert (page.facets, page[0].score) == ({"kind": {"pet": 1}}, 4.0)
    assert index.search("dog", order_by="-price")[0].score == 0
    assert index.search("dog", filters={"kind": "animal"}).paginator.count == 0
    base = f"{store.prefix}:search:{{items}}:v5"
    names = {key.decode().removeprefix(base) for key in primary_keys(store)}
    assert names == {
        ":gen",
        ":0:docs",
        ":0:facets",
        ":0:names",
        ":0:stats",
        ":0:vocabulary",
        ":0:w:white",
        ":0:w:dog",
        ":0:s:votes",
        ":0:f:kind=pet",
    }


@pytest.mark.contract
def test_removed_documents_leave_no_key_of_theirs(store: Store) -> None:
    index = SearchIndex("items")
    for id_, text in DOCUMENTS.items():
        index.add(id_, text, facets={"kind": "text"}, sort_values={"votes": 1})

    for id_ in DOCUMENTS:
        index.remove(id_)
    index.remove(404)

    base = f"{store.prefix}:search:{{items}}:v5".encode()
    assert sorted(store.keys()) == [base + b":0:stats", base + b":gen"]
    assert float(store.raw.hget(base + b":0:stats", "length")) == 0
    assert index.count() == 0


def test_sort_values_change_without_reindexing(items: SearchIndex) -> None:
    assert ids(items, "cat", order_by="-updated") == [3, 2, 1]

    items.add(1, DOCUMENTS[1], sort_values={"updated": 9_999, "votes": 0})

    assert ids(items, "cat", order_by="-updated") == [1, 3, 2]
    assert ids(items, "cat", order_by="updated") == [2, 3, 1]


def test_weights_of_several_orders_are_added_up(items: SearchIndex) -> None:
    by_votes = items.search("cat", order_by={"votes": 1_000, "updated": 1})

    assert [(hit.id, hit.score) for hit in by_votes] == [("2", 3002.0), ("1", 2001.0), ("3", 1003.0)]
    relevant = {hit.id: hit.score for hit in items.search("cat")}
    both = items.search("cat", order_by={"relevance": 10, "votes": 1})
    assert {hit.id: round(hit.score, 6) for hit in both} == {
        id_: round(10 * score + int(id_) % 3, 6) for id_, score in relevant.items()
    }


def test_documents_are_ordered_by_the_first_bytes_of_a_text(store: Store) -> None:
    index = SearchIndex("items")
    names = ["", "Anna", "Émile", "anna maria", "zoe", "Ждан", "北京", "京都"]
    for id_, name in enumerate(names):
        index.add(id_, "all", sort_values={"name": name})

    order = [names[number] for number in ids(index, "all", order_by="name")]

    assert order.index("") == 0
    assert [name for name in order if name[:1].isascii() or name == "Émile"] == [
        "",
        "Anna",
        "anna maria",
        "Émile",
        "zoe",
    ]
    assert order[5:] == ["Ждан", "京都", "北京"]


def test_relevance_prefers_rare_words_frequent_words_short_documents_and_heavy_fields(store: Store) -> None:
    index = SearchIndex("items", fields={"title": 3, "body": 1})
    index.add("often", {"title": "", "body": "lamp lamp lamp chair"})
    index.add("once", {"title": "", "body": "lamp chair table shelf"})
    index.add("long", {"title": "", "body": "lamp " + "other " * 60})
    index.add("title", {"title": "lamp", "body": "chair"})

    assert index.search("lamp").ids == ["title", "often", "once", "long"]
    for number in range(20):
        index.add(f"filler{number}", {"title": "chair", "body": ""})
    index.add("rare", {"title": "", "body": "unicorn other other other"})
    index.add("common", {"title": "", "body": "chair other other other"})
    assert index.search("unicorn +chair").ids[0] == "rare"


@pytest.mark.contract
def test_facets_are_counted_and_filtered(store: Store) -> None:
    index = SearchIndex("items")
    for number in range(12):
        index.add(
            number, "cat", facets={"kind": ["pet", "old"][number % 2], "color": ["red", "blue", "red"][number % 3]}
        )

    page = index.search("cat", facets=["kind", "color", "unknown"])

    assert page.facets == {"kind": {"old": 6, "pet": 6}, "color": {"red": 8, "blue": 4}, "unknown": {}}
    assert index.search("cat", filters={"kind": "pet", "color": "red"}, facets=["kind"]).facets == {"kind": {"pet": 4}}
    assert index.search("cat", filters={"kind": "nothing"}).paginator.count == 0


@pytest.mark.contract
def test_pages_come_from_one_stored_result_and_nothing_else_expires(store: Store) -> None:
    index = SearchIndex("items", result_ttl=30)
    for number in range(25):
        index.add(number, "cat", sort_values={"updated": number})

    first = index.search("cat", order_by="-updated", per_page=10)
    index.add(99, "cat", sort_values={"updated": 99})
    index.remove(24)
    second = index.search("cat", order_by="-updated", per_page=10, page=2)
    third = index.search("cat", order_by="-updated", per_page=10, page=3)

    assert [*first.ids, *second.ids, *third.ids] == [str(number) for number in range(24, -1, -1)]
    assert (first.paginator.count, first.paginator.num_pages, first.has_next(), third.has_next()) == (
        25,
        3,
        True,
        False,
    )
    assert index.search("cat", order_by="-updated", per_page=10).ids[0] == "99"
    results = [key for key in store.keys() if b":r:" in key]  # noqa: SIM118 - a Store is no dict
    assert all(0 < store.raw.pttl(key) <= 30_000 for key in results)
    assert {store.raw.pttl(key) for key in primary_keys(store)} == {-1}
    assert len(results) == 2, "temporary keys are deleted"


def test_last_word_may_be_the_beginning_of_a_word(items: SearchIndex) -> None:
    assert set(ids(items, "kit", prefix=True)) == {3}
    assert set(ids(items, "black kit", prefix=True)) == {3}
    assert set(ids(items, "bla ca", prefix=True)) == set()
    assert set(ids(items, "ca", prefix=True)) == {1, 2, 3, 7}
    assert set(ids(items, "t", prefix=True)) == {4}, "stop words are not indexed"
    assert set(SearchIndex("items", synonyms={"kit": ["dog"]}).search("kit", prefix=True).ids) == {"2", "3"}
    assert ids(items, "kit") == []


def test_common_word_is_bounded_and_says_so(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from django_redis_components.search import request as module

    monkeypatch.setattr(module, "MAX_CANDIDATES", 25)
    index = SearchIndex("items")
    for number in range(120):
        index.add(number, "common rare" if number % 40 == 0 else "common", sort_values={"updated": number})

    page = index.search("common", order_by="-updated", per_page=100)
    assert (page.paginator.count, page.is_partial, page.ids[0]) == (25, True, "119")
    assert index.search("common", order_by="updated").ids[0] == "0"
    assert (index.search("common").paginator.count, index.search("common").is_partial) == (25, True)
    assert (index.search("common rare").paginator.count, index.search("common rare").is_partial) == (3, False)
    assert index.search("comm", prefix=True).is_partial


def test_words_of_up_to_twice_the_bound_are_sorted_whole(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from django_redis_components.search import request as module

    monkeypatch.setattr(module, "MAX_CANDIDATES", 25)
    index = SearchIndex("items")
    for number in range(300):
        index.add(number, "word" if number < 45 else "other", sort_values={"updated": number})

    newest = index.search("word", order_by="-updated", per_page=100)
    assert (newest.paginator.count, newest.is_partial, newest.ids[0]) == (45, False, "44")
    assert index.search("other", order_by="updated").paginator.count == 0, "not among the first 25"
    assert index.search("other", order_by="updated").is_partial


def test_random_queries_equal_a_model(redis_server: Store) -> None:
    rng = random.Random(7)
    vocabulary = ["aa", "ab", "ba", "bb", "cc", "dd"]
    index, model = SearchIndex("items", language=None), {}
    for step in range(300):
        id_ = str(rng.randrange(40))
        if rng.random() < 0.2:
            index.remove(id_)
            model.pop(id_, None)
            continue
        text = [rng.choice(vocabulary) for _ in range(rng.randrange(1, 6))]
        index.add(id_, " ".join(text))
        model[id_] = text

        wanted, other, without = (rng.choice(vocabulary) for _ in range(3))
        expected = {one for one, words in model.items() if {wanted, other} & set(words) and without not in words}
        assert set(index.search(f"{wanted} +{other} -{without}", per_page=200).ids) == expected, step
        pair = f"{wanted} {other}"
        phrases = {one for one, words in model.items() if pair in " ".join(words)}
        assert set(index.search(f'"{pair}"', per_page=200).ids) == phrases, step
    assert index.count() == len(model)


def test_concurrent_writers_of_one_document_leave_one_version(store: Store) -> None:
    index = SearchIndex("items")

    def write(number: int) -> None:
        for step in range(20):
            index.add(1, f"writer{number} step{step}", sort_values={"votes": number})
            index.search(f"writer{number}")

    run_together(5, write)

    found = [number for number in range(5) if index.search(f"writer{number}").paginator.count]
    assert len(found) == 1
    base = f"{store.prefix}:search:{{items}}:v5:0"
    assert store.raw.zcard(f"{base}:vocabulary") == 2


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    index = SearchIndex("items")

    async def scene() -> list[object]:
        await index.aadd(1, "black cat", sort_values={"votes": 1})
        await index.aadd(2, "cat")
        await index.aremove(2)
        return [(await index.asearch("cat")).ids, await index.acount()]

    assert run_async(scene) == [["1"], 1]


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            lambda: SearchIndex("a{b}"),
            "index name 'a{b}': braces are not accepted; they mark the Cluster slot in keys.",
        ),
        (lambda: SearchIndex("a", language="xx"), "language='xx': expected one of de, en, es, fr, ru, zh, or None."),
        (lambda: SearchIndex("a", fields={"t": 0}), "fields['t']=0: expected a number above 0, at most 1000."),
        (lambda: SearchIndex("a").add(1, 7), "text=7: expected a string, or a mapping of fields to strings."),
        (
            lambda: SearchIndex("a").add(1, {"x": "y"}),
            "text has the unknown field 'x': fields of the index are none.",
        ),
        (
            lambda: SearchIndex("a").add(1, "x", sort_values={"votes": "nan" and float("nan")}),
            "votes=nan: expected a finite number, or a string.",
        ),
        (
            lambda: SearchIndex("a").add(1, "x", sort_values={"votes": True}),
            "votes=True: expected a number, or a string.",
        ),
        (lambda: SearchIndex("a").add(1, "x", facets={"a=b": "c"}), "facet 'a=b': '=' is not accepted."),
        (lambda: SearchIndex("a").add("", "x"), "id is empty: expected 1 to 200 bytes of text."),
        (lambda: SearchIndex("a").search(None), "query=None: expected a string."),
        (
            lambda: SearchIndex("a").add(1, "x", sort_values={"distance": 1}),
            "sort value 'distance': the name means an order of search; choose another.",
        ),
        (
            lambda: SearchIndex("a").add(1, "x", location=(181, 0)),
            "location=(181, 0): expected (longitude, latitude) in degrees, at most 180 and 85.",
        ),
        (
            lambda: SearchIndex("a").search("x", near="Berlin"),
            "near='Berlin': expected (longitude, latitude) in degrees, at most 180 and 85.",
        ),
        (
            lambda: SearchIndex("a").search("x", near=(1, float("nan"))),
            "near=(1, nan): expected (longitude, latitude) in degrees, at most 180 and 85.",
        ),
        (
            lambda: SearchIndex("a").search("x", near=(1, 1), within=0),
            "within=0: expected a number above 0, at most 20000 (kilometers).",
        ),
        (
            lambda: SearchIndex("a").search("x", order_by="distance"),
            "order_by='distance': expected near=(longitude, latitude), for the distance from there.",
        ),
        (lambda: SearchIndex("a").search("x", page=0), "page=0: expected an integer from 1 to 1000."),
        (lambda: SearchIndex("a").search("x", per_page=201), "per_page=201: expected an integer from 1 to 200."),
        (lambda: SearchIndex("a").search("x", order_by={}), "order_by={}: expected a name, or weights by name."),
    ],
)
def test_invalid_arguments_raise_with_the_reason(redis_server: Store, call: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(problem)}$"):
        call()


@pytest.mark.parametrize("query", ["\x00", "a\ud800b", "x" * 100_000, '"' * 999, "-+" * 500, "{a}", "[a", "*", "a\xff"])
def test_hostile_queries_are_searched(items: SearchIndex, query: str) -> None:
    for prefix in (False, True):
        assert items.search(query, prefix=prefix).paginator.count >= 0


@pytest.mark.contract
def test_rare_values_of_a_facet_are_counted(store: Store) -> None:
    index = SearchIndex("items")
    for number in range(120):
        index.add(number, "often", facets={"seller": [f"s{number % 60}", "all"]})
    index.add("rare", "unicorn", facets={"seller": "only"})

    assert index.search("unicorn", facets=["seller"]).facets == {"seller": {"only": 1}}
    counts = index.search("often", facets=["seller"]).facets["seller"]
    assert (len(counts), counts["all"], next(iter(counts)), set(counts.values())) == (50, 120, "all", {120, 2})


@pytest.mark.contract
def test_phrases_do_not_match_across_fields(store: Store) -> None:
    index = SearchIndex("items", fields={"title": 3, "body": 1})
    index.add(1, {"title": "red lamp", "body": "shade of paper"})
    index.add(2, {"title": "red", "body": "lamp shade"})

    assert index.search('"lamp shade"').ids == ["2"]
    assert index.search('"red lamp"').ids == ["1"]
    assert index.search("lamp red").paginator.count == 2


def test_search_finds_the_newest_while_others_write(redis_server: Store) -> None:
    index = SearchIndex("items")

    def write(number: int) -> None:
        for step in range(15):
            index.add(
                f"{number}-{step}", f"lamp word{number}", facets={"kind": f"k{number}"}, sort_values={"updated": step}
            )
            page = index.search(f"lamp word{number}", order_by="-updated", facets=["kind"])
            assert (page.ids[0], page.facets["kind"]) == (f"{number}-{step}", {f"k{number}": step + 1})

    run_together(4, write)

    assert index.search("lamp", facets=["kind"]).facets == {"kind": {f"k{number}": 15 for number in range(4)}}


def test_random_searches_with_filters_orders_and_beginnings_equal_a_model(redis_server: Store) -> None:
    rng = random.Random(11)
    vocabulary = ["aa", "ab", "ba", "bb", "cc", "cd"]
    index, model = SearchIndex("items", language=None, synonyms={"cc": ["aa bb"]}), {}
    for number in range(60):
        words, kind = [rng.choice(vocabulary) for _ in range(rng.randrange(1, 7))], rng.choice("xy")
        index.add(number, " ".join(words), facets={"kind": kind}, sort_values={"updated": number})
        model[number] = (words, kind)

    def matches(words: list[str], wanted: str, other: str, beginning: str, excluded: str) -> bool:
        texts = [[wanted], [other]] + [["aa", "bb"]] * ("cc" in (wanted, other))
        return (
            any(set(text) <= set(words) for text in texts)
            and any(word.startswith(beginning) for word in words)
            and excluded not in " ".join(words)
        )

    for step in range(400):
        wanted, other, first, second = (rng.choice(vocabulary) for _ in range(4))
        beginning, kind, order = rng.choice("abc"), rng.choice(["", "x", "y"]), rng.choice(["updated", "-updated"])
        query = f'{wanted} +{other} -"{first} {second}" {beginning}'

        page = index.search(
            query, prefix=True, filters={"kind": kind} if kind else {}, order_by=order, per_page=200, facets=["kind"]
        )

        expected = [
            number
            for number, (words, its_kind) in model.items()
            if kind in ("", its_kind) and matches(words, wanted, other, beginning, f"{first} {second}")
        ]
        assert [int(id_) for id_ in page.ids] == sorted(expected, reverse=order == "-updated"), (step, query)
        kinds = [model[number][1] for number in expected]
        assert page.facets["kind"] == {one: kinds.count(one) for one in set(kinds)}, (step, query)


@pytest.mark.parametrize("name", ["id", "text", "facets", "location", "self", "price"])
def test_sort_values_may_have_the_names_of_arguments(redis_server: Store, name: str) -> None:
    index = SearchIndex("items")
    index.add(1, "cat", sort_values={name: 2})
    index.add(2, "cat", sort_values={name: 1})

    assert index.search("cat", order_by=name).ids == ["2", "1"]


PAGES = """{% for hit in page_obj %}{{ hit.id }} {% endfor %}{{ page_obj.number }}/{{ page_obj.paginator.num_pages }} of
 {{ page_obj.paginator.count }}{% if page_obj.has_previous %} back {{ page_obj.previous_page_number }}{% endif %}
{% if page_obj.has_next %} on {{ page_obj.next_page_number }}{% endif %}  {{ page_obj.start_index }}
-{{ page_obj.end_index }} {% for number in page_obj.paginator.page_range %}[{{ number }}]{% endfor %}"""


def test_template_that_pages_a_page_of_django_pages_a_search_page(redis_server: Store) -> None:
    index = SearchIndex("items")
    for number in range(5):
        index.add(number, "cat", sort_values={"order": number})
    ids = Paginator([Hit(str(number), number) for number in range(5)], 2)
    template = engines["django"].from_string(PAGES)

    for number in (1, 2, 3):
        page = index.search("cat", order_by="order", page=number, per_page=2)
        assert template.render({"page_obj": page}) == template.render({"page_obj": ids.page(number)})
        assert repr(page) == f"<SearchPage {number} of 3>"
    beyond = index.search("cat", page=9, per_page=2)
    assert (list(beyond), beyond.has_next(), beyond.previous_page_number()) == ([], False, 3)
    with pytest.raises(TypeError, match=r"search again with page=2\."):
        beyond.paginator.page(2)


@pytest.mark.parametrize("text", ["2", " 3 ", "4", "99999", "0", "-1", "x", "1.5", "", None, "9" * 5_000])
def test_page_of_a_request_is_that_of_django(redis_server: Store, text: str | None) -> None:
    index = SearchIndex("items")
    for number in range(5):
        index.add(number, "cat", sort_values={"order": number})
    expected = Paginator(list("01234"), 2).get_page(text)

    page = index.search("cat", order_by="order", page=text, per_page=2)

    assert (page.number, page.ids) == (expected.number, expected.object_list)
    assert index.search("the", page=text).number == 1


@pytest.mark.parametrize(
    "options",
    [
        {"order_by": ""},
        {"order_by": "-"},
        {"order_by": "x" * 1_000},
        {"order_by": {"price": float("inf")}},
        {"order_by": "distance"},
        {"filters": {"kind": "a\0"}},
        {"filters": {"kind": ""}},
        {"filters": {"a=b": "x"}},
        {"facets": ["a=b\n"]},
        {"near": (200.0, 95.0)},
        {"within": -1},
        {"page": 0},
        {"per_page": 201},
    ],
    ids=str,
)
def test_value_that_a_visitor_may_choose_is_refused_by_one_exception(options: dict[str, Any]) -> None:
    for query in ("lamp", ""):
        with pytest.raises(InvalidSearch) as raised:
            SearchIndex("items").search(query, **options)

        assert isinstance(raised.value, ValueError)
        assert str(raised.value)


@pytest.mark.parametrize("query", ["\0", "x" * 100_000, '"', "-", "title:", "OR OR", "\ud800", "( ) * ~ \n"])
def test_any_query_of_a_visitor_is_accepted(redis_server: Store, query: str) -> None:
    assert SearchIndex("items").search(query, prefix=True).ids == []
