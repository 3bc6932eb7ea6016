"""Documents as they are stored: encoding them, and comparing them with what an index has."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Set
from typing import Any

from django_redis_components.core.arguments import check_mapping
from django_redis_components.core.chunks import chunks
from django_redis_components.core.protocol import Call, Flow
from django_redis_components.search.arguments import (
    MAX_SORTS,
    Point,
    SortValue,
    check_id,
    check_point,
    facet_values,
    sort_name,
    sort_score,
)
from django_redis_components.search.counting import CountedWords
from django_redis_components.search.scripts import INDEX, READ_DOCUMENTS
from django_redis_components.search.tokens import stored_term

#: A text, or texts by field.
Text = str | Mapping[str, str]
#: Degrees by which a stored place may differ: it is rounded to 52 bits.
PLACE_TOLERANCE = 0.00001
#: Documents that one call compares: it looks at each of their terms.
COMPARED = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A document; see `SearchIndex.add`."""

    text: Text
    facets: Mapping[str, str | Iterable[str]] = dataclasses.field(default_factory=dict)
    sort_values: Mapping[str, SortValue] = dataclasses.field(default_factory=dict)
    location: Point | None = None

    def __post_init__(self) -> None:
        """Read the values of facets, once: a generator has none left afterwards, and equal querysets are not equal."""
        if isinstance(self.facets, Mapping):
            object.__setattr__(self, "facets", {name: _read(values) for name, values in self.facets.items()})


@dataclasses.dataclass(frozen=True, slots=True)
class EncodedDocument:
    """A checked document as it is stored; see `lua/shared/documents.lua`."""

    id: str
    words: CountedWords
    facets: list[str]
    scores: dict[str, float]
    place: Point | None

    @property
    def record(self) -> str:
        """The record, by which the index removes the document."""
        lists = (sorted(self.terms), sorted(self.scores))
        return "\0".join((f"{self.words.length:g}", *map("\1".join, lists), " ".join(self.words.order)))

    @property
    def terms(self) -> dict[str, float]:
        """The weighted frequencies of the terms as they are stored."""
        return {stored_term(term): frequency for term, frequency in self.words.frequencies.items()}

    @property
    def listed_facets(self) -> str:
        """The facets as they are stored."""
        return "\1".join(sorted(self.facets))

    def call(self, root: str, *, force: bool = False) -> Call:
        """Return the call that writes the document; with `force` also if it is stored already."""
        return INDEX(root=root, force=int(force), **self.arguments())

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the scripts that write the document."""
        longitude, latitude = self.place or ("", "")
        pairs = [part for name, score in self.scores.items() for part in (name, repr(score))]
        pairs += [part for term, frequency in self.terms.items() for part in (term, f"{frequency:g}")]
        return {
            "id": self.id,
            "record": self.record,
            "facets": self.listed_facets,
            "length": f"{self.words.length:g}",
            "longitude": longitude,
            "latitude": latitude,
            "counts": len(self.scores),
            "pairs": pairs,
        }


def encode(id: str | int | Any, document: Document, words: CountedWords) -> EncodedDocument:
    """Check and encode a document.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    check_mapping(document.sort_values, "sort_values")
    if len(document.sort_values) > MAX_SORTS:
        raise ValueError(f"{len(document.sort_values)} sort values: at most {MAX_SORTS} are accepted.")
    scores = {sort_name(name): sort_score(value, name) for name, value in document.sort_values.items()}
    place = None if document.location is None else check_point(document.location, "location")
    return EncodedDocument(check_id(id), words, facet_values(document.facets), scores, place)


def differences(root: str, expected: Mapping[str, EncodedDocument | None]) -> Flow[dict[str, bool]]:
    """Compare documents with what is stored: records, facets, postings, sort values and locations.

    Args:
        expected: documents by id; None for one that should not exist.

    Returns:
        The ids that differ, each with whether a document is stored.
    """
    names = sorted({name for each in expected.values() if each for name in each.scores})
    different: dict[str, bool] = {}
    for ids in chunks(expected, COMPARED):
        stored = yield READ_DOCUMENTS(root=root, name_count=len(names), names=[*names, *ids])
        for id_, (record, facets, is_damaged, longitude, latitude, *scores) in zip(ids, stored, strict=True):
            wanted = expected[id_]
            if wanted is None:
                same = not record
            else:
                same = not is_damaged and (record, facets) == (_bytes(wanted.record), _bytes(wanted.listed_facets))
                same = same and _same(wanted, dict(zip(names, scores, strict=True)), (longitude, latitude))
            if not same:
                different[id_] = bool(record)
    return different


def _read(values: Any) -> Any:
    is_kept = isinstance(values, str | bytes | list | tuple | Set) or not isinstance(values, Iterable)
    return values if is_kept else tuple(values)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _same(wanted: EncodedDocument, scores: Mapping[str, bytes], place: tuple[bytes, bytes]) -> bool:
    if any(not scores[name] or float(scores[name]) != score for name, score in wanted.scores.items()):
        return False
    if wanted.place is None or not place[0]:
        return wanted.place is None and not place[0]
    return all(abs(float(one) - other) <= PLACE_TOLERANCE for one, other in zip(place, wanted.place, strict=True))
