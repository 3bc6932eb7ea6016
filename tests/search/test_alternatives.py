"""``OR`` and ``field:`` in queries."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.search import SearchIndex
from django_redis_components.search.query import MAX_TERMS, parse
from tests.support import Store


@pytest.fixture
def books(redis_server: Store) -> SearchIndex:
    index = SearchIndex(
        "books",
        fields={"title": 3, "body": 1},
        field_queries=["title", "body"],
        synonyms={"cat": ["kitten"]},
        stemmer="english",
    )
    index.add(1, {"title": "Black cats", "body": "a dog sleeps"})
    index.add(2, {"title": "White dog", "body": "and a black cat"})
    index.add(3, {"title": "Kitten", "body": "北京大学 한국"})
    index.add(4, {"title": "北京", "body": "bird"})
    return index


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("cat OR dog", (("cat", "dog"),)),
        ("black cat OR dog", (("black",), ("cat", "dog"))),
        ("cat OR dog OR bird white", (("cat", "dog", "bird"), ("white",))),
        ('"black cat" OR dog', (("black cat", "dog"),)),
        ("cat or dog", (("cat",), ("or",), ("dog",))),
        ("OR cat", (("or",), ("cat",))),
        ("cat OR", (("cat",), ("or",))),
        ("cat OR OR dog", (("cat", "or"), ("dog",))),
        ("cat OR -dog", (("cat",), ("or",))),
        ("-cat OR dog", (("or",), ("dog",))),
        ("cat +kitten OR dog", (("cat", "kitten", "dog"),)),
        ("cat OR dog +kitten", (("cat", "dog", "kitten"),)),
        ("the OR cat", (("cat",),)),
        ('"OR" cat', (("or",), ("cat",))),
        ("cat OR cat", (("cat",),)),
        ("title:cat", (("title",), ("cat",))),
    ],
)
def test_or_makes_alternatives(query: str, groups: tuple[tuple[str, ...], ...]) -> None:
    assert parse(query, {"the"}).groups == groups


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("title:cat", ((":title:cat",),)),
        ("title:cat dog", ((":title:cat",), ("dog",))),
        ('title:"black cat"', ((":title:black",), (":title:cat",))),
        ("title:cat OR body:dog", ((":title:cat", ":body:dog"),)),
        ("+title:cat", ((":title:cat",),)),
        ("year:cat", (("year",), ("cat",))),
        ("Title:cat", (("title",), ("cat",))),
        ("title: cat", (("title",), ("cat",))),
        ("title:", (("title",),)),
        ("title:body:cat", ((":title:body",), (":title:cat",))),
    ],
)
def test_field_is_read_before_a_word(query: str, groups: tuple[tuple[str, ...], ...]) -> None:
    assert parse(query, field_queries=("title", "body")).groups == groups


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("cat OR bird", ["1", "2", "3", "4"]),
        ("white OR bird", ["2", "4"]),
        ("dog white OR sleep", ["1", "2"]),
        ('"black cat" OR bird', ["1", "2", "4"]),
        ("title:cat", ["1", "3"]),
        ("title:cats", ["1", "3"]),
        ("body:cat", ["2"]),
        ("dog -title:dog", ["1"]),
        ("title:dog OR title:bird", ["2"]),
        ("title:dog OR body:bird", ["2", "4"]),
        ('title:"black cats"', ["1"]),
        ("title:北京", ["4"]),
        ("body:北京大", ["3"]),
        ("title:unicorn", []),
    ],
)
def test_alternatives_and_fields_are_searched(books: SearchIndex, query: str, found: list[str]) -> None:
    assert sorted(books.search(query).ids) == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("title:ca", ["1"]),
        ("body:한ㄱ", ["3"]),
        ("bird OR sle", ["1", "4"]),
        ("white OR title:kit", ["2", "3"]),
        ("ti", []),
        ("bird OR", []),
    ],
)
def test_last_word_may_be_a_beginning(books: SearchIndex, query: str, found: list[str]) -> None:
    assert sorted(books.search(query, prefix=True).ids) == found


def test_words_of_a_field_and_of_alternatives_are_marked(books: SearchIndex) -> None:
    page = books.search("title:cat OR sleeping")

    assert [part.text for part in page.highlight("Cats sleep") if part.is_match] == ["Cats", "sleep"]


def test_alternatives_are_within_the_bound_of_terms() -> None:
    parsed = parse(" OR ".join(f"w{number}" for number in range(MAX_TERMS + 3)))

    assert [len(group) for group in parsed.groups] == [MAX_TERMS]
    assert parsed.dropped == ("w32", "w33", "w34")


def test_fields_of_an_index_without_field_queries_are_words(redis_server: Store) -> None:
    index = SearchIndex("books", fields={"title": 1})
    index.add(1, {"title": "title cat"})
    index.add(2, {"title": "cat"})

    assert index.search("title:cat").ids == ["1"]


@pytest.mark.parametrize(
    ("names", "kind", "text"),
    [
        (["year"], ValueError, "a field in field_queries='year': expected one of 'title', 'a-b'"),
        (["a-b"], ValueError, "field_queries='a-b': expected a name of letters, digits and underscores"),
        ("title", TypeError, "field_queries='title': expected an iterable of names of fields"),
        ([5], TypeError, "a field in field_queries=5"),
    ],
)
def test_other_names_of_fields_are_refused(names: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        SearchIndex("books", fields={"title": 1, "a-b": 1}, field_queries=names)
