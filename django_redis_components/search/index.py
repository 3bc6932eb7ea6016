"""The search index: documents by their words, ranked by relevance or by any numbers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from django_redis_components.core.arguments import check_flag, short_repr
from django_redis_components.core.client import connections
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Batch, Command, Flow, arun, run
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.search.analyzer import Analyzer
from django_redis_components.search.arguments import (
    Order,
    Point,
    SortValue,
    check_id,
)
from django_redis_components.search.documents import Document, EncodedDocument, Text, differences, encode
from django_redis_components.search.exceptions import InvalidSearch
from django_redis_components.search.page import SearchPage
from django_redis_components.search.query import ParsedQuery
from django_redis_components.search.query_log import QueryStats, log_keys, log_query, read_stats
from django_redis_components.search.rebuilding import SearchRebuild, drop_generations
from django_redis_components.search.request import SearchRequest
from django_redis_components.search.scripts import DELETE, LIST_IDS, MEASURE, REMOVE

#: Part of the keys: a change of the terms or of the records needs a new number.
VERSION = "v5"
#: Documents whose ids are read at a time.
SCAN_COUNT = 200

#: Types of an id; it is returned as a string.
Id = str | int | UUID


@dataclasses.dataclass(frozen=True, slots=True)
class SearchInfo:
    """The state of an index.

    Attributes:
        terms: different terms of all documents.
        words: of all documents, with the weights of their fields.
        is_rebuilding: whether a rebuild is running.
        has_old_data: whether data of an abandoned rebuild, or of the documents before the last one, is still to be
            deleted: each write deletes some, and the next rebuild all.
    """

    documents: int
    terms: int
    words: int
    is_rebuilding: bool
    has_old_data: bool


class SearchIndex(DeletableComponent):
    """An inverted index of documents.

    Args:
        name: name of the index; use one index per tenant or language.
        fields: weights of the fields of a document; a match in a field counts that much more.
        language: of the stop words, such as "en"; None for none. Known are de, en, es, fr, ru and zh.
        stop_words: further words that are left out.
        synonyms: words that are searched too, by word: ``{"car": ["automobile"]}``. Of several words in a synonym all
            must be in a document.
        stemmer: has words found by their stems: `runs` finds "running". A name of Snowball's: danish, dutch, english,
            french, german, italian, norwegian, spanish, swedish; None for no stems. It needs the extra
            `stemming`. An index with another stemmer has other keys: rebuild it after a change.
        field_queries: fields in which a query can look for a word alone, by ``title:word``. Their terms are stored
            once more; rebuild the index after a change.
        result_ttl: seconds for which a result is stored after its last use, for its further pages.
        log_queries: whether slow queries and those that find nothing are kept for `query_stats`.
        using: connection alias.

    Raises:
        ValueError, TypeError: an argument is not accepted.
    """

    component = "search"
    name_label = "index name"
    catalog_kind = "SearchIndex"

    def __init__(
        self,
        name: str,
        *,
        fields: Mapping[str, float] | None = None,
        language: str | None = "en",
        stop_words: Iterable[str] = (),
        synonyms: Mapping[str, Sequence[str]] | None = None,
        stemmer: str | None = None,
        field_queries: Iterable[str] = (),
        result_ttl: Seconds = 60,
        log_queries: bool = True,
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        self._analyzer = Analyzer(fields or {}, language, stop_words, synonyms or {}, stemmer, field_queries)
        self.fields = self._analyzer.fields
        self._ttl_ms = to_ms(result_ttl, "result_ttl")
        self._logs_queries = check_flag(log_queries, "log_queries")

    def add(
        self,
        id: Id,
        text: Text,
        *,
        facets: Mapping[str, str | Iterable[str]] | None = None,
        location: Point | None = None,
        sort_values: Mapping[str, SortValue] | None = None,
    ) -> None:
        """Add or replace a document.

        Args:
            id: string, integer or UUID.
            text: the text, or a text for each of the index's fields. The first 10,000 words are indexed.
            facets: values by facet: ``{"kind": "blade", "color": ["red", "blue"]}``.
            location: longitude and latitude in degrees.
            sort_values: numbers, or texts whose first six bytes decide, by the names that `search` can order by.

        Raises:
            ValueError, TypeError: an argument is not accepted.
        """
        self._run(self._add(id, Document(text, facets or {}, sort_values or {}, location)))

    async def aadd(
        self,
        id: Id,
        text: Text,
        *,
        facets: Mapping[str, str | Iterable[str]] | None = None,
        location: Point | None = None,
        sort_values: Mapping[str, SortValue] | None = None,
    ) -> None:
        """See `add`."""
        await self._arun(self._add(id, Document(text, facets or {}, sort_values or {}, location)))

    def remove(self, id: Id) -> None:
        """Remove a document. An unknown id is ignored."""
        self._run(self._remove(id))

    async def aremove(self, id: Id) -> None:
        """See `remove`."""
        await self._arun(self._remove(id))

    def search(
        self,
        query: str,
        *,
        order_by: Order = "relevance",
        filters: Mapping[str, str] | None = None,
        facets: Sequence[str] = (),
        prefix: bool = False,
        near: Point | None = None,
        within: float = 50,
        page: int | str | None = 1,
        per_page: int = 20,
    ) -> SearchPage:
        """Return a page of the documents that match.

        All words must be in a document. ``+word`` is a synonym of the word before, ``-word`` excludes, words in double
        quotes are next to each other, ``OR`` separates alternatives, and ``title:word`` is a word in one of
        `field_queries`. A query of stop words only finds nothing.

        The first 1,000 documents of a result are stored for `result_ttl` seconds: the pages after the first come from
        there. The first page is computed again if a document has changed. Of a word in more than 5,000 documents, or
        several words and filters that are all in more than 10,000, only 5,000 documents are ranked: those with the
        highest relevance of the rarest word, those that are the first of all documents by another order, or the nearest
        ones. There are fewer if the query has many synonyms or orders, and facets are counted in the first documents
        only if they have too many values. `SearchPage.is_partial` says so, also if the query is too long.

        Args:
            order_by: "relevance", the name of a sort value, "distance", or "-" and the name for the largest first; or
                weights of several that are added up, the largest sum first: ``{"relevance": 10, "votes": 1}``.
            filters: values of facets that a document must have.
            facets: facets whose values are counted in the result.
            prefix: whether the last word may be the beginning of a word: for results while the user types.
            near: longitude and latitude of a place; only documents around it are found.
            within: kilometers around the place.
            page: from 1 to 1,000; or the text in a request, or None, as `Paginator.get_page` takes it: text that is no
                number is the first page, a number after the last page is the last.
            per_page: from 1 to 200.

        Raises:
            InvalidSearch: the value of an argument is not accepted; a ValueError.
            TypeError: the type of an argument is not accepted.
        """
        request = SearchRequest(query, order_by, filters, facets, prefix, near, within, page, per_page)
        self._record_use()
        return run(connections.page_client(self.using), self._search(request))

    async def asearch(
        self,
        query: str,
        *,
        order_by: Order = "relevance",
        filters: Mapping[str, str] | None = None,
        facets: Sequence[str] = (),
        prefix: bool = False,
        near: Point | None = None,
        within: float = 50,
        page: int | str | None = 1,
        per_page: int = 20,
    ) -> SearchPage:
        """See `search`."""
        request = SearchRequest(query, order_by, filters, facets, prefix, near, within, page, per_page)
        self._record_use()
        return await arun(connections.apage_client(self.using), self._search(request))

    def rebuild(self, items: Iterable[tuple[Id, Document]]) -> int:
        """Replace the whole index by documents, and return their number.

        Searches use the old documents until all are written. What `add` and `remove` write meanwhile is kept: it is
        newer than what the rebuild loads. So read the data while iterating, not before. If the iterable raises, the
        index is unchanged.

        Args:
            items: ids and documents; each is indexed as by `add`.

        Raises:
            RebuildSuperseded: a later rebuild has started, no document came for 15 minutes, or it took a day.
        """
        return self._new_rebuild().run(connections.client(self.using), items)

    async def arebuild(self, items: Iterable[tuple[Id, Document]] | AsyncIterable[tuple[Id, Document]]) -> int:
        """See `rebuild`; the iterable may be asynchronous."""
        return await self._new_rebuild().arun(connections.aclient(self.using), items)

    def info(self) -> SearchInfo:
        """Return the number of documents, terms and words, and whether a rebuild is running."""
        return self._run(self._info())

    async def ainfo(self) -> SearchInfo:
        """See `info`."""
        return await self._arun(self._info())

    def count(self) -> int:
        """Return the number of documents."""
        return self._run(self._count())

    async def acount(self) -> int:
        """See `count`."""
        return await self._arun(self._count())

    def query_stats(self) -> QueryStats:
        """Return the slowest queries, and those that found nothing, of this week and the last.

        Searches with `prefix` or `filters` that find nothing are not counted.
        """
        return self._run(read_stats(self._root()))

    async def aquery_stats(self) -> QueryStats:
        """See `query_stats`."""
        return await self._arun(read_stats(self._root()))

    def parse(self, query: str, *, prefix: bool = False) -> ParsedQuery:
        """Return what a query means, for tests and for explanations."""
        return self._analyzer.parse(query, prefix=prefix)

    def _catalog_options(self) -> dict[str, Any]:
        return {"stemmer": self._analyzer.stemmer} if self._analyzer.stemmer else {}

    def _root(self) -> str:
        return self._key(self._version())

    def _version(self) -> str:
        stemmer = self._analyzer.stemmer
        return f"{VERSION}-{stemmer}" if stemmer else VERSION

    def _add(self, id: Id, document: Document) -> Flow[None]:
        yield self._encode(id, document).call(self._root())

    def _write_many(self, documents: Mapping[str, Document | None], *, force: bool = False) -> Flow[None]:
        root = self._root()
        calls = [
            self._encode(id_, document).call(root, force=force) if document else REMOVE(root=root, id=check_id(id_))
            for id_, document in documents.items()
        ]
        if calls:
            yield Batch(calls)

    def _list_ids(self, cursor: int) -> Flow[tuple[int, list[bytes]]]:
        following, ids = yield LIST_IDS(root=self._root(), cursor=cursor, count=SCAN_COUNT)
        return int(following), ids

    def _new_rebuild(self) -> SearchRebuild:
        self._record_use()
        return SearchRebuild(self.name, self._root(), self._encode)

    def _delete(self) -> Flow[bool]:
        root = self._root()
        has_documents = yield DELETE(root=root)
        yield from drop_generations(root)
        yield Command("UNLINK", *log_keys(root), retry=True)
        return bool(has_documents)

    def _encode(self, id: Id, document: Document) -> EncodedDocument:
        if not isinstance(document, Document):
            raise TypeError(f"document={short_repr(document)}: expected a Document.")
        return encode(id, document, self._analyzer.count(document.text))

    def _remove(self, id: Id) -> Flow[None]:
        yield REMOVE(root=self._root(), id=check_id(id))

    def _count(self) -> Flow[int]:
        return (yield from self._info()).documents

    def _info(self) -> Flow[SearchInfo]:
        documents, terms_, length, is_rebuilding, has_old_data = yield MEASURE(root=self._root())
        return SearchInfo(documents, terms_, round(float(length)), bool(is_rebuilding), bool(has_old_data))

    def _search(self, request: SearchRequest) -> Flow[SearchPage]:
        try:
            parsed = self.parse(request.query, prefix=request.prefix)
            call = request.call(self._root(), parsed, self._ttl_ms)
        except ValueError as exc:
            raise InvalidSearch(str(exc)) from exc
        if not parsed.groups:
            page = request.empty(parsed)
            return last.empty(parsed) if (last := request.instead_of(page)) else page
        started_at = time.perf_counter()
        page = request.result(parsed, (yield call))
        if last := request.instead_of(page):
            page = last.result(parsed, (yield last.call(self._root(), parsed, self._ttl_ms)))
        if self._logs_queries:
            found_nothing = not page.paginator.count and not request.prefix and not request.filters
            seconds = time.perf_counter() - started_at
            yield from log_query(self._root(), request.query, seconds, found_nothing=found_nothing)
        return page


def version_of(index: SearchIndex) -> str:
    """Return the version of the stored terms, which the keys of an index have."""
    return index._version()


def info_flow(index: SearchIndex) -> Flow[SearchInfo]:
    """Return the flow that measures an index in one call."""
    return index._info()


def stats_flow(index: SearchIndex) -> Flow[QueryStats]:
    """Return the flow that reads the logged queries of an index in one round trip of 4 commands."""
    return read_stats(index._root())


def write_documents(index: SearchIndex, documents: Mapping[str, Document | None], *, force: bool = False) -> None:
    """Write documents by id, in one round trip; remove those that are None.

    Args:
        force: whether the postings of a document are written again that is stored already.
    """
    index._run(index._write_many(documents, force=force))


def find_differences(index: SearchIndex, documents: Mapping[str, Document | None]) -> dict[str, bool]:
    """Compare documents by id, None for one that should not exist, with what is stored.

    Returns:
        The ids that differ, each with whether a document is stored.
    """
    expected = {id_: index._encode(id_, document) if document else None for id_, document in documents.items()}
    return index._run(differences(index._root(), expected))


def scan_ids(index: SearchIndex) -> Iterator[list[str]]:
    """Yield the ids of all documents, some at a time. An id may be yielded twice."""
    cursor = 0
    while True:
        cursor, ids = index._run(index._list_ids(cursor))
        yield [id_.decode(errors="replace") for id_ in ids]
        if not cursor:
            return
