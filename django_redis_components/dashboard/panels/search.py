"""The panel of search: the registered indexes, their slowest queries, and the queries that found nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.core import conf
from django_redis_components.core.model_changes import CheckRecord, read_check
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.elements import NO_VALUE
from django_redis_components.dashboard.formats import duration, number
from django_redis_components.dashboard.gather import gather, raise_if_all_failed
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.drift import drift_text
from django_redis_components.dashboard.panels.not_read import not_read
from django_redis_components.search import QueryStats, SearchInfo, registered
from django_redis_components.search.index import info_flow, stats_flow

#: Indexes that are measured. Each takes 7 commands.
MAX_INDEXES = 10
#: Queries that are listed of each kind.
MAX_QUERIES = 10


@dataclasses.dataclass(frozen=True, slots=True)
class SearchRow:
    """A registered index.

    Attributes:
        size, queries: None if they could not be read; `note` says why.
        check: the last comparison with the model, or None.
    """

    name: str
    size: SearchInfo | None
    queries: QueryStats | None
    check: CheckRecord | None
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class SearchLine:
    """An index as texts."""

    name: str
    documents: str
    terms: str
    drift: str
    is_bad: bool
    slowest: list[tuple[str, str]]
    without_result: list[tuple[str, str]]
    note: str


class SearchPanel(Panel):
    """The search indexes of models that this process has registered."""

    name = "search"
    title = gettext_lazy("Search indexes")
    page = "autocomplete"
    order = 20
    template_name = "django_redis_components/dashboard/panels/search.html"

    def using(self) -> str:
        """Return the alias of the first index; those on other connections are listed without figures."""
        return next((each.index.using for each in registered()), conf.settings().dashboard.using)

    def read(self) -> Flow[list[SearchRow]]:
        """Measure the indexes in one round trip."""
        alias = self.using()
        searches = [each for each in registered() if each.index.using == alias][:MAX_INDEXES]
        flows = [
            flow
            for each in searches
            for flow in (info_flow(each.index), stats_flow(each.index), read_check("search", each.name))
        ]
        outcomes = yield from gather(flows)
        raise_if_all_failed(outcomes)
        rows = []
        for number_, each in enumerate(searches):
            size, queries, check = outcomes[3 * number_ : 3 * number_ + 3]
            error = size.error or queries.error
            rows.append(SearchRow(each.name, size.value, queries.value, check.value, str(error) if error else ""))
        others = [each for each in registered() if each not in searches]
        notes = [not_read(each.index.using, alias, MAX_INDEXES) for each in others]
        return rows + [SearchRow(each.name, None, None, None, note) for each, note in zip(others, notes, strict=True)]

    def context(self, value: list[SearchRow]) -> dict[str, Any]:
        """Return the rows of the tables."""
        return {"rows": [_line(row) for row in value]}

    def data(self, value: list[SearchRow]) -> list[dict[str, Any]]:
        """Return the indexes."""
        return [dataclasses.asdict(row) for row in value]


def _line(row: SearchRow) -> SearchLine:
    queries = row.queries or QueryStats((), ())
    return SearchLine(
        name=row.name,
        documents=number(row.size.documents) if row.size else NO_VALUE,
        terms=number(row.size.terms) if row.size else NO_VALUE,
        drift=drift_text(row.check),
        is_bad=bool(row.check and row.check.differences),
        slowest=[(query, duration(seconds)) for query, seconds in queries.slowest[:MAX_QUERIES]],
        without_result=[(query, number(count)) for query, count in queries.without_result[:MAX_QUERIES]],
        note=row.note or _state(row.size),
    )


def _state(size: SearchInfo | None) -> str:
    """Return what a rebuild does with the memory of an index."""
    if size and size.is_rebuilding:
        return _("a rebuild is running")
    return _("data of an abandoned rebuild is deleted by the next writes") if size and size.has_old_data else ""
