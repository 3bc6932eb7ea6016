"""The panel of search: the registered indexes, their slowest queries, and the queries that found nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.core.model_changes import CheckRecord, read_check
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.gather import gather, raise_if_all_failed
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.drift import drift_cell
from django_redis_components.dashboard.panels.not_read import not_read
from django_redis_components.dashboard.table import Column, Table
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


def _note(row: SearchRow) -> str:
    """Return why an index was not read, or what a rebuild does with its memory."""
    if row.note or row.size is None:
        return row.note
    if row.size.is_rebuilding:
        return _("a rebuild is running")
    return _("data of an abandoned rebuild is deleted by the next writes") if row.size.has_old_data else ""


_TABLE: Table[SearchRow] = Table(
    [
        Column("name", gettext_lazy("Name"), lambda row: row.name, "name"),
        Column("documents", gettext_lazy("Documents"), lambda row: row.size.documents if row.size else None),
        Column("terms", gettext_lazy("Terms"), lambda row: row.size.terms if row.size else None),
        Column("drift", gettext_lazy("Drift"), lambda row: drift_cell(row.check), "whole"),
        Column("note", gettext_lazy("Note"), _note, "whole", has_label=False, skip_empty=True),
    ],
    empty=gettext_lazy("No search index of a model is registered in this process."),
)


class SearchPanel(Panel):
    """The search indexes of models that this process has registered."""

    name = "search"
    title = gettext_lazy("Search indexes")
    page = "indexes"
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
        """Return the table, and the indexes with queries."""
        return {**_TABLE.context(value), "rows": [row for row in value if row.queries], "limit": f":{MAX_QUERIES}"}
