"""What may be put into an index, and what is refused, in words that help."""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

import pytest
from django.utils.translation import gettext_lazy

from django_redis_components.autocomplete import Entry, Suggestion
from django_redis_components.autocomplete.entries import check_id, check_limit, check_text, record_of
from django_redis_components.autocomplete.ranking import Candidates


def test_record_contains_text_weight_and_folded_terms_by_place() -> None:
    entry = Entry(7, "Émile Zola", terms=["Emile@Example.org", "Ž"], weight=3)

    assert record_of(entry) == "Émile Zola\x013\x000emile zola\x001emile@example.org\x001z\x001zola"
    assert record_of(Entry(8, "北野 愛")) == "北野 愛\x000北野 愛\x001愛\x002野 愛"


def test_terms_with_equal_folding_are_stored_once_at_their_first_place() -> None:
    assert record_of(Entry(1, "Anna", terms=["ANNA", "ánna"])) == "Anna\x000anna"
    assert record_of(Entry(1, "王王", terms=["王"])) == "王王\x000王王\x001王"


def test_long_terms_and_queries_are_truncated() -> None:
    record = record_of(Entry(1, "x" * 300))

    assert record.split("\0")[1] == "0" + "x" * 100


@pytest.mark.parametrize(
    ("given", "kept"), [(7, "7"), ("a-b", "a-b"), (UUID(int=5), "00000000-0000-0000-0000-000000000005"), ("张", "张")]
)
def test_id_is_stored_as_a_string(given: object, kept: str) -> None:
    assert check_id(given) == kept


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "id is empty: expected 1 to 200 bytes of text."),
        ("a\x00b", "id 'a\\x00b': control character '\\x00' is not accepted."),
        ("{7}", "id '{7}': braces are not accepted; they mark the Cluster slot in keys."),
        ("x" * 201, f"id '{'x' * 40}'… has 201 bytes: expected at most 200."),
    ],
)
def test_invalid_id_raises_with_the_reason(given: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        check_id(given)


@pytest.mark.parametrize("given", [None, 1.5, True, b"7"])
def test_id_of_another_type_is_refused(given: object) -> None:
    with pytest.raises(TypeError, match=r"^id=.*: expected a string, an integer or a UUID\.$"):
        check_id(given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "text='': expected 1 to 300 characters, got 0."),
        (" \t\n", "text='': expected 1 to 300 characters, got 0."),
        ("An\x00na", "text='An\\x00na': character '\\x00' is not accepted."),
        ("An\x01na", "text='An\\x01na': character '\\x01' is not accepted."),
        ("two\nlines", "text='two\\nlines': character '\\n' is not accepted."),
        ("A\ud800", "text='A\\ud800': character '\\ud800' is not accepted."),
        ("x" * 301, f"text='{'x' * 99}…: expected 1 to 300 characters, got 301."),
    ],
)
def test_invalid_text_raises_with_the_reason(given: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        check_text(given)


def test_text_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"text=7: expected a string\."):
        record_of(Entry(1, 7))  # type: ignore[arg-type]


def test_translated_text_is_accepted() -> None:
    assert check_text(gettext_lazy("Suggestions")) == "Suggestions"


@pytest.mark.parametrize("weight", [-1, 10**9, 1.5, True, "3"])
def test_invalid_weight_raises(weight: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"expected an integer from 0 to 999999999\."):
        record_of(Entry(1, "Anna", weight=weight))  # type: ignore[arg-type]


def test_one_string_as_terms_is_refused() -> None:
    with pytest.raises(TypeError, match=r"terms='anna': expected an iterable of strings\."):
        record_of(Entry(1, "Anna", terms="anna"))


def test_too_many_terms_are_refused() -> None:
    with pytest.raises(ValueError, match=r"entry 1 has 33 terms with those of its text: at most 32\."):
        record_of(Entry(1, "Anna", terms=[f"t{n}" for n in range(32)]))


def test_text_without_letters_or_digits_raises() -> None:
    with pytest.raises(ValueError, match="expected at least one letter or digit"):
        record_of(Entry(1, "\u200b\u200c"))


@pytest.mark.parametrize("limit", [0, -1, 1001, 2.5, True])
def test_invalid_limit_raises(limit: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^limit=.*: expected an integer from 1 to 1000\.$"):
        check_limit(limit)  # type: ignore[arg-type]


def test_recent_flag_is_not_part_of_equality() -> None:
    assert Suggestion("1", "Anna", is_recent=True) == Suggestion("1", "Anna")


def member(term: str, id_: str, weight: int = 0, text: str = "T") -> bytes:
    head = f"{text}\1{weight}" if weight else text
    return f"0{term}\0{head}\0{id_}".encode()


def ids(candidates: Candidates, limit: int, recents: Sequence[Suggestion] = ()) -> list[str]:
    return [one.id for one in candidates.ranked(recents, limit)]


def test_order_is_recents_then_exact_then_weight_then_term() -> None:
    candidates = Candidates(b"an", 10)

    candidates.add_weighed(
        0, [member("an", "exact"), member("ana", "a"), member("anb", "heavy", 5), member("anc", "recent")]
    )

    assert ids(candidates, 10, [Suggestion("recent", "R", is_recent=True)]) == ["recent", "exact", "heavy", "a"]


def test_entry_is_ranked_by_its_best_term_and_its_first_match() -> None:
    candidates = Candidates(b"an", 10)

    candidates.add_weighed(0, [member("anb", "2"), member("anz", "1", 1)])
    candidates.add_weighed(1, [member("ana", "3", 1), member("anb", "3", 1), member("an", "1", 1)])

    assert ids(candidates, 10) == ["1", "2", "3"]


def test_heavy_entry_among_the_members_comes_first() -> None:
    candidates = Candidates(b"a", 2)

    candidates.add_weighed(0, [member(f"a{n}", str(n)) for n in range(5)] + [member("a9", "heavy", 1)])

    assert ids(candidates, 2) == ["heavy", "0"]
    assert candidates.missing == 0


def test_at_most_five_recents_come_first_once_something_is_typed() -> None:
    recents = [Suggestion(str(n), "R", is_recent=True) for n in range(8)]

    assert len(ids(Candidates(b"a", 10), 10, recents)) == 5
    assert len(ids(Candidates(b"", 6), 6, recents)) == 6


CORRUPT = (
    b"",
    b"0a",
    b"0a\0T",
    b"\0T\x001",
    b"0a\0\x001",
    b"0a\0T\0",
    b"0a\0T\1x\x001",
    b"0a\0\xff\x001",
    b"0a\0T\x001\x002",
)


@pytest.mark.parametrize("corrupt", CORRUPT)
def test_corrupt_members_are_skipped_and_logged(corrupt: bytes, caplog: pytest.LogCaptureFixture) -> None:
    for weight in (0, 3):
        candidates = Candidates(b"a", 10)
        candidates.add_weighed(0, [corrupt, member("ab", "good", weight)])
        assert ids(candidates, 10) == ["good"]

    assert caplog.text.count("Skipped a corrupt member of autocomplete") == 2
