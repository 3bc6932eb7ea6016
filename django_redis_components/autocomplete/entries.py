"""What is put into an index, what comes out of it, and how both look in Redis. Pure: no Redis here.

A record is ``text NUL weight``, then ``0x01 term`` for each folded term. A member of the sorted set is
``term NUL text NUL weight NUL id``. NUL sorts before everything else, so that an exact match stands
before longer names. `lua/shared/entries.lua` makes members out of records.
"""

from __future__ import annotations

import dataclasses
import logging
import unicodedata
from collections.abc import Sequence
from uuid import UUID

from django.utils.functional import Promise

from django_redis_components.core.keys import validate_name
from django_redis_components.core.text import fold, folded_words

#: Longest text of a suggestion, in characters. It stands in Redis once for each term.
MAX_TEXT_CHARS = 300
#: Characters of what is typed that are looked at: folding a megabyte takes more than a second.
MAX_TYPED_CHARS = 1_000
#: Folded characters of a term, and of what is typed, that are compared. Further ones make no difference.
MAX_TERM_CHARS = 100
#: Terms of one entry: its text, the words of its text, and the further terms given. Lua unpacks three each.
MAX_TERMS = 32
#: Terms made of the text, so that a long text leaves room for the terms given.
MAX_TEXT_TERMS = 16
#: Largest weight. Its nine digits stand in members.
MAX_WEIGHT = 999_999_999

#: Most suggestions in one answer.
MAX_SUGGESTIONS = 1_000

logger = logging.getLogger("django_redis_components.autocomplete")

#: What may be an id: it comes back as a string.
Id = str | int | UUID


@dataclasses.dataclass(frozen=True, slots=True)
class Suggestion:
    """One suggestion.

    Attributes:
        id: the id, as a string.
        text: what is shown.
        recent: whether it stands there because it was chosen lately; not part of equality.
    """

    id: str
    text: str
    recent: bool = dataclasses.field(default=False, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What an index holds for one id.

    Args:
        id: string, integer or UUID; at most 200 bytes, no control characters, no braces.
        text: what is shown, and found from the beginning of each of its words.
        terms: further strings that find it, each from its beginning only: an e-mail address, a nickname,
            a transliteration ("zhangsan", "zs").
        weight: 0 to 999,999,999; the heavier comes first among equals.
    """

    id: Id
    text: str
    terms: Sequence[str] = ()
    weight: int = 0

    def record(self) -> str:
        """The entry as it stands in Redis.

        Raises:
            TypeError, ValueError: a part is not accepted; the message says which and why.
        """
        text = check_text(self.text)
        weight = self.weight
        if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= MAX_WEIGHT:
            raise ValueError(f"weight={weight!r}: expected a whole number from 0 to {MAX_WEIGHT}.")
        return "\1".join((f"{text}\0{weight}", *self._folded_terms(text)))

    def _folded_terms(self, text: str) -> list[str]:
        if isinstance(self.terms, str):
            raise TypeError(f"terms={self.terms!r}: expected a list of strings, got one string.")
        terms = dict.fromkeys(folded_words(text, MAX_TEXT_TERMS))
        terms.update(dict.fromkeys(fold(check_text(term, "term")) for term in self.terms or ()))
        cut = list(dict.fromkeys(term[:MAX_TERM_CHARS].rstrip() for term in terms if term))
        if not cut:
            raise ValueError(f"text {text!r}: nothing in it can be typed.")
        if len(cut) > MAX_TERMS:
            raise ValueError(f"entry {self.id!r} has {len(cut)} terms with those of its text: at most {MAX_TERMS}.")
        # Sorted, since of the terms with one beginning the first stands in the set by weight: it must be the one
        # that suggestions are ordered by. Lua's own comparison depends on the server's locale.
        return sorted(cut)


def check_id(value: object, what: str = "id") -> str:
    """An id as a string.

    Raises:
        TypeError, ValueError: it is not accepted.
    """
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        value = str(value)
    return validate_name(value, what)


def check_text(value: object, what: str = "text") -> str:
    """A text that may be shown and indexed.

    Raises:
        TypeError, ValueError: it is not accepted.
    """
    if not isinstance(value, str | Promise):
        raise TypeError(f"{what} {value!r}: expected a string, got {type(value).__name__}.")
    text = str(value).strip()
    if not text:
        raise ValueError(f"{what} is empty.")
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"{what} {text[:40]!r}… has {len(text)} characters: expected at most {MAX_TEXT_CHARS}.")
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs"):
            raise ValueError(f"{what} {text!r}: character {character!r} is not accepted.")
    return text


def folded_prefix(typed: str) -> str:
    """What was typed, as it is compared with terms.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(typed, str):
        raise TypeError(f"prefix={typed!r}: expected text.")
    return fold(typed[:MAX_TYPED_CHARS])[:MAX_TERM_CHARS].rstrip()


def member_parts(member: bytes) -> tuple[str, str, int, str] | None:
    """Term, text, weight and id of a member of a sorted set; None for what this package did not write."""
    try:
        term, text, weight, id_ = member.decode().split("\0")[-4:]
        if id_:
            return term, text, int(weight[:10]), id_
    except ValueError:
        pass
    _log_corrupt("member", member)
    return None


def text_of(record: bytes) -> str | None:
    """The text of a record; None for what this package did not write."""
    try:
        text, _ = record.decode().split("\0", 1)
    except ValueError:
        _log_corrupt("record", record)
        return None
    return text


def recent_parts(element: bytes) -> tuple[str, str] | None:
    """Id and text ("" for none) of an element of a list of recents; None for what this package did not write."""
    try:
        id_, text = element.decode().split("\0", 1)
        if id_:
            return id_, text
    except ValueError:
        pass
    _log_corrupt("element of a recent list", element)
    return None


def _log_corrupt(what: str, found: bytes) -> None:
    logger.warning("Skipped a corrupt %s of autocomplete: %r", what, found[:100])


def record_matches(record: bytes, start: bytes) -> bool:
    """Whether one of the record's terms begins with these bytes."""
    return b"\1" + start in record


def check_limit(limit: int) -> None:
    """Refuse a number of suggestions that is none.

    Raises:
        ValueError: not from 1 to 1,000.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_SUGGESTIONS:
        raise ValueError(f"limit={limit!r}: expected a whole number from 1 to {MAX_SUGGESTIONS}.")
