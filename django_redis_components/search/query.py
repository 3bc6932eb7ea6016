"""The grammar of queries. Without Redis.

=================  ========================================================
``black cat``      documents with both words
``+kitten``        a synonym of the word before: ``black cat +kitten``
``-dog``           documents without the word
``"black cat"``    the words next to each other
=================  ========================================================

Stop words are left out. What remains may be nothing: such a query finds nothing.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Collection, Mapping, Sequence

from django_redis_components.search.tokens import query_terms, words

#: Characters of a query that are read, and words that are searched.
MAX_QUERY_CHARS, MAX_WORDS = 1_000, 16

_PART = re.compile(r'([+-]?)(?:"([^"]*)"|(\S+))')


@dataclasses.dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query.

    Attributes:
        groups: of each group one term must be in a document; those of a group are synonyms.
        excluded: groups of terms that may not all be in it.
        phrases: words that must be next to each other, folded and separated by spaces.
        prefix: whether the last group is the beginning of a word.
    """

    groups: tuple[tuple[str, ...], ...]
    excluded: tuple[tuple[str, ...], ...] = ()
    phrases: tuple[str, ...] = ()
    prefix: bool = False


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
        synonyms: further words by folded word.
        prefix: whether the last word may be incomplete; if it is a stop word, it is searched as a beginning.

    Raises:
        TypeError: the query is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(f"query={text!r}: expected a string.")
    groups: list[list[str]] = []
    excluded: list[tuple[str, ...]] = []
    phrases: list[str] = []
    last_is_open = False
    parts = _PART.findall(text[:MAX_QUERY_CHARS].replace("“", '"').replace("”", '"'))
    for number, (sign, phrase, plain) in enumerate(parts):
        found = words(phrase or plain)
        is_last = number == len(parts) - 1 and prefix and not phrase and sign != "-"
        kept = [word for word in found if word not in stop_words or (is_last and word == found[-1])]
        if sign == "-":
            terms = [query_terms(word) for word in kept]
            excluded += [tuple(dict.fromkeys(itertools.chain(*terms)))] if phrase else map(tuple, terms)
            continue
        if phrase and len(found) > 1:
            phrases.append(" ".join(found))
        if sign == "+" and groups and len(kept) == 1:
            groups[-1] += [kept[0]]
            continue
        for word in kept:
            groups += [[term] for term in query_terms(word)]
        last_is_open = is_last and bool(kept)
    expanded = [_with_synonyms(group, synonyms or {}) for group in groups[:MAX_WORDS]]
    return ParsedQuery(
        tuple(expanded),
        tuple(group for group in excluded[:MAX_WORDS] if group),
        tuple(phrases),
        last_is_open and len(groups) <= MAX_WORDS,
    )


def _with_synonyms(group: Sequence[str], synonyms: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*group, *(other for word in group for other in synonyms.get(word, ()))]))
