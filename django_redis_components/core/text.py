"""Folding of text: two spellings that a reader takes for the same name fold to the same string.

    fold("  Émile  ZOLA") == "emile zola"        fold("Łódź") == "lodz"        fold("Ждёт") == "ждет"

The rule: NFC, and what looks like an apostrophe becomes one; NFKC, casefold, NFKC again; combining
marks go where the base letter is Latin or Greek (elsewhere they make another letter: か and が, И and
Й), ё becomes е, a small table replaces letters that have no decomposition; invisible format
characters go; white space and control characters become single spaces; NFKD at the end, so that 하 is
a beginning of 한국. As a result a bare letter is also a beginning of its marked form (и of й), but
never the other way round.

Folding may change the length: never cut a text for display by the length of its folded form.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

#: Part of every key that holds folded text. A change of the rules below needs a new number: the
#: index is then built again beside the old one, and the two never mix.
FOLDING_VERSION = 2

#: What keyboards write in the place of an apostrophe; NFKC would make a space and a mark of one of them.
_APOSTROPHE_LIKE = str.maketrans(dict.fromkeys("‘’ʼ´`", "'"))
#: Letters without a decomposition, and the dashes of printers.
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
#: Characters after which a new word begins in the middle of one: O'Neil, d'Artagnan.
_APOSTROPHES = frozenset("'‘’ʼ")


def fold(text: str) -> str:
    """The form of a text that is compared. Folding twice changes nothing."""
    if text.isascii():
        return _SPACES.sub(" ", text).strip().lower().replace("`", "'")
    text = unicodedata.normalize("NFC", text).translate(_APOSTROPHE_LIKE)  # U+1FFD is U+00B4 in another spelling
    text = unicodedata.normalize("NFKC", text).casefold()
    text = _SPACES.sub(" ", unicodedata.normalize("NFKC", text)).translate(_LETTERS)
    kept = "".join(_without_marks(unicodedata.normalize("NFD", text))).translate(_LETTERS)
    return unicodedata.normalize("NFKD", _SPACES.sub(" ", kept).strip())


def one_line(text: str) -> str:
    """The text with everything escaped that is not printable, so that nobody can write a line of a log with it."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def word_starts(text: str) -> list[int]:
    """Where a word of the text begins, as offsets into it.

    A word is a run of letters and digits with their marks. After an apostrophe a new one begins when
    at least three letters follow (O'Neil, but not Anna's). Each Han character counts as the start of
    a word, since Chinese and Japanese are written without spaces.
    """
    starts = []
    inside = False
    for at, character in enumerate(text):
        kind = unicodedata.category(character)[0]
        if kind in "LN":
            if not inside or _is_han(character):
                starts.append(at)
            inside = True
        elif character in _APOSTROPHES and inside:
            inside = not _run_of_letters(text, at + 1, 3)
        elif kind != "M":
            inside = False
    return starts


def folded_words(text: str, limit: int) -> list[str]:
    """The whole text and its rest from each word on, folded, each once, the whole first.

    ``folded_words("Anna Maria", 8) == ["anna maria", "maria"]``

    Args:
        text: any text.
        limit: how many to return at most.
    """
    found = dict.fromkeys([fold(text)])
    for start in word_starts(text):
        if len(found) >= limit:
            break
        found[fold(text[start:])] = None
    return [words for words in found if words]


def _without_marks(decomposed: str) -> list[str]:
    """The characters of an NFD text that are kept: no marks on Latin and Greek, nothing invisible."""
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
    """Variation selectors choose a glyph (❤ or ❤️), not a letter; the grapheme joiner chooses nothing."""
    return "\ufe00" <= character <= "\ufe0f" or character == "\u034f" or "\U000e0100" <= character <= "\U000e01ef"


@lru_cache(maxsize=4096)
def _is_latin_or_greek(character: str) -> bool:
    return character.isascii() or unicodedata.name(character, "").startswith(("LATIN", "GREEK"))


def _is_han(character: str) -> bool:
    return character == "々" or unicodedata.name(character, "").startswith("CJK ")
