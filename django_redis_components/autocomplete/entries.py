"""Entries, suggestions, and their encoding in Redis. Without Redis.

A head is the text, followed by ``0x01 weight`` if the entry has a weight. A record is the head, then
``NUL position term`` for each folded term; the position is a digit: where the term starts in the text. A member of the
sorted set is ``position term NUL head NUL id``. NUL sorts first, so that an exact match precedes longer names, and an
entry without a weight the same text with one. `lua/shared/entries.lua` builds members from records.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Sequence
from uuid import UUID

from django.utils.functional import Promise

from django_redis_components.core.arguments import check_int, check_iterable, check_string, id_text, short_repr
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.keys import validate_name
from django_redis_components.core.text import WORD, fold, folded_positions

#: Maximum length of a text in characters. It is stored once for each term.
MAX_TEXT_CHARS = 300
#: Characters of a query that are read: folding a megabyte takes more than a second.
MAX_QUERY_CHARS = 1_000
#: Folded characters of a term and of a query that are compared; further ones are ignored.
MAX_TERM_CHARS = 100
#: Maximum terms of one entry: its text, the words of its text, and further terms. Lua unpacks three for each.
MAX_TERMS = 32
#: Maximum terms from the text, so that further terms fit.
MAX_TEXT_TERMS = 16
#: Maximum weight; members store nine digits.
MAX_WEIGHT = 999_999_999

#: Maximum suggestions of one query.
MAX_SUGGESTIONS = 1_000

logger = guarded_logger("django_redis_components.autocomplete")

#: Types of an id; it is returned as a string.
Id = str | int | UUID


@dataclasses.dataclass(slots=True, unsafe_hash=True)  # not frozen: that takes three times as long
class Suggestion:
    """A suggestion.

    Attributes:
        id: the id, as a string.
        text: the displayed text.
        is_recent: whether it comes from the recent choices; not part of equality.
    """

    id: str
    text: str
    is_recent: bool = dataclasses.field(default=False, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an index.

    Args:
        id: string, integer or UUID; at most 200 bytes, no control characters, no braces.
        text: the displayed text; it matches by a prefix of any of its words.
        terms: further strings that match by their prefix: an e-mail address, a nickname, a transliteration
            ("zhangsan", "zs").
        weight: 0 to 999,999,999; higher weights come first among equal matches.
    """

    id: Id
    text: str
    terms: Sequence[str] = ()
    weight: int = 0


def record_of(entry: Entry) -> str:
    """Return the encoding of an entry in Redis.

    Raises:
        TypeError, ValueError: a part is not accepted.
    """
    text = check_text(entry.text)
    weight = check_int(entry.weight, "weight", 0, MAX_WEIGHT)
    return "\0".join((f"{text}\1{weight}" if weight else text, *_positioned_terms(entry, text)))


def _positioned_terms(entry: Entry, text: str) -> list[str]:
    """Return the folded terms with their positions, those at the start of the text first."""
    positions = list(folded_positions(text, MAX_TEXT_TERMS).items())
    positions += [
        (fold(check_text(term, "term")), WORD) for term in check_iterable(entry.terms or (), "terms", "strings")
    ]
    positions_by_term: dict[str, int] = {}
    for term, position in positions:
        if shortened := term[:MAX_TERM_CHARS].rstrip():
            positions_by_term[shortened] = min(position, positions_by_term.get(shortened, position))
    if not positions_by_term:
        raise ValueError(f"text={short_repr(text)}: expected at least one letter or digit.")
    if len(positions_by_term) > MAX_TERMS:
        raise ValueError(
            f"entry {short_repr(entry.id)} has {len(positions_by_term)} terms with those of its text:"
            f" at most {MAX_TERMS}."
        )
    # Sorted: of terms with a common prefix, the set by weight stores the first, which must be the one that
    # suggestions are ordered by. Lua's comparison depends on the server's locale.
    return sorted(f"{position}{term}" for term, position in positions_by_term.items())


def check_id(value: object, what: str = "id") -> str:
    """Return an id as a string.

    Raises:
        TypeError, ValueError: it is not accepted.
    """
    return validate_name(id_text(value, what), what)


def check_text(value: object, what: str = "text") -> str:
    """Return a valid text, stripped.

    Raises:
        TypeError, ValueError: it is not accepted.
    """
    text = check_string(str(value) if isinstance(value, Promise) else value, what).strip()
    if not 1 <= len(text) <= MAX_TEXT_CHARS:
        raise ValueError(f"{what}={short_repr(text)}: expected 1 to {MAX_TEXT_CHARS} characters, got {len(text)}.")
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs"):
            raise ValueError(f"{what}={short_repr(text)}: character {character!r} is not accepted.")
    return text


def printable(text: str) -> str:
    """Replace the characters that `check_text` rejects by spaces."""
    return "".join(" " if unicodedata.category(each) in ("Cc", "Cs") else each for each in text)


def folded_prefix(query: str) -> str:
    """Fold a query as terms are folded.

    Raises:
        TypeError: it is not a string.
    """
    return fold(check_string(query, "prefix")[:MAX_QUERY_CHARS])[:MAX_TERM_CHARS].rstrip()


def split_head(head: str) -> tuple[str, int]:
    """Return text and weight of a head.

    Raises:
        ValueError: it is corrupt.
    """
    text, _mark, weight = head.partition("\1")
    return text, int(weight[:10]) if _mark else 0


def text_of(record: bytes) -> str | None:
    """Return the text of a record, or None if it is corrupt."""
    try:
        head, *terms = record.decode().split("\0")
        text, _weight = split_head(head)
        if text and terms:
            return text
    except ValueError:
        pass
    log_corrupt("record", record)
    return None


def recent_parts(element: bytes) -> tuple[str, str] | None:
    """Return id and text ("" for none) of an element of a recent list, or None if it is corrupt."""
    try:
        id_, text = element.decode().split("\0", 1)
        if id_:
            return id_, text
    except ValueError:
        pass
    log_corrupt("element of a recent list", element)
    return None


def log_corrupt(what: str, value: bytes) -> None:
    """Log a value that another program has written to a key of this component."""
    logger.warning("Skipped a corrupt %s of autocomplete: %r", what, value[:100])


def check_limit(limit: int) -> int:
    """Return a number of suggestions.

    Raises:
        TypeError, ValueError: not an integer from 1 to 1,000.
    """
    return check_int(limit, "limit", 1, MAX_SUGGESTIONS)
