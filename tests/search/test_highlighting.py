"""Marking the words of a query in a text, and cutting snippets."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from django.template import Context, Template
from hypothesis import given, settings
from hypothesis import strategies as st

from django_redis_components.search import SearchIndex, TextPart
from django_redis_components.search.highlighting import highlight
from django_redis_components.search.snippets import Match, best_start
from tests.support import Store


def marked(text: str, query: str, max_chars: int | None = None, *, prefix: bool = False) -> str:
    index = SearchIndex("items", synonyms={"car": ["automobile"]})
    parts = highlight(text, index.parse(query, prefix=prefix), max_chars)
    return "".join(f"[{part.text}]" if part.is_match else part.text for part in parts)


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("The black cat.", "cat", "The black [cat]."),
        ("The black cat.", "the CAT black", "The [black] [cat]."),
        ("Cats and a cat", "cat", "Cats and a [cat]"),
        ("Émile's cafe\u0301", "emile CAFÉ", "[Émile]'s [café]"),
        ("My automobile", "car", "My [automobile]"),
        ("black dog, black cat", '"black cat" -dog', "[black] dog, [black] [cat]"),
        ("C++ and C", "c++", "[C++] and C"),
        ("snake_case_name", "case", "snake_[case]_name"),
        ("北京大学在北京。", "北京", "[北京]大学在[北京]。"),
        ("我在北京大学", "北京大学", "我在[北京大学]"),
        ("東京タワー", "タワー", "東京[タワー]"),
        ("Straße 5", "strasse", "[Straße] 5"),
        ("nothing", "cat", "nothing"),
        ("", "cat", ""),
        ("cat", "", "cat"),
    ],
)
def test_words_of_the_query_are_marked(text: str, query: str, expected: str) -> None:
    assert marked(text, query) == expected


def test_incomplete_last_word_marks_the_words_that_begin_with_it() -> None:
    assert marked("Black kittens, kit", "bla kit", prefix=True) == "Black [kittens], [kit]"
    assert marked("Black kittens, kit", "kit") == "Black kittens, [kit]"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("ㅎ", "[한]국어와 [한]국"),
        ("하", "[한]국어와 [한]국"),
        ("한", "[한]국어와 [한]국"),
        ("한ㄱ", "[한국]어와 [한국]"),
        ("한구", "[한국]어와 [한국]"),
        ("한국", "[한국]어와 [한국]"),
        ("국ㅇ", "한[국어]와 한국"),
        ("ㄱ", "한[국]어와 한[국]"),
        ("칼", "한국어와 한국"),
    ],
)
def test_incomplete_hangul_marks_the_syllables_that_it_becomes(typed: str, expected: str) -> None:
    assert marked("한국어와 한국", typed, prefix=True) == expected


def test_incomplete_last_word_in_han_marks_whole_characters_only() -> None:
    assert marked("我在北京大学", "北京", prefix=True) == "我在[北京]大学"


MATCHES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12), st.integers(0, 4)), max_size=40)


@settings(deadline=None)
@given(MATCHES, st.integers(1, 40))
def test_best_part_is_that_of_a_look_at_all_parts(ranges: list[tuple[int, int, int]], length: int) -> None:
    matches = [Match(start, start + chars, group) for start, chars, group in sorted(ranges)]

    def groups_from(number: int) -> int:
        limit = matches[number].start + length
        return len({each.group for each in itertools.takewhile(lambda each: each.end <= limit, matches[number:])})

    counts = [groups_from(number) for number in range(len(matches))]
    most = max(counts, default=0)
    assert best_start(matches, length) == (matches[counts.index(most)].start if most else 0)


def test_each_match_is_looked_at_a_bounded_number_of_times() -> None:
    class CountedMatches(list[Match]):
        looks = 0

        def __getitem__(self, index: Any) -> Any:
            self.looks += 1
            return super().__getitem__(index)

    matches = CountedMatches(Match(5 * at, 5 * at + 4, at % 2) for at in range(20_000))

    assert best_start(matches, 100_000) == 0
    assert matches.looks <= 3 * len(matches)


def test_snippet_has_the_part_with_the_most_words_of_the_query() -> None:
    text = "one lamp " + "word " * 60 + "a black and quiet cat sleeps here " + "word " * 60

    snippet = marked(text, "lamp black cat", 60)

    assert snippet.startswith("… ")
    assert snippet.endswith(" …")
    assert "[black] and quiet [cat]" in snippet
    assert len(snippet) <= 60 + 4 + 4
    assert marked(text, "lamp", 40).startswith("one [lamp] word")
    assert marked(text, "absent", 20) == "one lamp word word …"
    assert marked("short", "absent", 20) == "short"


@settings(deadline=None)
@given(st.text(), st.text(max_size=20), st.none() | st.integers(1, 60))
def test_parts_of_any_text_make_up_the_text(text: str, query: str, max_chars: int | None) -> None:
    import unicodedata

    index = SearchIndex("items", log_queries=False)
    parts = highlight(text, index.parse(query), max_chars)

    whole = unicodedata.normalize("NFC", text)
    joined = "".join(part.text for part in parts)
    if max_chars is None:
        assert joined == whole
    else:
        assert joined.removeprefix("… ").removesuffix(" …") in whole


@pytest.mark.contract
@pytest.mark.parametrize("max_chars", [0, -1, "150", 1.5])
def test_length_of_a_snippet_is_checked(max_chars: Any) -> None:
    expected = f"max_chars={max_chars!r}: expected an integer of at least 1."
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(expected)}$"):
        marked("black cat", "cat", max_chars)


def test_page_marks_its_query_and_the_tag_escapes(store: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "a <b>cat</b>")
    page = index.search("cat")

    assert page.highlight("a <b>cat</b>") == (TextPart("a <b>", False), TextPart("cat", True), TextPart("</b>", False))
    template = Template("{% load redis_components %}{% highlight page text %}|{% highlight page text max_chars=3 %}")
    html = template.render(Context({"page": page, "text": "a <b>cat</b>"}))
    assert html.startswith("a &lt;b&gt;<mark>cat</mark>&lt;/b&gt;|")
    assert "<b>" not in html


@pytest.mark.parametrize("page", ["", None, 5])
def test_tag_refuses_what_is_no_result_of_a_search(page: object) -> None:
    template = Template("{% load redis_components %}{% highlight page 'a cat' %}")

    with pytest.raises(TypeError, match=rf"^page={page!r}: expected what SearchIndex\.search returned\.$"):
        template.render(Context({"page": page}))
