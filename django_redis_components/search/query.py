"""The grammar of queries. Without Redis.

=================  ========================================================
``black cat``      documents with both words
``+kitten``        a synonym of the word before: ``black cat +kitten``
``-dog``           documents without the word
``"black cat"``    the words next to each other
``cat OR dog``     documents with one of them; of a phrase beside OR the words
``title:cat``      documents with the word in a field of `field_queries`
=================  ========================================================

Stop words are left out, and a repeated word is the same word: ``cat dog cat +kitten`` means ``cat +kitten dog``. What
remains may be nothing: such a query finds nothing. A query is bounded; the words that are not searched are its
`ParsedQuery.dropped`, with the synonyms that follow them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence

from django_redis_components.core.arguments import check_string
from django_redis_components.core.text import QUOTES
from django_redis_components.search.stemming import stem
from django_redis_components.search.tokens import field_prefix, is_spaceless, query_terms, split_field, units, words

#: Characters of a query that are read, and groups of words that are searched.
MAX_QUERY_CHARS, MAX_WORDS = 1_000, 16
#: Terms of all groups, with synonyms; and of all that is excluded.
MAX_TERMS = 32
#: Characters of a run without spaces that are searched: their pairs are half of the terms.
MAX_RUN = 17
#: Phrases; words and phrases that are excluded; dropped words that are named.
MAX_PHRASES, MAX_EXCLUDED, MAX_DROPPED = 4, 16, 20

#: What keyboards write for the signs of a query: typographic quotation marks, and wide forms.
_SIGNS = str.maketrans({**dict.fromkeys(QUOTES + "＂「」『』", '"'), "＋": "+", "－": "-", "−": "-"})
#: A part of a query: sign, field, phrase, word. The name of the field is one of those that are put in its place.
_PART = r'([+-]?)(?:(%s):)?(?:"([^"]*)"|(\S+))'
#: The word between alternatives.
_OR = "OR"


@dataclasses.dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query.

    Attributes:
        groups: of each group one text must be in a document; those of a group are synonyms. A text is a word, or
            several separated by spaces that must all be there. A word that is searched in one field begins with
            its name between colons. With a stemmer, words are stems.
        excluded: groups of words that may not all be in it.
        excluded_phrases: of each of these groups, the words that must also be next to each other; "" for a single word.
        phrases: words that must be next to each other, folded and separated by spaces.
        prefix: whether the last group is the beginning of a word.
        dropped: words that are not searched, because the query has too many: the first 20.
        stemmer: of the index; "" for none.
    """

    groups: tuple[tuple[str, ...], ...]
    excluded: tuple[tuple[str, ...], ...] = ()
    excluded_phrases: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    prefix: bool = False
    dropped: tuple[str, ...] = ()
    stemmer: str = ""


def parse(
    text: str,
    stop_words: Collection[str] = (),
    synonyms: Mapping[str, Sequence[str]] | None = None,
    *,
    prefix: bool = False,
    stemmer: str = "",
    field_queries: Collection[str] = (),
) -> ParsedQuery:
    """Parse a query.

    Args:
        stop_words: folded words that are left out.
        synonyms: further texts by folded word, or stem.
        prefix: whether the last word may be incomplete; if it is a stop word, it is searched as a beginning.
        field_queries: fields in which words can be searched.

    Raises:
        TypeError: the query is not a string.
    """
    check_string(text, "query")
    query, end = _QueryReader(stop_words, stemmer), MAX_QUERY_CHARS
    if text[end : end + 1].strip():  # not within a word
        end = text.rfind(" ", 0, end) + 1 or end
    parts = _parts_of(text[:end].translate(_SIGNS), field_queries)
    for number, alternatives in enumerate(parts):
        is_last = number == len(parts) - 1 and len(text) <= end
        last = alternatives[-1]
        is_open = prefix and is_last and not last.is_phrase and last.sign != "-"
        if len(alternatives) == 1:
            query.add(last, is_open=is_open)
        else:
            query.add_alternatives(alternatives, is_open=is_open)
    query.drop(*words(text[end : 2 * MAX_QUERY_CHARS]))
    query.add_synonyms(synonyms or {})
    return query.parsed()


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """A word or a phrase of a query: its folded words.

    Attributes:
        field: prefix of the terms of its field; "" for all fields.
    """

    sign: str
    field: str
    words: list[str]
    is_phrase: bool
    is_operator: bool


def _parts_of(text: str, field_queries: Collection[str]) -> list[list[_Part]]:
    """Return the parts of a query, each as the list of its alternatives.

    OR between two parts that are not excluded makes alternatives of them; elsewhere it is a word. After a synonym it
    adds a further one.
    """
    pattern = _PART % "|".join(map(re.escape, field_queries)) if field_queries else _PART % r"(?!)"
    found: list[list[_Part]] = []
    is_alternative = False
    parts = [
        _Part(sign, field and field_prefix(field), words(phrase or plain), bool(phrase), sign + field + plain == _OR)
        for sign, field, phrase, plain in re.findall(pattern, text)
    ]
    for number, part in enumerate(parts):
        before = found[-1][-1] if found else None
        after = parts[number + 1] if number + 1 < len(parts) else None
        if is_alternative and before is not None:
            is_alternative = False
            if before.sign == "+":
                found.append([dataclasses.replace(part, sign="+")])
            else:
                found[-1].append(part)
        elif part.is_operator and before and after and "-" not in (before.sign, after.sign):
            is_alternative = True
        else:
            found.append([part])
    return found


class _QueryReader:
    """A query that is read part by part, within its bounds."""

    def __init__(self, stop_words: Collection[str], stemmer: str) -> None:
        self._stop_words = stop_words
        self._stemmer = stemmer
        self._groups: list[list[str]] = []
        self._excluded: dict[tuple[tuple[str, ...], str], None] = {}
        self._phrases: dict[str, None] = {}
        self._dropped: dict[str, None] = {}
        self._terms = self._excluded_terms = 0
        self._is_open = False
        #: The group of the word before, for its synonyms; None if that word is not searched.
        self._last: list[str] | None = None

    def add(self, part: _Part, *, is_open: bool) -> None:
        """Add the words of a part; with `is_open` the last may be incomplete."""
        kept = self._kept(part, is_open=is_open)
        if not kept:
            return
        stems = [self._term(part, word) for word in kept]
        if part.sign == "-":
            self._exclude(tuple(stems), " ".join(part.words))
            return
        if part.sign == "+" and self._groups:
            self._add_synonym(" ".join(stems))
            return
        if part.is_phrase:
            self._add_phrase(" ".join(part.words))
        for word, stemmed in zip(kept, stems, strict=True):
            if is_open and word == kept[-1]:
                self._add_group(part.field + word, stemmed, is_open=True)
            else:
                self._add_group(stemmed, is_open=False)

    def add_alternatives(self, parts: Sequence[_Part], *, is_open: bool) -> None:
        """Add a group of which a document must have one text; with `is_open` the last word may be incomplete."""
        texts = []
        for part in parts:
            opens = is_open and part is parts[-1]
            if kept := self._kept(part, is_open=opens):
                terms = [self._term(part, word) for word in kept]
                texts.append(" ".join(terms))
                if opens:  # what may be incomplete is the first text of its group
                    texts.insert(0, " ".join([*terms[:-1], part.field + kept[-1]]))
        if not texts:
            return
        self._last = None
        group: list[str] = []
        if len(self._groups) == MAX_WORDS:
            self.drop(*texts)
            return
        for text in texts:
            self._add_text(group, text)
        if group:
            self._groups.append(group)
            self._last, self._is_open = group, is_open

    def _kept(self, part: _Part, *, is_open: bool) -> list[str]:
        """Return the words of a part that are searched."""
        kept = [word for word in part.words if word not in self._stop_words]
        if is_open and part.words and part.words[-1] in self._stop_words:
            kept.append(part.words[-1])
        return kept

    def _term(self, part: _Part, word: str) -> str:
        return part.field + stem(word, self._stemmer, self._stop_words)

    def add_synonyms(self, synonyms: Mapping[str, Sequence[str]]) -> None:
        """Add the synonyms of the index."""
        for group in self._groups:
            found = [
                " ".join(field + each for each in other.split(" "))
                for field, word in map(split_field, group)
                for other in synonyms.get(word, ())
            ]
            for other in found:
                self._add_text(group, other)

    def drop(self, *texts: str) -> None:
        """Note what is not searched."""
        self._dropped.update(dict.fromkeys(texts[:MAX_DROPPED]))

    def parsed(self) -> ParsedQuery:
        """Return the query."""
        return ParsedQuery(
            tuple(map(tuple, self._groups)),
            tuple(kept for kept, _ in self._excluded),
            tuple(phrase for _, phrase in self._excluded),
            tuple(self._phrases),
            self._is_open,
            tuple(self._dropped)[:MAX_DROPPED],
            self._stemmer,
        )

    def _add_group(self, text: str, *others: str, is_open: bool) -> None:
        """Add a group, of a word and further texts."""
        field, word = split_field(text)
        characters = units(word) if is_spaceless(word) else []
        if len(characters) > MAX_RUN:
            self.drop("".join(characters[MAX_RUN:]))
            text, others, is_open = field + "".join(characters[:MAX_RUN]), (), False
        word = text
        self._last = next((group for group in self._groups if group[0] == word), None)
        if self._last is not None and not is_open:
            return
        group: list[str] = []
        if len(self._groups) == MAX_WORDS or not self._add_text(group, word):
            self.drop(word)
            return
        for other in others:
            self._add_text(group, other)
        self._groups.append(group)
        self._last, self._is_open = group, is_open

    def _add_synonym(self, text: str) -> None:
        """Add a synonym of the word before; without that word it means nothing."""
        if self._last is None:
            self.drop(text)
        else:
            self._add_text(self._last, text)

    def _add_text(self, group: list[str], text: str) -> bool:
        """Add a text to a group if it is within the bound."""
        if text in group:
            return True
        count = len(query_terms(text))
        if self._terms + count > MAX_TERMS:
            self.drop(text)
            return False
        self._terms += count
        group.append(text)
        return True

    def _add_phrase(self, phrase: str) -> None:
        if not _has_neighbors(phrase) or phrase in self._phrases:
            return
        if len(self._phrases) == MAX_PHRASES:
            self.drop(f'"{phrase}"')
        else:
            self._phrases[phrase] = None

    def _exclude(self, kept: tuple[str, ...], words: str) -> None:
        count = len(query_terms(" ".join(kept)))
        phrase = words if _has_neighbors(words) else ""
        if (kept, phrase) in self._excluded:
            return
        if len(self._excluded) == MAX_EXCLUDED or self._excluded_terms + count > MAX_TERMS:
            self.drop(f"-{words}")
            return
        self._excluded_terms += count
        self._excluded[kept, phrase] = None


def _has_neighbors(phrase: str) -> bool:
    """Return whether documents can have the terms of a phrase, but not next to each other."""
    return " " in phrase or (is_spaceless(phrase) and len(units(phrase)) > 2)
