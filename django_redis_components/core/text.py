"""Folding of text: spellings that readers consider equal fold to the same string.

    fold("  Émile  ZOLA") == "emile zola"        fold("Łódź") == "lodz"        fold("Ждёт") == "ждет"

The steps: NFC; characters like an apostrophe become one, and so do quotation marks; NFKC, casefold, NFKC again;
combining marks are removed from Latin and Greek letters (elsewhere they make another letter: か and が, И and Й), and
the vowel signs of Arabic and Hebrew, which most texts leave out: محمد is مُحَمَّد; ё becomes е, and a table
replaces letters without a decomposition, and those that keyboards and writers exchange (ک and ك, ی and ي);
digits of all scripts become ASCII digits; invisible format characters are removed; white space and control
characters become single spaces; NFKD, and Hangul as the letters that are typed, so that what is typed on
the way is a prefix: ㅎ, 하, 한 and 한ㄱ of 한국, 고 of 관, 갑 of 값, 한 of 하나. As a result a bare letter is also a
prefix of its marked form (и of й), but not the other way round.

Not folded, because they are other letters that the same keyboard has: the final letters of Hebrew, й and и, ґ and г,
alef with and without hamza or madda, and the Urdu ے.

Folding may change the length: never truncate a text for display by the length of its folded form.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

#: Part of each key with folded text. A change of the steps needs a new number: a new index is then built beside the
#: old one, and the two never mix.
FOLDING_VERSION = 5
#: Starts of words in a text that `match_span` looks at.
MAX_MATCH_STARTS = 16

#: Characters that are written for an apostrophe: typographic ones, primes, the apostrophe of Ukrainian, the okina and
#: the saltillo, which are letters in Unicode, and the geresh. NFKC would turn the acute accent into a space and a mark.
APOSTROPHES = "'‘’‛′´`\u02b9\u02bb\u02bc\u02bd\ua78c\u05f3"
#: Quotation marks that are written for ", and the gershayim.
QUOTES = "“”„‟«»″\u05f4"
_QUOTE_LIKE = str.maketrans({**dict.fromkeys(APOSTROPHES, "'"), **dict.fromkeys(QUOTES, '"')})
#: Letters without a decomposition, and typographic dashes. Of Arabic script: the letters of Persian, Urdu and Kurdish
#: keyboards become those of Arabic ones; ى and ة are often written for ي and ه; the tatweel only widens a word.
_LETTERS = _QUOTE_LIKE | str.maketrans(
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
        "⁄": "/",
        "\u06a9": "\u0643",  # ک -> ك
        "\u06cc": "\u064a",  # ی -> ي
        "\u0649": "\u064a",  # ى -> ي
        "\u06c1": "\u0647",  # ہ -> ه
        "\u06be": "\u0647",  # ھ -> ه
        "\u06d5": "\u0647",  # ە -> ه
        "\u0629": "\u0647",  # ة -> ه
        "\u0640": None,
    }
)
#: Vowel signs of Hebrew and Arabic, and the signs of chant.
_VOWEL_SIGNS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)
_DIGITS = re.compile(r"[^\D0-9]")
#: Hangul whose letters are typed one by one: syllables, and the vowels and finals that are not typed alone.
_HANGUL = re.compile("[\u1160-\u11ff\uac00-\ud7a3]+")
_FINALS = "ㄱ ㄲ ㄱㅅ ㄴ ㄴㅈ ㄴㅎ ㄷ ㄹ ㄹㄱ ㄹㅁ ㄹㅂ ㄹㅅ ㄹㅌ ㄹㅍ ㄹㅎ ㅁ ㅂ ㅂㅅ ㅅ ㅆ ㅇ ㅈ ㅊ ㅋ ㅌ ㅍ ㅎ"
_VOWELS = {
    0x116A: "ㅗㅏ",
    0x116B: "ㅗㅐ",
    0x116C: "ㅗㅣ",
    0x116F: "ㅜㅓ",
    0x1170: "ㅜㅔ",
    0x1171: "ㅜㅣ",
    0x1174: "ㅡㅣ",
}
#: Letters that are typed for a vowel or a final. A final is typed like an initial, and becomes one before a vowel. The
#: doubled ㄲ and ㅆ are one key. Whole syllables have no other spelling with the same letters.
_TYPED = {
    code: unicodedata.normalize("NFKD", letters)
    for code, letters in (*enumerate(_FINALS.split(" "), 0x11A8), *_VOWELS.items())
}
_SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
#: Most combining characters in succession, as in the stream-safe text format of Unicode (UAX #15): to normalize a run
#: of them takes quadratic time, 1.2 s for 40,000.
MAX_MARKS = 30
#: What may be such a run; it also finds other signs. Two letters are marks after NFKC.
_SIGNS = re.compile(rf"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){{{MAX_MARKS + 1},}}")
#: Characters after which a new word starts inside a word: O'Neil, d'Artagnan. A grave accent alone is no apostrophe.
_IN_WORDS = frozenset(APOSTROPHES) - {"`"}


def fold(text: str) -> str:
    """Return the form of a text for comparison. Folding is idempotent."""
    return as_typed(fold_to_syllables(text))


def compose(text: str) -> str:
    """Return a text in NFC; of more than `MAX_MARKS` combining characters in succession it has the first ones."""
    return unicodedata.normalize("NFC", _SIGNS.sub(_without_excess_marks, text))


def fold_to_syllables(text: str) -> str:
    """Fold a text, but not Hangul into the letters that are typed: NFC composes its syllables again."""
    if text.isascii():
        return _SPACES.sub(" ", text).strip().lower().replace("`", "'")
    text = compose(text).translate(_QUOTE_LIKE)  # U+1FFD is U+00B4 in another spelling
    text = unicodedata.normalize("NFKC", text).casefold()
    text = _SPACES.sub(" ", unicodedata.normalize("NFKC", text)).translate(_LETTERS)
    text = _DIGITS.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    kept = "".join(_without_marks(unicodedata.normalize("NFD", text))).translate(_LETTERS)
    kept = _VOWEL_SIGNS.sub("", kept)
    return unicodedata.normalize("NFKD", _SPACES.sub(" ", kept).strip())


def as_typed(text: str) -> str:
    """Return a text with Hangul as the letters that are typed: what is typed on the way to a text is its prefix."""
    return text if text.isascii() else _HANGUL.sub(_typed, text)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number of things in English: ``counted(1, "entry", "entries")`` is "1 entry"; by default with an "s"."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def one_line(text: str) -> str:
    """Escape all unprintable characters, so that a text cannot inject lines into a log."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def encodable(text: str) -> str:
    """Escape lone surrogates, which cannot be sent as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def has_part(text: str, part: str) -> bool:
    """Return whether a text has a part, whatever the case of ASCII letters, as Lua's `string.lower` folds it."""
    return encodable(part).encode().lower() in encodable(text).encode().lower()


#: Positions of a match in a text: at its start, at the start of a word, and inside a run of Han characters.
START, WORD, INSIDE = 0, 1, 2


def word_starts(text: str) -> list[int]:
    """Return the offsets at which the words of a text start.

    A word is a run of letters and digits with their marks. After an apostrophe a new word starts if at least three
    letters follow (O'Neil, but not Anna's). Each Han character starts a word, and so does what follows Han characters,
    because Chinese and Japanese are written without spaces: タワー of 東京タワー, KFC of 北京KFC.
    """
    return [start for start, _place in _words(text)]


def folded_words(text: str, limit: int) -> list[str]:
    """Return the text and its suffixes that start at a word, folded, without duplicates, the whole text first.

    ``folded_words("Anna Maria", 8) == ["anna maria", "maria"]``

    Args:
        text: any text.
        limit: the most strings to return.
    """
    return list(folded_positions(text, limit))


def folded_positions(text: str, limit: int) -> dict[str, int]:
    """Return what `folded_words` returns, each with the first position at which it starts.

    ``folded_positions("北京 anna", 8) == {"北京 anna": START, "京 anna": INSIDE, "anna": WORD}``
    """
    positions = {fold(text): START}
    for start, position in _words(text):
        if len(positions) >= limit:
            break
        words = fold(text[start:])
        positions[words] = min(position, positions.get(words, position))
    positions.pop("", None)
    return positions


def match_span(text: str, folded: str) -> tuple[int, int] | None:
    """Return start and end, in characters, of the first part of a text that starts with a folded prefix; None without.

    ``match_span("Émile Zola", "zo") == (6, 8)``
    """
    if not folded:
        return None
    for start in list(dict.fromkeys([0, *word_starts(text)]))[:MAX_MATCH_STARTS]:
        if not fold(text[start:]).startswith(folded):
            continue
        for end in range(start + 1, len(text) + 1):
            if fold(text[start:end]).startswith(folded):
                return start, end
    return None


def is_han(character: str) -> bool:
    """Return whether a character is a Han character or its repetition mark."""
    return character == "々" or (character > "\u2e7f" and unicodedata.name(character, "").startswith("CJK "))


def _without_excess_marks(match: re.Match[str]) -> str:
    kept, count = [], 0
    for character in match[0]:
        is_mark = unicodedata.combining(unicodedata.normalize("NFKD", character)[-1])
        count = count + 1 if is_mark else 0
        if count <= MAX_MARKS:
            kept.append(character)
    return "".join(kept)


def _typed(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFD", match[0]).translate(_TYPED)


def _words(text: str) -> list[tuple[int, int]]:
    """Return the offsets at which words start, and the position of each: WORD or INSIDE."""
    starts = []
    inside = after_han = False
    for index, character in enumerate(text):
        kind = unicodedata.category(character)[0]
        if character in _IN_WORDS:
            part = text[index + 1 : index + 4]
            inside = inside and not (len(part) == 3 and part.isalpha())
        elif kind in "LN":
            han = not character.isascii() and is_han(character)
            if not inside or han or after_han:
                starts.append((index, INSIDE if inside and after_han and han else WORD))
            inside, after_han = True, han
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


def _is_selector(character: str) -> bool:
    """Return whether it is a variation selector, which selects a glyph (❤ or ❤️), or the grapheme joiner."""
    return "\ufe00" <= character <= "\ufe0f" or character == "\u034f" or "\U000e0100" <= character <= "\U000e01ef"


@lru_cache(maxsize=4096)
def _is_latin_or_greek(character: str) -> bool:
    return character.isascii() or unicodedata.name(character, "").startswith(("LATIN", "GREEK"))
