"""One search: its checked arguments, the call of the script, and the page of its reply."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from django_redis_components.core.arguments import check_flag, check_int, check_mapping
from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Call
from django_redis_components.search.arguments import (
    Order,
    Point,
    check_kilometers,
    check_point,
    counted_facets,
    facet_of,
    is_ascending,
    open_count,
    orders_of,
    sections_of,
)
from django_redis_components.search.page import MAX_SHOWN, Hit, SearchPage, SearchPaginator
from django_redis_components.search.query import ParsedQuery
from django_redis_components.search.scripts import SEARCH

#: Documents of a page, and pages.
MAX_PER_PAGE, MAX_PAGES = 200, 1_000
#: Documents that one search ranks if their words are in more.
MAX_CANDIDATES = 5_000
#: Results of an index that are stored.
MAX_RESULTS = 500


@dataclasses.dataclass(frozen=True, slots=True)
class SearchRequest:
    """The arguments of `SearchIndex.search`."""

    query: str
    order_by: Order
    filters: Mapping[str, str] | None
    facets: Sequence[str]
    prefix: bool
    near: Point | None
    within: float
    page: int | str | None
    per_page: int

    @property
    def number(self) -> int:
        """The number of the page. A text that is no number is page 1, and one outside of the pages is the last.

        Raises:
            TypeError, ValueError: it is neither a text nor the number of a page.
        """
        if self.page is not None and not isinstance(self.page, str):
            return check_int(self.page, "page", 1, MAX_PAGES)
        try:
            number = int(self.page or 1)
        except ValueError:
            return 1
        return number if 1 <= number <= MAX_PAGES else MAX_PAGES

    def instead_of(self, page: SearchPage) -> SearchRequest | None:
        """Return the request for the last page, if a text asked for one after it."""
        last = page.paginator.num_pages
        is_text = self.page is None or isinstance(self.page, str)
        return dataclasses.replace(self, page=last) if is_text and page.number > last else None

    def call(self, root: str, parsed: ParsedQuery, ttl_ms: int) -> Call:
        """Return the call of the script.

        Raises:
            TypeError, ValueError: an argument is not accepted.
        """
        check_flag(self.prefix, "prefix")
        number = self.number
        check_int(self.per_page, "per_page", 1, MAX_PER_PAGE)
        orders = orders_of(self.order_by, has_place=self.near is not None)
        filters = sorted(facet_of(*each) for each in check_mapping(self.filters or {}, "filters").items())
        facets = counted_facets(self.facets)
        longitude, latitude = ("", "") if self.near is None else map(repr, check_point(self.near, "near"))
        within_km = repr(check_kilometers(self.within))
        identity = repr(
            (dataclasses.replace(parsed, dropped=()), filters, orders, longitude, latitude, longitude and within_km)
        )
        return SEARCH(
            root=root,
            result=hashlib.blake2b(identity.encode("utf-8", "replace"), digest_size=16).hexdigest(),
            reuse=int(number > 1),
            ttl_ms=ttl_ms,
            first=(number - 1) * self.per_page,
            count=self.per_page,
            max_candidates=MAX_CANDIDATES,
            max_shown=MAX_SHOWN,
            max_results=MAX_RESULTS,
            prefix=open_count(parsed),
            longitude=longitude,
            latitude=latitude,
            within_km=within_km,
            sections=sections_of(parsed, filters, orders, facets),
        )

    def empty(self, parsed: ParsedQuery) -> SearchPage:
        """Return the page of a query without words."""
        return self._page((), 0, facets={name: {} for name in self.facets}, is_partial=False, query=parsed)

    def result(self, parsed: ParsedQuery, reply: Any) -> SearchPage:
        """Return the page of a reply."""
        total, partial, found, counts = reply
        sign = -1 if is_ascending(self.order_by) else 1
        hits = tuple(Hit(id_.decode(errors="replace"), sign * float(score) + 0.0) for id_, score in pairs_of(found))
        is_partial = bool(partial or parsed.dropped)
        return self._page(hits, total, is_partial=is_partial, facets=dict(map(_facet_counts, counts)), query=parsed)

    def _page(self, hits: Sequence[Hit], count: int, **details: Any) -> SearchPage:
        return SearchPage(hits, self.number, SearchPaginator(count, self.per_page), **details)


def _facet_counts(reply: Any) -> tuple[str, dict[str, int]]:
    name, listed = reply
    values = listed.decode(errors="replace").split("\1")
    return name.decode(), {value: int(count) for value, count in zip(values[::2], values[1::2], strict=False)}
