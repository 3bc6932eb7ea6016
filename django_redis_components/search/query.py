"""The grammar of queries. Without Redis.

=================  ========================================================
``black cat``      documents with both words
``+kitten``        a synonym of the word before: ``black cat +kitten``
``-dog``           documents without the word
``"black cat"``    the words next to each other
=================  ========================================================

Stop words are left out, and a repeated word is the same word: ``cat dog cat +kitten`` means ``cat +kitten dog``. What
remains may be nothing: such a query finds nothing. A query is bounded; the words that are not searched are its
`ParsedQuery.dropped`, with the synonyms that follow them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence

from django_redis_components.core.arguments import check_string
from django_redis_components.search.tokens import is_spaceless, query_terms, units, words

#: Characters of a query that are read, and groups of words that are searched.
MAX_QUERY_CHARS, MAX_WORDS = 1_000, 16
#: Terms of all groups, with synonyms; and of all that is excluded.
MAX_TERMS = 32
#: Characters of a run without spaces that are searched: their pairs are half of the terms.
MAX_RUN = 17
#: Phrases; words and phrases that are excluded; dropped words that are named.
MAX_PHRASES, MAX_EXCLUDED, MAX_DROPPED = 4, 16, 20

_PART = re.compile(r'([+-]?)(?:"([^"]*)"|(\S+))')


@dataclasses.dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query.

    Attributes:
        groups: of each group one text must be in a document; those of a group are synonyms. A text is a word, or
            several separated by spaces that must all be there.
        excluded: groups of words that may not all be in it.
        excluded_phrases: of each of these groups, the words that must also be next to each other; "" for a single word.
        phrases: words that must be next to each other, folded and separated by spaces.
        prefix: whether the last group is the beginning of a word.
        dropped: words that are not searched, because the query has too many: the first 20.
    """

    groups: tuple[tuple[str, ...], ...]
    excluded: tuple[tuple[str, ...], ...] = ()
    excluded_phrases: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    prefix: bool = False
    dropped: tuple[str, ...] = ()


def parse(
    text: str,
    stop_words: Collection[str] = (),
    synonyms: Mapping[str, Sequence[str]] | None = None,
    *,
    prefix: bool = False,
) -> ParsedQuery:
    """Parse a query.

    Args:
        stop_words: folded words that are left out.
        synonyms: further texts by folded word.
        prefix: whether the last word may be incomplete; if it is a stop word, it is searched as a beginning.

    Raises:
        TypeError: the query is not a string.
    """
    check_string(text, "query")
    query, end = _QueryReader(stop_words), MAX_QUERY_CHARS
    if text[end : end + 1].strip():  # not within a word
        end = text.rfind(" ", 0, end) + 1 or end
    parts = _PART.findall(text[:end].replace("“", '"').replace("”", '"'))
    for number, (sign, phrase, plain) in enumerate(parts):
        is_last = number == len(parts) - 1 and len(text) <= end
        is_open = prefix and is_last and not phrase and sign != "-"
        query.add(sign, words(phrase or plain), is_phrase=bool(phrase), is_open=is_open)
    query.drop(*words(text[end : 2 * MAX_QUERY_CHARS]))
    query.add_synonyms(synonyms or {})
    return query.parsed()


class _QueryReader:
    """A query that is read part by part, within its bounds."""

    def __init__(self, stop_words: Collection[str]) -> None:
        self._stop_words = stop_words
        self._groups: list[list[str]] = []
        self._excluded: dict[tuple[tuple[str, ...], str], None] = {}
        self._phrases: dict[str, None] = {}
        self._dropped: dict[str, None] = {}
        self._terms = self._excluded_terms = 0
        self._is_open = False
        #: The group of the word before, for its synonyms; None if that word is not searched.
        self._last: list[str] | None = None

    def add(self, sign: str, words: Sequence[str], *, is_phrase: bool, is_open: bool) -> None:
        """Add the words of a part; with `is_open` the last may be incomplete."""
        kept = [word for word in words if word not in self._stop_words]
        if is_open and words and words[-1] in self._stop_words:
            kept.append(words[-1])
        if not kept:
            return
        if sign == "-":
            self._exclude(tuple(kept), " ".join(words))
            return
        if sign == "+" and self._groups:
            self._add_synonym(" ".join(kept))
            return
        if is_phrase:
            self._add_phrase(" ".join(words))
        for word in kept:
            self._add_group(word, is_open=is_open and word == kept[-1])

    def add_synonyms(self, synonyms: Mapping[str, Sequence[str]]) -> None:
        """Add the synonyms of the index."""
        for group in self._groups:
            for other in [other for word in group for other in synonyms.get(word, ())]:
                self._add_text(group, other)

    def drop(self, *texts: str) -> None:
        """Note what is not searched."""
        self._dropped.update(dict.fromkeys(texts[:MAX_DROPPED]))

    def parsed(self) -> ParsedQuery:
        """Return the query."""
        return ParsedQuery(
            tuple(map(tuple, self._groups)),
            tuple(kept for kept, _ in self._excluded),
            tuple(phrase for _, phrase in self._excluded),
            tuple(self._phrases),
            self._is_open,
            tuple(self._dropped)[:MAX_DROPPED],
        )

    def _add_group(self, word: str, *, is_open: bool) -> None:
        characters = units(word) if is_spaceless(word) else []
        if len(characters) > MAX_RUN:
            self.drop("".join(characters[MAX_RUN:]))
            word, is_open = "".join(characters[:MAX_RUN]), False
        self._last = next((group for group in self._groups if group[0] == word), None)
        if self._last is not None and not is_open:
            return
        group: list[str] = []
        if len(self._groups) == MAX_WORDS or not self._add_text(group, word):
            self.drop(word)
            return
        self._groups.append(group)
        self._last, self._is_open = group, is_open

    def _add_synonym(self, text: str) -> None:
        """Add a synonym of the word before; without that word it means nothing."""
        if self._last is None:
            self.drop(text)
        else:
            self._add_text(self._last, text)

    def _add_text(self, group: list[str], text: str) -> bool:
        """Add a text to a group if it is within the bound."""
        if text in group:
            return True
        count = len(query_terms(text))
        if self._terms + count > MAX_TERMS:
            self.drop(text)
            return False
        self._terms += count
        group.append(text)
        return True

    def _add_phrase(self, phrase: str) -> None:
        if not _has_neighbors(phrase) or phrase in self._phrases:
            return
        if len(self._phrases) == MAX_PHRASES:
            self.drop(f'"{phrase}"')
        else:
            self._phrases[phrase] = None

    def _exclude(self, kept: tuple[str, ...], words: str) -> None:
        count = len(query_terms(" ".join(kept)))
        phrase = words if _has_neighbors(words) else ""
        if (kept, phrase) in self._excluded:
            return
        if len(self._excluded) == MAX_EXCLUDED or self._excluded_terms + count > MAX_TERMS:
            self.drop(f"-{words}")
            return
        self._excluded_terms += count
        self._excluded[kept, phrase] = None


def _has_neighbors(phrase: str) -> bool:
    """Return whether documents can have the terms of a phrase, but not next to each other."""
    return " " in phrase or (is_spaceless(phrase) and len(units(phrase)) > 2)
