"""The page of a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from math import ceil

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


@dataclasses.dataclass(frozen=True, slots=True)
class SearchPage:
    """A page of a result.

    Attributes:
        hits: the documents, the first first.
        total: documents in the result.
        is_partial: whether more documents may match: a word is in so many that only the first were ranked, or the query
            has too many words; see `ParsedQuery.dropped`. Or facets were counted in the first documents only, because
            they have too many values.
        number: of the page, from 1.
        size: documents of a page.
        facets: for each facet that was asked for, its values with the number of documents, at most 50.
        query: what was searched.
    """

    hits: tuple[Hit, ...]
    total: int
    is_partial: bool
    number: int
    size: int
    facets: dict[str, dict[str, int]]
    query: ParsedQuery

    @property
    def ids(self) -> list[str]:
        """The ids of the documents."""
        return [hit.id for hit in self.hits]

    @property
    def pages(self) -> int:
        """Number of pages, of the first 1,000 documents."""
        return ceil(min(self.total, MAX_SHOWN) / self.size)

    @property
    def has_next(self) -> bool:
        """Whether there is another page."""
        return self.number < self.pages

    def highlight(self, text: str, max_chars: int | None = None) -> tuple[TextPart, ...]:
        """Return the parts of a text, those that match the query marked.

        Args:
            max_chars: length of a snippet around the matches; None for the whole text.
        """
        return highlight(text, self.query, max_chars)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)
