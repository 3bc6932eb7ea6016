"""From text to the terms that are indexed and searched. Without Redis.

A word is a run of letters and digits with their marks, with ``+`` and ``#`` at its end: C++ and C# are words. It is
folded as in autocomplete: ``emile`` finds Émile. Runs of Han, kana and Hangul characters have no spaces between words:
their terms are each character and each pair of neighbors (bigrams).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from django_redis_components.core.text import fold

#: Characters of a term; the rest of a longer word is not compared.
MAX_TERM_CHARS = 64

#: Words that are left out of the index and of queries, by language.
STOP_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(map(fold, words.split()))
    for language, words in {
        "en": "a an and are as at be been but by for from had has have he her his i if in into is it its"
        " me my no not of on or our she so that the their them then there these they this to was we"
        " were what when which who will with would you your",
        "de": "aber als am an auch auf aus bei bin bis bist da das dass dem den der des die doch du durch"
        " ein eine einem einen einer eines er es für hat hatte ich ihr im in ist ja kein mit nach"
        " nicht noch nur oder sich sie sind so um und uns von vor war was wenn wer wie wir wird zu"
        " zum zur über",
        "fr": "au aux avec ce ces cette dans de des du elle en est et eux il ils je la le les leur lui ma"
        " mais me mes mon ne nos notre nous on ou par pas pour qu que qui sa se ses son sur ta te"
        " tes toi ton tu un une vos votre vous",
        "es": "a al algo como con de del desde donde el ella ellos en era es esa ese eso esta este esto"
        " fue ha hay la las le les lo los mas me mi muy no nos o para pero por que se si sin sobre"
        " su sus te tu un una uno y ya yo",
    }.items()
}

_WORD = re.compile(r"\w+[+#]*")


def words(text: str) -> list[str]:
    """Return the words of a text, folded, in their order; a run of characters without spaces is one word.

    ``words("Émile's C++, 北京!") == ["emile", "s", "c++", "北京"]``
    """
    return [word for _, _, word in word_spans(unicodedata.normalize("NFC", text))]


def word_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and folded form of the words of a text in NFC."""
    for match in _WORD.finditer(text):
        for start, end in _runs(match[0].replace("_", " ")):
            word = fold(match[0][start:end])[:MAX_TERM_CHARS].rstrip()
            if word:
                yield match.start() + start, match.start() + end, word


def terms(word: str) -> list[str]:
    """Return the terms of a word that is indexed: itself, or the characters and bigrams of a run without spaces."""
    if not is_spaceless(word):
        return [word]
    characters = list(unicodedata.normalize("NFC", word))
    return [*characters, *map("".join, itertools.pairwise(characters))]


def query_terms(word: str) -> list[str]:
    """Return the terms of a word that is searched: all must be in a document."""
    characters = list(unicodedata.normalize("NFC", word)) if is_spaceless(word) else []
    if len(characters) < 2:
        return [word]
    return ["".join(pair) for pair in itertools.pairwise(characters)]


def _runs(word: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the parts of a word: it is split at spaces, and around runs without spaces."""
    start = 0
    for at in range(1, len(word) + 1):
        if at == len(word) or " " in word[at - 1 : at + 1] or is_spaceless(word[at]) != is_spaceless(word[start]):
            if word[start] != " ":
                yield start, at
            start = at


def is_spaceless(word: str) -> bool:
    """Return whether a word is a run of characters without spaces."""
    return bool(word) and _has_no_spaces(word[0])


@lru_cache(maxsize=8192)
def _has_no_spaces(character: str) -> bool:
    if character.isascii():
        return False
    return unicodedata.name(character, "").startswith(("CJK ", "HIRAGANA", "KATAKANA", "HANGUL", "THAI"))
