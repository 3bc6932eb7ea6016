"""Marking the words of a query in a text. Without Redis."""

from __future__ import annotations

import dataclasses
import itertools

from django_redis_components.core.arguments import check_int, check_string
from django_redis_components.core.text import compose
from django_redis_components.search.query import ParsedQuery
from django_redis_components.search.snippets import Match, snippet_window
from django_redis_components.search.stemming import stem
from django_redis_components.search.tokens import (
    is_spaceless,
    query_terms,
    split_field,
    stored_term,
    terms,
    units,
    word_spans,
)

#: Characters of a text that are looked at.
MAX_TEXT_CHARS = 100_000


@dataclasses.dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text.

    Attributes:
        is_match: whether it matches the query.
    """

    text: str
    is_match: bool


def highlight(text: str, parsed: ParsedQuery, max_chars: int | None = None) -> tuple[TextPart, ...]:
    """Return the parts of a text, those that match a query marked.

    Args:
        max_chars: length of a snippet: the part of the text with the most different words of the query, cut between
            words, with an ellipsis where text was left out. None for the whole text.

    Raises:
        TypeError, ValueError: `max_chars` is not accepted.
    """
    if max_chars is not None:
        check_int(max_chars, "max_chars", 1)
    text = compose(check_string(text, "text")[:MAX_TEXT_CHARS])
    matches = _matches(text, parsed)
    start, end = (0, len(text)) if max_chars is None else snippet_window(text, matches, max_chars)
    parts: list[TextPart] = [TextPart("… ", False)] if start else []
    at = start
    for first, last in _merged(matches, start, end):
        parts += [TextPart(text[at:first], False), TextPart(text[first:last], True)]
        at = last
    parts += [TextPart(text[at:end], False), TextPart(" …" if end < len(text) else "", False)]
    return tuple(part for part in parts if part.text)


def _matches(text: str, parsed: ParsedQuery) -> list[Match]:
    """Return the matches in their order; they may overlap."""
    groups: dict[str, int] = {}
    for number, group in enumerate(parsed.groups):
        for term in itertools.chain.from_iterable(map(query_terms, group)):
            groups.setdefault(split_field(term)[1], number)
    last = len(parsed.groups) - 1
    start_of_word = split_field(parsed.groups[last][0].rpartition(" ")[2])[1] if parsed.prefix else None
    matches: list[Match] = []
    for start, end, word in word_spans(text):
        if is_spaceless(word):
            matches += _in_run(text[start:end], start, word, groups)
            if start_of_word and is_spaceless(start_of_word):
                matches += _beginnings(text[start:end], start, word, start_of_word, last)
                matches.sort(key=lambda match: match.start)
        elif (known := next((term for term in _terms(word, parsed.stemmer) if term in groups), None)) is not None:
            matches.append(Match(start, end, groups[known]))
        elif start_of_word and word.startswith(start_of_word):
            matches.append(Match(start, end, last))
    return matches


def _terms(word: str, stemmer: str) -> list[str]:
    """Return the terms of a word that is indexed, with its stem."""
    return [*terms(word), stem(word, stemmer)]


def _in_run(run: str, start: int, word: str, groups: dict[str, int]) -> list[Match]:
    """Return the matches in a run of characters without spaces: single characters and pairs."""
    characters, shown = units(word), units(run)
    if len(characters) != len(shown):  # folding changed the length: mark the run
        return [Match(start, start + len(run), groups[term]) for term in terms(word) if term in groups][:1]
    ends = list(itertools.accumulate(map(len, shown), initial=start))
    found = [Match(ends[index], ends[index + 1], groups[one]) for index, one in enumerate(characters) if one in groups]
    for index, pair in enumerate(map("".join, itertools.pairwise(characters))):
        if pair in groups:
            found.append(Match(ends[index], ends[index + 2], groups[pair]))
    return sorted(found, key=lambda match: match.start)


def _beginnings(run: str, start: int, word: str, typed: str, group: int) -> list[Match]:
    """Return the matches of a last word that is incomplete: the letters that were typed of Hangul.

    As in a search, the last two characters may go on: 한ㄱ and 한구 are beginnings of 한국.
    """
    open_letters = stored_term("".join(units(typed)[-2:]))
    characters, shown = units(word), units(run)
    letters = list(map(stored_term, characters))
    if len(characters) != len(shown) or letters == characters:  # folding changed the length, or the run has no Hangul
        return []
    ends = list(itertools.accumulate(map(len, shown), initial=start))
    found = []
    for index in range(len(letters)):
        for count in (1, 2, 3):
            if "".join(letters[index : index + count]).startswith(open_letters):
                found.append(Match(ends[index], ends[min(index + count, len(letters))], group))
                break
    return found


def _merged(matches: list[Match], start: int, end: int) -> list[tuple[int, int]]:
    """Return the marked ranges of a snippet; those that touch are one."""
    ranges: list[tuple[int, int]] = []
    for match in matches:
        first, last = max(match.start, start), min(match.end, end)
        if first >= last:
            continue
        if ranges and first <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(last, ranges[-1][1]))
        else:
            ranges.append((first, last))
    return ranges
