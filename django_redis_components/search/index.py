"""The search index: documents by their words, ranked by relevance or by any numbers."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Call, Flow, Read, arun, run
from django_redis_components.core.text import fold
from django_redis_components.core.units import Seconds, check_flag, to_ms
from django_redis_components.search.arguments import (
    Order,
    Place,
    SortValue,
    check_id,
    check_weight,
)
from django_redis_components.search.documents import CountedWords, Document, EncodedDocument, Text, differences, encode
from django_redis_components.search.page import SearchPage
from django_redis_components.search.query import ParsedQuery, parse
from django_redis_components.search.query_log import QueryStats, log_query, read_stats
from django_redis_components.search.request import SearchRequest
from django_redis_components.search.scripts import REMOVE
from django_redis_components.search.tokens import STOP_WORDS, terms, words

#: TextPart of the keys: a change of the terms or of the records needs a new number.
VERSION = "v1"
#: Words of a document that are indexed, and different terms.
MAX_WORDS, MAX_TERMS = 10_000, 3_000
#: Elements that one HSCAN looks at.
SCAN_COUNT = 500

#: Types of an id; it is returned as a string.
Id = str | int | UUID


@dataclasses.dataclass(frozen=True, slots=True)
class SearchSize:
    """The size of an index.

    Attributes:
        terms: different terms of all documents.
        words: of all documents, with the weights of their fields.
    """

    documents: int
    terms: int
    words: int


class SearchIndex:
    """An inverted index of documents.

    Args:
        name: name of the index; use one index per tenant or language.
        fields: weights of the fields of a document; a match in a field counts that much more.
        language: of the stop words, such as "en"; None for none. Known are de, en, es and fr.
        stop_words: further words that are left out.
        synonyms: words that are searched too, by word: ``{"car": ["automobile"]}``.
        result_ttl: seconds for which a result is stored after its last use, for its further pages.
        log_queries: whether slow queries and those that find nothing are kept for `query_stats`.
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
        log_queries: bool = True,
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
        self._logs_queries = check_flag(log_queries, "log_queries")

    def __repr__(self) -> str:
        return f"<SearchIndex {self.name}>"

    def index(
        self,
        id: Id,
        text: Text,
        *,
        facets: Mapping[str, str | Iterable[str]] | None = None,
        location: Place | None = None,
        **sort_values: SortValue,
    ) -> None:
        """Add or replace a document.

        Args:
            id: string, integer or UUID.
            text: the text, or a text for each of the index's fields. The first 10,000 words are indexed.
            facets: values by facet: ``{"kind": "blade", "color": ["red", "blue"]}``.
            location: longitude and latitude in degrees.
            sort_values: numbers, or texts whose first six bytes decide, that `search` can order by.

        Raises:
            ValueError, TypeError: an argument is not accepted.
        """
        run(connections.client(self.using), self._index(id, Document(text, facets or {}, sort_values, location)))

    async def aindex(
        self,
        id: Id,
        text: Text,
        *,
        facets: Mapping[str, str | Iterable[str]] | None = None,
        location: Place | None = None,
        **sort_values: SortValue,
    ) -> None:
        """See `index`."""
        await arun(
            connections.aclient(self.using), self._index(id, Document(text, facets or {}, sort_values, location))
        )

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
        near: Place | None = None,
        within: float = 50,
        page: int = 1,
        page_size: int = 20,
    ) -> SearchPage:
        """Return a page of the documents that match.

        All words must be in a document. ``+word`` is a synonym of the word before, ``-word`` excludes, and words in
        double quotes are next to each other. A query of stop words only finds nothing.

        The result is stored for `result_ttl` seconds: its pages after the first come from it. The first page is
        computed again if a document has changed. Of words that are all in more than 5,000 documents only the 5,000 with
        the highest relevance are ranked; by another order, of words in more than 10,000 documents those that are among
        the first 5,000 of all documents, or near the place. `SearchPage.is_partial` says so.

        Args:
            order_by: "relevance", the name of a sort value, "distance", or "-" and the name for the largest first; or
                weights of several that are added up, the largest sum first: ``{"relevance": 10, "votes": 1}``.
            filters: values of facets that a document must have.
            facets: facets whose values are counted in the result.
            prefix: whether the last word may be the beginning of a word: for results while the user types.
            near: longitude and latitude of a place; only documents around it are found.
            within: kilometers around the place.
            page: from 1 to 1,000.
            page_size: from 1 to 200.

        Raises:
            ValueError, TypeError: an argument is not accepted.
        """
        request = SearchRequest(query, order_by, filters, facets, prefix, near, within, page, page_size)
        return run(connections.client(self.using), self._search(request))

    async def asearch(
        self,
        query: str,
        *,
        order_by: Order = "relevance",
        filters: Mapping[str, str] | None = None,
        facets: Sequence[str] = (),
        prefix: bool = False,
        near: Place | None = None,
        within: float = 50,
        page: int = 1,
        page_size: int = 20,
    ) -> SearchPage:
        """See `search`."""
        request = SearchRequest(query, order_by, filters, facets, prefix, near, within, page, page_size)
        return await arun(connections.aclient(self.using), self._search(request))

    def size(self) -> SearchSize:
        """Return the number of documents, different terms and words."""
        return run(connections.client(self.using), self._size())

    async def asize(self) -> SearchSize:
        """See `size`."""
        return await arun(connections.aclient(self.using), self._size())

    def count(self) -> int:
        """Return the number of documents."""
        return run(connections.client(self.using), self._count())

    async def acount(self) -> int:
        """See `count`."""
        return await arun(connections.aclient(self.using), self._count())

    def query_stats(self) -> QueryStats:
        """Return the slowest queries, and those that found nothing, of this week and the last.

        Searches with `prefix` or `filters` that find nothing are not counted.
        """
        return run(connections.client(self.using), read_stats(self._base()))

    async def aquery_stats(self) -> QueryStats:
        """See `query_stats`."""
        return await arun(connections.aclient(self.using), read_stats(self._base()))

    def parse(self, query: str, *, prefix: bool = False) -> ParsedQuery:
        """Return what a query means, for tests and for explanations."""
        return parse(query, self._stop_words, self._synonyms, prefix=prefix)

    def _base(self) -> str:
        return keys.key("search", self.name, VERSION)

    def write_many(self, documents: Mapping[str, Document | None]) -> None:
        """Write documents by id, in one round trip; remove those that are None."""
        base = self._base()
        calls = [
            self._encode(id_, document).call(base) if document else REMOVE(base=base, id=check_id(id_))
            for id_, document in documents.items()
        ]
        if calls:
            run(connections.client(self.using), _send(calls))

    def find_differences(self, documents: Mapping[str, Document | None]) -> dict[str, bool]:
        """Compare documents by id, None for one that should not exist, with what is stored.

        Returns:
            The ids that differ, each with whether a document is stored.
        """
        expected = {id_: self._encode(id_, document) if document else None for id_, document in documents.items()}
        return run(connections.client(self.using), differences(self._base(), expected))

    def scan_ids(self) -> Iterator[list[str]]:
        """Yield the ids of all documents, some at a time. An id may be yielded twice."""
        cursor, client = 0, connections.client(self.using)
        while True:
            reply = client.execute(Read("HSCAN", f"{self._base()}:docs", cursor, "COUNT", SCAN_COUNT))
            cursor = int(reply[0])
            yield [id_.decode(errors="replace") for id_ in reply[1][::2]]
            if not cursor:
                return

    def _index(self, id: Id, document: Document) -> Flow[None]:
        yield self._encode(id, document).call(self._base())

    def _encode(self, id: Id, document: Document) -> EncodedDocument:
        return encode(id, document, self._count_words(document.text))

    def _count_words(self, text: Text) -> CountedWords:
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
        return CountedWords(dict(frequencies.most_common(MAX_TERMS)), length, order)

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

    def _size(self) -> Flow[SearchSize]:
        base = self._base()
        documents, terms_, [length] = yield Batch(
            [
                Read("HLEN", f"{base}:docs"),
                Read("ZCARD", f"{base}:vocabulary"),
                Read("HMGET", f"{base}:stats", "length"),
            ]
        )
        return SearchSize(documents, terms_, round(float(length or 0)))

    def _search(self, request: SearchRequest) -> Flow[SearchPage]:
        parsed = self.parse(request.query, prefix=request.prefix)
        call = request.call(self._base(), parsed, self._ttl_ms)
        if not parsed.groups:
            return request.empty(parsed)
        started_at = time.perf_counter()
        page = request.result(parsed, (yield call))
        if self._logs_queries:
            found_nothing = not page.total and not request.prefix and not request.filters
            seconds = time.perf_counter() - started_at
            yield from log_query(self._base(), request.query, seconds, found_nothing=found_nothing)
        return page


def _send(calls: Sequence[Call]) -> Flow[None]:
    yield Batch(calls)


def size_flow(index: SearchIndex) -> Flow[SearchSize]:
    """Return the flow that measures an index in one round trip of 3 commands."""
    return index._size()


def stats_flow(index: SearchIndex) -> Flow[QueryStats]:
    """Return the flow that reads the logged queries of an index in one round trip of 4 commands."""
    return read_stats(index._base())
