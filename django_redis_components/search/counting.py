"""Counting the words of a document. Without Redis."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping

from django_redis_components.search.stemming import stem
from django_redis_components.search.tokens import field_prefix, is_spaceless, terms, units, without_suffix, words

#: Words of a document that are indexed, where each character of a run without spaces is a word; and different terms.
MAX_WORDS, MAX_TERMS = 10_000, 3_000
#: The word between the words of two fields: no phrase has it.
FIELD_END = "\1"


@dataclasses.dataclass(frozen=True, slots=True)
class CountedWords:
    """The words of a document: weighted frequencies of its terms, its weighted length, and its words in order.

    The words in order have no suffixes: a phrase is compared with them without its own.
    """

    frequencies: Mapping[str, float]
    length: float
    order: list[str]


def count_words(
    parts: Mapping[str, str],
    weights: Mapping[str, float],
    stop_words: Collection[str],
    *,
    stemmer: str = "",
    field_queries: Collection[str] = (),
) -> CountedWords:
    """Count the words of the fields of a document, with their stems.

    Args:
        field_queries: fields whose terms are counted once more as terms of the field.
    """
    frequencies: Counter[str] = Counter()
    length, words_left = 0.0, MAX_WORDS
    order: list[str] = []
    for field, part in parts.items():
        weight = weights.get(field, 1.0)
        order += [FIELD_END] if order else []
        for word in words(part):
            if words_left <= 0:
                break
            characters = units(word)[:words_left] if is_spaceless(word) else [word]
            words_left -= len(characters)
            length += weight * len(characters)
            kept = "".join(characters)
            order.append(without_suffix(kept))
            if word not in stop_words:
                found = [term for term in terms(kept) if term not in stop_words]
                found += [stemmed] if (stemmed := stem(word, stemmer, stop_words)) != word else []
                found += [field_prefix(field) + term for term in found] if field in field_queries else []
                for term in found:
                    frequencies[term] += weight  # type: ignore[assignment]
    return CountedWords(dict(frequencies.most_common(MAX_TERMS)), length, order)
