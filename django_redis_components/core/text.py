"""Folding of text: spellings that readers consider equal fold to the same string.

    fold("  Émile  ZOLA") == "emile zola"        fold("Łódź") == "lodz"        fold("Ждёт") == "ждет"

The steps: NFC; characters like an apostrophe become one; NFKC, casefold, NFKC again; combining marks are removed
from Latin and Greek letters (elsewhere they make another letter: か and が, И and Й); ё becomes е, and a table replaces
letters without a decomposition; invisible format characters are removed; white space and control characters become
single spaces; NFKD, so that 하 is a prefix of 한국. As a result a bare letter is also a prefix of its marked form (и of
й), but not the other way round.

Folding may change the length: never truncate a text for display by the length of its folded form.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

#: Part of each key with folded text. A change of the steps needs a new number: a new index is then built beside the
#: old one, and the two never mix.
FOLDING_VERSION = 2

#: Characters typed instead of an apostrophe. NFKC would turn one of them into a space and a mark.
_APOSTROPHE_LIKE = str.maketrans(dict.fromkeys("‘’ʼ´`", "'"))
#: Letters without a decomposition, and typographic dashes.
_LETTERS = _APOSTROPHE_LIKE | str.maketrans(
    {
        "ł": "l",
        "ø": "o",
        "đ": "d",
        "ð": "d",
        "ħ": "h",
        "ŧ": "t",
        "ı": "i",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "ё": "е",
        "‐": "-",
        "–": "-",
        "—": "-",
        "−": "-",
    }
)
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
#: Characters after which a new word starts inside a word: O'Neil, d'Artagnan.
_APOSTROPHES = frozenset("'‘’ʼ")


def fold(text: str) -> str:
    """Return the form of a text for comparison. Folding is idempotent."""
    if text.isascii():
        return _SPACES.sub(" ", text).strip().lower().replace("`", "'")
    text = unicodedata.normalize("NFC", text).translate(_APOSTROPHE_LIKE)  # U+1FFD is U+00B4 in another spelling
    text = unicodedata.normalize("NFKC", text).casefold()
    text = _SPACES.sub(" ", unicodedata.normalize("NFKC", text)).translate(_LETTERS)
    kept = "".join(_without_marks(unicodedata.normalize("NFD", text))).translate(_LETTERS)
    return unicodedata.normalize("NFKD", _SPACES.sub(" ", kept).strip())


def one_line(text: str) -> str:
    """Escape all unprintable characters, so that a text cannot inject lines into a log."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def encodable(text: str) -> str:
    """Escape lone surrogates, which cannot be sent as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


#: Places of a match in a text: at its start, at the start of a word, and inside a run of Han characters.
START, WORD, INSIDE = 0, 1, 2


def word_starts(text: str) -> list[int]:
    """Return the offsets at which the words of a text start.

    A word is a run of letters and digits with their marks. After an apostrophe a new word starts if at least three
    letters follow (O'Neil, but not Anna's). Each Han character starts a word, because Chinese and Japanese are written
    without spaces.
    """
    return [at for at, _place in _words(text)]


def folded_words(text: str, limit: int) -> list[str]:
    """Return the text and its suffixes that start at a word, folded, without duplicates, the whole text first.

    ``folded_words("Anna Maria", 8) == ["anna maria", "maria"]``

    Args:
        text: any text.
        limit: the most strings to return.
    """
    return list(folded_places(text, limit))


def folded_places(text: str, limit: int) -> dict[str, int]:
    """Return what `folded_words` returns, each with the first place at which it starts.

    ``folded_places("北京 anna", 8) == {"北京 anna": START, "京 anna": INSIDE, "anna": WORD}``
    """
    found = {fold(text): START}
    for start, place in _words(text):
        if len(found) >= limit:
            break
        words = fold(text[start:])
        found[words] = min(place, found.get(words, place))
    found.pop("", None)
    return found


def match_span(text: str, folded: str, limit: int = 16) -> tuple[int, int] | None:
    """Return start and end, in characters, of the first place of a text that starts with a folded prefix; None without.

    ``match_span("Émile Zola", "zo") == (6, 8)``

    Args:
        limit: places that are looked at.
    """
    if not folded:
        return None
    for start in list(dict.fromkeys([0, *word_starts(text)]))[:limit]:
        if not fold(text[start:]).startswith(folded):
            continue
        for end in range(start + 1, len(text) + 1):
            if fold(text[start:end]).startswith(folded):
                return start, end
    return None


def is_han(character: str) -> bool:
    """Return whether a character is a Han character or its repetition mark."""
    return character == "々" or (character > "\u2e7f" and unicodedata.name(character, "").startswith("CJK "))


def _words(text: str) -> list[tuple[int, int]]:
    """Return the offsets at which words start, and the place of each: WORD or INSIDE."""
    starts = []
    inside = after_han = False
    for at, character in enumerate(text):
        kind = unicodedata.category(character)[0]
        if kind in "LN":
            han = not character.isascii() and is_han(character)
            if not inside or han:
                starts.append((at, INSIDE if inside and after_han else WORD))
            inside, after_han = True, han
        elif character in _APOSTROPHES and inside:
            inside = not _run_of_letters(text, at + 1, 3)
        elif kind != "M":
            inside = False
    return starts


def _without_marks(decomposed: str) -> list[str]:
    """Return the characters of an NFD text without marks on Latin and Greek letters and without invisible ones."""
    kept = []
    strip = False
    for character in decomposed:
        kind = unicodedata.category(character)
        if kind == "Mn":
            if not strip and not _is_selector(character):
                kept.append(character)
        elif kind != "Cf":
            strip = _is_latin_or_greek(character)
            kept.append(character)
    return kept


def _run_of_letters(text: str, start: int, length: int) -> bool:
    part = text[start : start + length]
    return len(part) == length and part.isalpha()


def _is_selector(character: str) -> bool:
    """Return whether it is a variation selector, which selects a glyph (❤ or ❤️), or the grapheme joiner."""
    return "\ufe00" <= character <= "\ufe0f" or character == "\u034f" or "\U000e0100" <= character <= "\U000e01ef"


@lru_cache(maxsize=4096)
def _is_latin_or_greek(character: str) -> bool:
    return character.isascii() or unicodedata.name(character, "").startswith(("LATIN", "GREEK"))
