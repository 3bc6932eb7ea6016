"""The search index: documents by their words, ranked by relevance or by any numbers."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Call, Flow, Read, arun, run
from django_redis_components.core.text import fold
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.search.arguments import (
    MAX_SORTS,
    Order,
    SortValue,
    check_id,
    check_weight,
    check_whole,
    facet_of,
    facet_values,
    orders_of,
    sections_of,
    sort_score,
)
from django_redis_components.search.page import Hit, SearchPage
from django_redis_components.search.query import ParsedQuery, parse
from django_redis_components.search.scripts import INDEX, REMOVE, SEARCH
from django_redis_components.search.tokens import STOP_WORDS, terms, words

#: Part of the keys: a change of the terms or of the records needs a new number.
VERSION = "v1"
#: Words of a document that are indexed, and different terms.
MAX_WORDS, MAX_TERMS = 10_000, 3_000
#: Documents of a page, and pages.
MAX_PAGE_SIZE, MAX_PAGES = 200, 1_000
#: Documents that one search ranks.
MAX_CANDIDATES = 5_000

#: Elements that one HSCAN looks at.
SCAN_COUNT = 500

#: Types of an id; it is returned as a string.
Id = str | int | UUID
#: A text, or texts by field.
Text = str | Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """A document; see `SearchIndex.index`."""

    text: Text
    facets: Mapping[str, str | Iterable[str]]
    sort_values: Mapping[str, SortValue]


class SearchIndex:
    """An inverted index of documents.

    Args:
        name: name of the index; use one index per tenant or language.
        fields: weights of the fields of a document; a match in a field counts that much more.
        language: of the stop words, such as "en"; None for none. Known are de, en, es, fr and zh.
        stop_words: further words that are left out.
        synonyms: words that are searched too, by word: ``{"car": ["automobile"]}``.
        result_ttl: seconds for which a result is stored after its last use, for its further pages.
        using: connection alias.

    Raises:
        ValueError, TypeError: an argument is not accepted.
    """

    def __init__(
        self,
        name: str,
        *,
        fields: Mapping[str, float] | None = None,
        language: str | None = "en",
        stop_words: Iterable[str] = (),
        synonyms: Mapping[str, Sequence[str]] | None = None,
        result_ttl: Seconds = 60,
        using: str = "default",
    ) -> None:
        self.name = keys.validate_name(name, "index name")
        self.using = using
        self.fields = {field: check_weight(weight, field) for field, weight in (fields or {}).items()}
        if language is not None and language not in STOP_WORDS:
            raise ValueError(f"language={language!r}: expected one of {', '.join(sorted(STOP_WORDS))}, or None.")
        given = STOP_WORDS[language] if language else frozenset[str]()
        self._stop_words = given | {fold(word) for word in stop_words}
        self._synonyms = {fold(word): [fold(other) for other in others] for word, others in (synonyms or {}).items()}
        self._ttl_ms = to_ms(result_ttl, "result_ttl")

    def __repr__(self) -> str:
        return f"<SearchIndex {self.name}>"

    def index(
        self, id: Id, text: Text, *, facets: Mapping[str, str | Iterable[str]] | None = None, **sort_values: SortValue
    ) -> None:
        """Add or replace a document.

        Args:
            id: string, integer or UUID.
            text: the text, or a text for each of the index's fields. The first 10,000 words are indexed.
            facets: values by facet: ``{"kind": "blade", "color": ["red", "blue"]}``.
            sort_values: numbers, or texts whose first six bytes decide, that `search` can order by.

        Raises:
            ValueError, TypeError: an argument is not accepted.
        """
        run(connections.client(self.using), self._index(id, text, facets, sort_values))

    async def aindex(
        self, id: Id, text: Text, *, facets: Mapping[str, str | Iterable[str]] | None = None, **sort_values: SortValue
    ) -> None:
        """See `index`."""
        await arun(connections.aclient(self.using), self._index(id, text, facets, sort_values))

    def remove(self, id: Id) -> None:
        """Remove a document. An unknown id is ignored."""
        run(connections.client(self.using), self._remove(id))

    async def aremove(self, id: Id) -> None:
        """See `remove`."""
        await arun(connections.aclient(self.using), self._remove(id))

    def search(
        self,
        query: str,
        *,
        order_by: Order = "relevance",
        filters: Mapping[str, str] | None = None,
        facets: Sequence[str] = (),
        prefix: bool = False,
        page: int = 1,
        page_size: int = 20,
    ) -> SearchPage:
        """Return a page of the documents that match.

        All words must be in a document. ``+word`` is a synonym of the word before, ``-word`` excludes, and words in
        double quotes are next to each other. A query of stop words only finds nothing.

        The result is stored for `result_ttl` seconds: its pages after the first come from it. The first page is
        computed again if a document has changed. Of a word that is in more than 5,000 documents only the first are
        ranked: those with the highest relevance, or the first by the order; `SearchPage.is_partial` says so.

        Args:
            order_by: "relevance", the name of a sort value, or "-" and the name for the largest first; or weights of
                several that are added up, the largest sum first: ``{"relevance": 10, "votes": 1}``.
            filters: values of facets that a document must have.
            facets: facets whose values are counted in the result.
            prefix: whether the last word may be the beginning of a word: for results while the user types.
            page: from 1 to 1,000.
            page_size: from 1 to 200.

        Raises:
            ValueError, TypeError: an argument is not accepted.
        """
        flow = self._search(query, order_by, filters or {}, facets, prefix, page, page_size)
        return run(connections.client(self.using), flow)

    async def asearch(
        self,
        query: str,
        *,
        order_by: Order = "relevance",
        filters: Mapping[str, str] | None = None,
        facets: Sequence[str] = (),
        prefix: bool = False,
        page: int = 1,
        page_size: int = 20,
    ) -> SearchPage:
        """See `search`."""
        flow = self._search(query, order_by, filters or {}, facets, prefix, page, page_size)
        return await arun(connections.aclient(self.using), flow)

    def count(self) -> int:
        """Return the number of documents."""
        return run(connections.client(self.using), self._count())

    async def acount(self) -> int:
        """See `count`."""
        return await arun(connections.aclient(self.using), self._count())

    def parse(self, query: str, *, prefix: bool = False) -> ParsedQuery:
        """Return what a query means, for tests and for explanations."""
        return parse(query, self._stop_words, self._synonyms, prefix=prefix)

    def _base(self) -> str:
        return keys.key("search", self.name, VERSION)

    def write_many(self, documents: Mapping[str, Document | None]) -> None:
        """Write documents by id, in one round trip; remove those that are None."""
        calls = [
            REMOVE(base=self._base(), id=check_id(id_)) if document is None else self._encode(id_, document)[1]
            for id_, document in documents.items()
        ]
        if calls:
            run(connections.client(self.using), _send(calls))

    def read_records(self, ids: Iterable[str]) -> dict[str, bytes | None]:
        """Return the stored records of ids, to compare them with `record`; None for an unknown id."""
        wanted = list(ids)
        if not wanted:
            return {}
        records = connections.client(self.using).execute(Read("HMGET", f"{self._base()}:docs", *wanted))
        return dict(zip(wanted, records, strict=True))

    def record(self, document: Document) -> bytes:
        """Return what is stored of the words and facets of a document."""
        return self._encode("-", document)[0].encode("utf-8", "replace")

    def scan_ids(self) -> Iterator[list[str]]:
        """Yield the ids of all documents, some at a time. An id may be yielded twice."""
        cursor, client = 0, connections.client(self.using)
        while True:
            reply = client.execute(Read("HSCAN", f"{self._base()}:docs", cursor, "COUNT", SCAN_COUNT))
            cursor = int(reply[0])
            yield [id_.decode(errors="replace") for id_ in reply[1][::2]]
            if not cursor:
                return

    def _index(
        self, id: Id, text: Text, facets: Mapping[str, str | Iterable[str]] | None, sort_values: Mapping[str, SortValue]
    ) -> Flow[None]:
        yield self._encode(id, Document(text, facets or {}, sort_values))[1]

    def _encode(self, id: Id, document: Document) -> tuple[str, Call]:
        """Return the record of a document, and the call that writes it."""
        frequencies, length, order = self._count_terms(document.text)
        if len(document.sort_values) > MAX_SORTS:
            raise ValueError(f"{len(document.sort_values)} sort values: at most {MAX_SORTS} are accepted.")
        sorts = {
            keys.validate_name(name, "name of a sort value"): sort_score(value, name)
            for name, value in document.sort_values.items()
        }
        placed = sorted(facet_values(document.facets))
        parts = (f"{length:g}", *map("\1".join, (sorted(frequencies), sorted(sorts), placed)), " ".join(order))
        record = "\0".join(parts)
        pairs = [part for name, score in sorts.items() for part in (name, repr(score))]
        pairs += [part for term, frequency in frequencies.items() for part in (term, f"{frequency:g}")]
        call = INDEX(
            base=self._base(), id=check_id(id), record=record, length=f"{length:g}", counts=len(sorts), pairs=pairs
        )
        return record, call

    def _count_terms(self, text: Text) -> tuple[Mapping[str, float], float, list[str]]:
        """Return the weighted frequencies of terms, the weighted length, and the words in order."""
        frequencies: Counter[str] = Counter()
        length = 0.0
        order: list[str] = []
        for field, part in self._parts(text).items():
            weight = self.fields.get(field, 1.0)
            found = words(part)[: MAX_WORDS - len(order)]
            length += weight * len(found)
            order += found
            for word in found:
                if word not in self._stop_words:
                    for term in terms(word):
                        frequencies[term] += weight  # type: ignore[assignment]
        return dict(frequencies.most_common(MAX_TERMS)), length, order

    def _parts(self, text: Text) -> Mapping[str, str]:
        parts = {"": text} if isinstance(text, str) else text
        if not isinstance(parts, Mapping) or not all(isinstance(part, str) for part in parts.values()):
            raise TypeError(f"text={text!r}: expected a string, or a mapping of fields to strings.")
        if not isinstance(text, str) and (unknown := [field for field in parts if field not in self.fields]):
            known = ", ".join(self.fields) or "none"
            raise ValueError(f"text has the unknown field {unknown[0]!r}: fields of the index are {known}.")
        return parts

    def _remove(self, id: Id) -> Flow[None]:
        yield REMOVE(base=self._base(), id=check_id(id))

    def _count(self) -> Flow[int]:
        number: int = yield Read("HLEN", f"{self._base()}:docs")
        return number

    def _search(
        self,
        query: str,
        order_by: Order,
        filters: Mapping[str, str],
        facets: Sequence[str],
        prefix: bool,
        page: int,
        page_size: int,
    ) -> Flow[SearchPage]:
        check_whole(page, "page", MAX_PAGES)
        check_whole(page_size, "page_size", MAX_PAGE_SIZE)
        parsed, orders = self.parse(query, prefix=prefix), orders_of(order_by)
        chosen = [facet_of(name, value) for name, value in filters.items()]
        counted = [keys.validate_name(name, "facet") for name in facets]
        if not parsed.groups:
            return SearchPage((), 0, False, page, page_size, {name: {} for name in counted})
        sections = sections_of(parsed, chosen, orders, counted)
        total, partial, found, counts = yield SEARCH(
            base=self._base(),
            result=hashlib.blake2b(repr((parsed, sorted(chosen), orders)).encode(), digest_size=16).hexdigest(),
            reuse=int(page > 1),
            ttl_ms=self._ttl_ms,
            first=(page - 1) * page_size,
            count=page_size,
            max_candidates=MAX_CANDIDATES,
            prefix=int(parsed.prefix),
            sections=sections,
        )
        hits = tuple(
            Hit(id_.decode(errors="replace"), float(score)) for id_, score in zip(found[::2], found[1::2], strict=True)
        )
        return SearchPage(hits, total, bool(partial), page, page_size, dict(map(_facet_counts, counts)))


def _send(calls: Sequence[Call]) -> Flow[None]:
    yield Batch(calls)


def _facet_counts(reply: Any) -> tuple[str, dict[str, int]]:
    name, values = reply
    counts = {
        value.decode(errors="replace"): int(count) for value, count in zip(values[::2], values[1::2], strict=True)
    }
    return name.decode(), dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
