"""Documents as they are stored: encoding them, and comparing them with what an index has."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from django_redis_components.core.protocol import Batch, Call, Flow, Read
from django_redis_components.search.arguments import (
    MAX_SORTS,
    Place,
    SortValue,
    check_id,
    check_place,
    facet_values,
    sort_name,
    sort_score,
)
from django_redis_components.search.scripts import INDEX

#: A text, or texts by field.
Text = str | Mapping[str, str]
#: Degrees by which a stored place may differ: it is rounded to 52 bits.
PLACE_TOLERANCE = 0.00001


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A document; see `SearchIndex.index`."""

    text: Text
    facets: Mapping[str, str | Iterable[str]]
    sort_values: Mapping[str, SortValue]
    location: Place | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CountedWords:
    """The words of a document: weighted frequencies of its terms, its weighted length, and its words in order."""

    frequencies: Mapping[str, float]
    length: float
    order: list[str]


@dataclasses.dataclass(frozen=True, slots=True)
class EncodedDocument:
    """A checked document as it is stored; see `lua/shared/documents.lua`."""

    id: str
    words: CountedWords
    facets: list[str]
    scores: dict[str, float]
    place: Place | None

    @property
    def record(self) -> str:
        """The record, by which the index removes the document."""
        lists = (sorted(self.words.frequencies), sorted(self.scores), sorted(self.facets))
        return "\0".join((f"{self.words.length:g}", *map("\1".join, lists), " ".join(self.words.order)))

    def call(self, base: str) -> Call:
        """Return the call that writes the document."""
        longitude, latitude = self.place or ("", "")
        pairs = [part for name, score in self.scores.items() for part in (name, repr(score))]
        pairs += [part for term, frequency in self.words.frequencies.items() for part in (term, f"{frequency:g}")]
        return INDEX(
            base=base,
            id=self.id,
            record=self.record,
            length=f"{self.words.length:g}",
            longitude=longitude,
            latitude=latitude,
            counts=len(self.scores),
            pairs=pairs,
        )


def encode(id: str | int | Any, document: Document, words: CountedWords) -> EncodedDocument:
    """Check and encode a document.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    if len(document.sort_values) > MAX_SORTS:
        raise ValueError(f"{len(document.sort_values)} sort values: at most {MAX_SORTS} are accepted.")
    scores = {sort_name(name): sort_score(value, name) for name, value in document.sort_values.items()}
    place = None if document.location is None else check_place(document.location, "location")
    return EncodedDocument(check_id(id), words, facet_values(document.facets), scores, place)


def differences(base: str, expected: Mapping[str, EncodedDocument | None]) -> Flow[dict[str, bool]]:
    """Compare documents with what is stored, in one round trip.

    Args:
        expected: documents by id; None for one that should not exist.

    Returns:
        The ids that differ, each with whether a document is stored.
    """
    if not expected:
        return {}
    ids = list(expected)
    names = sorted({name for each in expected.values() if each for name in each.scores})
    reads = [Read("HMGET", f"{base}:docs", *ids), Read("GEOPOS", f"{base}:geo", *ids)]
    records, places, *columns = yield Batch(reads + [Read("ZMSCORE", f"{base}:s:{name}", *ids) for name in names])
    scores = {name: dict(zip(ids, column, strict=True)) for name, column in zip(names, columns, strict=True)}
    found: dict[str, bool] = {}
    for id_, record, place in zip(ids, records, places, strict=True):
        wanted = expected[id_]
        if wanted is None:
            same = record is None
        else:
            stored = {name: scores[name][id_] for name in wanted.scores}
            same = record == wanted.record.encode("utf-8", "replace") and _same(wanted, stored, place)
        if not same:
            found[id_] = record is not None
    return found


def _same(wanted: EncodedDocument, scores: Mapping[str, Any], place: Any) -> bool:
    if any(scores[name] is None or float(scores[name]) != score for name, score in wanted.scores.items()):
        return False
    if wanted.place is None or place is None:
        return wanted.place is None and place is None
    return all(abs(float(one) - other) <= PLACE_TOLERANCE for one, other in zip(place, wanted.place, strict=True))
