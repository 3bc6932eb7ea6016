"""Stems of words, by the algorithms of Snowball. Without Redis.

A word is folded first, as all words of an index are: the algorithms of languages whose endings differ by marks only
would find other stems, and are not offered. Folding makes one letter of the Russian `и` and `й`, and `informacao` of
the Portuguese `informação`, whose plural then has another stem.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from django_redis_components.core.arguments import check_choice
from django_redis_components.core.exceptions import missing_extra
from django_redis_components.search.tokens import CACHED_WORDS, is_spaceless

#: The algorithms, by their names in Snowball.
STEMMERS = (
    "danish",
    "dutch",
    "english",
    "french",
    "german",
    "italian",
    "norwegian",
    "spanish",
    "swedish",
)

#: The stemmers of each thread: they keep the word in an attribute while they work.
_local = threading.local()


def check_stemmer(name: object) -> str:
    """Return the name of a stemmer; "" for None.

    Raises:
        TypeError, ValueError: there is none of this name.
        ImportError: the extra `stemming` is not installed.
    """
    if name is None:
        return ""
    checked = check_choice(name, "stemmer", STEMMERS)
    _stemmer(checked)
    return checked


def stem(word: str, stemmer: str, stop_words: Collection[str] = ()) -> str:
    """Return the stem of a folded word; the word itself without a stemmer, or if the stem is a word that is left out.

    Words with digits or signs, and runs without spaces, have no stem.
    """
    if not stemmer or not word.isalpha() or is_spaceless(word):
        return word
    found = _stem(stemmer, word)
    return word if not found or found in stop_words else found


@lru_cache(maxsize=CACHED_WORDS)
def _stem(stemmer: str, word: str) -> str:
    stemmed: str = _stemmer(stemmer).stemWord(word)
    return stemmed


def _stemmer(name: str) -> Any:
    found = getattr(_local, name, None)
    if found is None:
        try:
            import snowballstemmer
        except ModuleNotFoundError as exc:
            raise missing_extra(f'SearchIndex(stemmer="{name}")', "snowballstemmer", "stemming") from exc
        found = snowballstemmer.stemmer(name)
        setattr(_local, name, found)
    return found
