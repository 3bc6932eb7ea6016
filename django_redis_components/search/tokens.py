"""From text to the terms that are indexed and searched. Without Redis.

A word is a run of letters and digits with their marks, with ``+`` and ``#`` at its end: C++ and C# are words. Such a
word is indexed without them too: ``disney`` finds Disney+, but ``disney+`` does not find Disney. A word is folded as in
autocomplete: ``emile`` finds Émile. The hamza and madda of an alef are left out too, because many texts have none. Some
scripts have no spaces between words: Han, kana, Hangul, Thai, Lao, Khmer, Myanmar. The terms of their runs are each
character with its marks and each pair of neighbors (bigrams).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.text import APOSTROPHES, as_typed, compose, fold_to_syllables

#: Characters of a term; the rest of a longer word is not compared.
MAX_TERM_CHARS = 64
#: Characters of a word that are folded: marks are left out, and one ligature becomes 18 letters.
MAX_FOLDED_CHARS = 4 * MAX_TERM_CHARS
#: Folded words that a process keeps, of words up to MAX_TERM_CHARS: at most 16 MiB, 1 KiB for each.
CACHED_WORDS = 16_384

#: Words that are left out of the index and of queries, by language. Those of zh are single characters: the pairs of
#: neighbors in a run are never left out.
_STOP_WORDS = {
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
    "ru": "а без бы был была были было быть в вам вас весь во вот все всего всех вы где да даже для до его ее если"
    " есть еще же за здесь и из или им их к как ко когда кто ли либо мне может мы на надо наш не него нее"
    " нет ни них но ну о об однако он она они оно от очень по под при с со так также такой там те тем то"
    " того тоже той только том ты у уже хотя чего чей чем что чтобы чье чья эта эти это этот я",
    "zh": "的 了 和 是 在 也 就 都 而 及 与 與 着 著 或 这 這 那 我 你 他 她 它 之 吗 嗎 呢 吧 啊",
}

#: Scripts without spaces between words, by the beginning of the Unicode names of their characters.
_SPACELESS = ("CJK ", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH", "HANGUL", "THAI", "LAO ", "KHMER", "MYANMAR")
#: Invisible characters inside words: soft hyphen, zero-width non-joiner, joiner, word joiner.
_JOINERS = "\xad\u200c\u200d\u2060"
#: Characters of words at which a word is split: some apostrophes are letters in Unicode.
_SEPARATORS = frozenset("_" + APOSTROPHES)
#: The madda and the hamza on an alef or below it, and on a heh. Texts have alef without them as often.
_ALEF_SIGNS = re.compile("[\u0653\u0655]|(?<=[\u0627\u0647])\u0654")
_ASCII_WORD = re.compile(r"\w+[+#]*", re.ASCII)


def words(text: str) -> list[str]:
    """Return the words of a text, folded, in their order; a run of characters without spaces is one word.

    ``words("Émile's C++, 北京!") == ["emile", "s", "c++", "北京"]``
    """
    return [word for _, _, word in word_spans(compose(text))]


def word_spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and folded form of the words of a text in NFC."""
    for match in (_ASCII_WORD if text.isascii() else _word_pattern()).finditer(text):
        for start, end in _runs(match[0]):
            if word := _folded(match[0][start:end]):
                yield match.start() + start, match.start() + end, word


def terms(word: str) -> list[str]:
    """Return the terms of a word that is indexed: itself, also without suffix; or the characters and pairs of a run."""
    if not is_spaceless(word):
        return list(dict.fromkeys((word, without_suffix(word))))
    characters = units(word)
    return [*characters, *map("".join, itertools.pairwise(characters))]


def query_terms(text: str) -> list[str]:
    """Return the terms of words that are searched, separated by spaces: all must be in a document."""
    searched: list[str] = []
    for word in text.split(" "):
        field, word = split_field(word)
        characters = units(word) if is_spaceless(word) else []
        found = map("".join, itertools.pairwise(characters)) if len(characters) > 1 else [word]
        searched += [field + term for term in found]
    return list(dict.fromkeys(searched))


def open_terms(text: str) -> list[list[str]]:
    """Return the terms of a text, of which the last is the beginning of a term, in each way in which it may go on.

    The final of a Hangul syllable may become the initial of the next one: 서한 of 서하나.
    """
    field, word = split_field(text.rpartition(" ")[2])
    typed_terms, characters = query_terms(text), units(word)
    if len(characters) < 2 or not _has_final(characters[-1]):
        return [typed_terms]
    last = stored_term(characters[-1])
    return [typed_terms, [*typed_terms[:-1], field + stored_term(characters[-2]) + last[:-1], field + last]]


def field_prefix(field: str) -> str:
    """Return what the terms of a field begin with, which can be searched in that field alone. No word has a colon."""
    return f":{field}:"


def split_field(word: str) -> tuple[str, str]:
    """Return the prefix of the field of a word that is searched in one field, or "", and the word."""
    if not word.startswith(":"):
        return "", word
    field, colon, rest = word.rpartition(":")
    return field + colon, rest


def stored_term(term: str) -> str:
    """Return a term as it is stored: Hangul as it is typed, so that a beginning finds what it will become."""
    return as_typed(term)


def without_suffix(word: str) -> str:
    """Return a word without the characters at its end that are neither letters nor digits."""
    return word.rstrip("+#")


def stop_words_of(language: str) -> frozenset[str]:
    """Return the words of a language that are left out, folded.

    Raises:
        TypeError, ValueError: there are none of this language.
    """
    if not isinstance(language, str) or language not in _STOP_WORDS:
        kind = ValueError if isinstance(language, str) else TypeError
        known = ", ".join(sorted(_STOP_WORDS))
        raise kind(f"language={short_repr(language)}: expected one of {known}, or None.")
    return _stop_words(language)


def units(word: str) -> list[str]:
    """Return the characters of a run without spaces, each with its marks."""
    found: list[str] = []
    for character in word:
        if found and _continues(character):
            found[-1] += character
        else:
            found.append(character)
    return found


def is_spaceless(word: str) -> bool:
    """Return whether a word is a run of characters without spaces."""
    return bool(word) and _has_no_spaces(word[0])


def _runs(word: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the parts of a word: split at underscores, apostrophes, and around runs without spaces."""
    if word.isascii() and "_" not in word:
        yield 0, len(word)
        return
    kinds: list[object] = []
    for character in word:
        is_mark = bool(kinds) and kinds[-1] is not None and _continues(character)
        kinds.append(None if character in _SEPARATORS else kinds[-1] if is_mark else _has_no_spaces(character))
    start = 0
    for kind, run in itertools.groupby(kinds):
        end = start + len(list(run))
        if kind is not None and word[start] not in "+#":
            yield start, end
        start = end


@cache
def _stop_words(language: str) -> frozenset[str]:
    return frozenset(words(_STOP_WORDS[language]))


def _has_final(character: str) -> bool:
    """Return whether a character is a Hangul syllable with a final: 28 syllables have the same initial and vowel.

    One with marks, such as the tone marks of older texts, is complete.
    """
    return len(character) == 1 and "가" <= character <= "힣" and (ord(character) - ord("가")) % 28 > 0


def _folded(word: str) -> str:
    """Return the folded form of a word; long ones, such as encoded data, are not kept in the memory of the process."""
    return _fold_short(word) if len(word) <= MAX_TERM_CHARS else _fold(word)


def _fold(word: str) -> str:
    """Return the folded form of a word in NFC, which has a Hangul syllable or a voiced kana as one character."""
    folded = fold_to_syllables(word if is_spaceless(word) else word[:MAX_FOLDED_CHARS])
    if folded.isascii():
        return folded[:MAX_TERM_CHARS]
    folded = unicodedata.normalize("NFC", _ALEF_SIGNS.sub("", folded)).replace(" ", "")
    return folded if is_spaceless(folded) else folded[:MAX_TERM_CHARS]


_fold_short = lru_cache(maxsize=CACHED_WORDS)(_fold)


@cache
def _word_pattern() -> re.Pattern[str]:
    """Return the pattern of words with marks. It is made at the first text that is not ASCII: it takes milliseconds."""
    marks = "".join(filter(_is_mark, map(chr, itertools.chain(range(0x300, 0x1F000), range(0xE0100, 0xE01F0)))))
    return re.compile(rf"\w[\w{re.escape(marks)}{_JOINERS}]*[+#]*")


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


@lru_cache(maxsize=8192)
def _continues(character: str) -> bool:
    """Return whether a character belongs to the one before."""
    return not character.isascii() and (_is_mark(character) or character in _JOINERS)


@lru_cache(maxsize=8192)
def _has_no_spaces(character: str) -> bool:
    if character.isascii():
        return False
    return unicodedata.name(character, "").startswith(_SPACELESS)
