"""The grammar of queries, compared with a simple model."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from django_redis_components.search import SearchIndex
from django_redis_components.search.query import MAX_TERMS, MAX_WORDS, parse
from tests.support import Store

WORDS = [f"w{number}" for number in range(20)]
PARTS = st.lists(st.tuples(st.sampled_from(["", "", "+", "-"]), st.sampled_from(WORDS)), max_size=60)


def groups_of(parts: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the words of a query, each with its synonyms: a repeated word is the same word."""
    groups: dict[str, list[str]] = {}
    last: str | None = None
    for sign, word in parts:
        count = sum(map(len, groups.values()))
        if sign == "+" and groups:
            if last is not None and word not in groups[last] and count < MAX_TERMS:
                groups[last].append(word)
        elif sign != "-":
            if word not in groups and len(groups) < MAX_WORDS and count < MAX_TERMS:
                groups[word] = [word]
            last = word if word in groups else None
    return groups


@settings(deadline=None, database=None)
@given(PARTS)
def test_synonyms_belong_to_the_word_before(parts: list[tuple[str, str]]) -> None:
    parsed = parse(" ".join(sign + word for sign, word in parts))

    assert parsed.groups == tuple(map(tuple, groups_of(parts).values()))


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("cat dog cat +kitten", (("cat", "kitten"), ("dog",))),
        ("cat +kitten dog cat +puppy", (("cat", "kitten", "puppy"), ("dog",))),
        ('cat "dog cat" +kitten', (("cat", "kitten"), ("dog",))),
        ("cat the +kitten", (("cat", "kitten"),)),
        ("+cat +kitten", (("cat", "kitten"),)),
    ],
)
def test_synonym_after_a_repeated_word_belongs_to_that_word(query: str, groups: tuple[tuple[str, ...], ...]) -> None:
    assert parse(query, {"the"}).groups == groups


@pytest.mark.parametrize(
    "query",
    [
        "„black cat“ －dog",
        "«black cat» −dog",
        "« black cat » -dog",
        "“black cat” -dog",
        "＂black cat＂ -dog",
        "「black cat」 -dog",
    ],
)
def test_signs_of_a_query_may_be_those_of_any_keyboard(query: str) -> None:
    assert parse(query) == parse('"black cat" -dog')


def test_synonym_of_a_dropped_word_is_dropped_and_named() -> None:
    parsed = parse(" ".join([*WORDS[: MAX_WORDS + 1], "+kitten", WORDS[0], "+puppy"]))

    assert parsed.groups == (("w0", "puppy"), *((word,) for word in WORDS[1:MAX_WORDS]))
    assert parsed.dropped == ("w16", "kitten")


@pytest.mark.contract
def test_documents_need_the_other_words_of_a_query_with_a_repeated_word(store: Store) -> None:
    index = SearchIndex("items")
    for number, text in enumerate(["cat dog", "cat kitten", "kitten dog", "dog"]):
        index.add(number, text)

    assert sorted(index.search("cat dog cat +kitten").ids) == ["0", "2"]
