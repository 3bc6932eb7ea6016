"""The page of a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from math import ceil
from typing import Any, NoReturn

from django.core.paginator import Page, Paginator

from django_redis_components.search.highlighting import TextPart, highlight
from django_redis_components.search.query import ParsedQuery

#: Documents of a result that its pages show: those that are stored.
MAX_SHOWN = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    Attributes:
        score: the value that it was ordered by: relevance, the sort value, the distance in kilometers, or the weighted
            sum of several.
    """

    id: str
    score: float


class SearchPaginator(Paginator):  # type: ignore[type-arg]
    """The pages of a result, as Django's `Paginator`; they are read by further searches.

    Attributes:
        count: documents in the result.
        per_page: documents of a page.
        num_pages: number of pages, of the first 1,000 documents; 1 if nothing was found.
    """

    def __init__(self, count: int, per_page: int) -> None:
        super().__init__((), per_page)
        self._count = count

    @cached_property
    def count(self) -> int:
        """See the class."""
        return self._count

    @cached_property
    def num_pages(self) -> int:
        """See the class."""
        return max(1, ceil(min(self._count, MAX_SHOWN) / self.per_page))

    def page(self, number: Any) -> NoReturn:
        """Raise TypeError: a page is read by `SearchIndex.search` with `page`."""
        raise TypeError(f"Page {number} of a search: search again with page={number}.")


class SearchPage(Page[Hit]):
    """A page of a result. It is a page of Django, also for templates; its `paginator` has the number of documents.

    Attributes:
        object_list: the documents, the first first.
        number: of the page, from 1.
        paginator: its `count` is the number of documents in the result, `num_pages` that of the pages of the first
            1,000, and `per_page` that of the documents of a page.
        is_partial: whether more documents may match: a word is in too many, so only the first were ranked, or the query
            has too many words; see `ParsedQuery.dropped`. Or facets were counted in the first documents only, because
            they have too many values.
        facets: for each facet that was asked for, its values with the number of documents, at most 50.
        query: what was searched.
    """

    object_list: Sequence[Hit]

    def __init__(
        self,
        object_list: Sequence[Hit],
        number: int,
        paginator: SearchPaginator,
        *,
        is_partial: bool,
        facets: dict[str, dict[str, int]],
        query: ParsedQuery,
    ) -> None:
        super().__init__(object_list, number, paginator)
        self.is_partial = is_partial
        self.facets = facets
        self.query = query

    def __repr__(self) -> str:
        return f"<SearchPage {self.number} of {self.paginator.num_pages}>"

    def previous_page_number(self) -> int:
        """Return the number of the page before; of a page after the last one, that of the last one."""
        return self.paginator.validate_number(min(self.number - 1, self.paginator.num_pages))

    @property
    def ids(self) -> list[str]:
        """The ids of the documents."""
        return [hit.id for hit in self.object_list]

    def highlight(self, text: str, max_chars: int | None = None) -> tuple[TextPart, ...]:
        """Return the parts of a text, those that match the query marked.

        Args:
            max_chars: length of a snippet around the matches; None for the whole text.
        """
        return highlight(text, self.query, max_chars)
