"""The panel of search: the indexes, their slowest queries, and the queries that found nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.core.gather import gather, raise_if_all_failed
from django_redis_components.core.model_changes import CheckRecord, read_check
from django_redis_components.core.observability.catalog import names_flow, objects
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.drift import drift_cell
from django_redis_components.dashboard.panels.not_read import not_read
from django_redis_components.dashboard.table import Column, Table
from django_redis_components.search import QueryStats, SearchIndex, SearchInfo, registered
from django_redis_components.search.index import info_flow, stats_flow

#: Indexes that are measured. Each takes 5 commands, one of a model 7.
MAX_INDEXES = 10
#: Queries that are listed of each kind.
MAX_QUERIES = 10


@dataclasses.dataclass(frozen=True, slots=True)
class SearchRow:
    """An index.

    Attributes:
        size, queries: None if they could not be read; `note` says why.
        check: the last comparison with the model, or None.
        is_of_model: whether it is compared with one at all.
    """

    name: str
    size: SearchInfo | None
    queries: QueryStats | None
    check: CheckRecord | None
    note: str = ""
    is_of_model: bool = True


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
        Column("drift", gettext_lazy("Drift"), lambda row: drift_cell(row.check) if row.is_of_model else None, "whole"),
        Column("note", gettext_lazy("Note"), _note, "whole", has_label=False, skip_empty=True),
    ],
    empty=gettext_lazy("No search index has been used in the last 90 days."),
)


class SearchPanel(Panel):
    """The search indexes of models that this process has registered, and those that any process has used."""

    name = "search"
    title = gettext_lazy("Search indexes")
    page = "indexes"
    order = 20
    template_name = "django_redis_components/dashboard/panels/search.html"

    def using(self) -> str:
        """Return the alias of the first index; those on other connections are listed without figures."""
        return next((each.index.using for each in registered()), conf.settings().dashboard.using)

    def read(self) -> Flow[list[SearchRow]]:
        """Measure the indexes in two round trips."""
        alias, of_models = self.using(), {_id(each.index): each.name for each in registered()}
        used = objects((yield from names_flow(SearchIndex.catalog_kind)), SearchIndex)
        indexes = [each.index for each in registered()]
        indexes += [each for each in used if _id(each) not in of_models]
        names = {_id(each): of_models.get(_id(each), each.name) for each in indexes}
        read = [each for each in indexes if each.using == alias][:MAX_INDEXES]
        compared = [_id(each) for each in read if _id(each) in of_models]
        flows: list[Flow[Any]] = [flow for each in read for flow in (info_flow(each), stats_flow(each))]
        flows += [read_check("search", names[each]) for each in compared]
        outcomes = yield from gather(flows)
        raise_if_all_failed(outcomes)
        checks = dict(zip(compared, outcomes[2 * len(read) :], strict=True))
        rows = []
        for number_, each in enumerate(read):
            size, queries = outcomes[2 * number_ : 2 * number_ + 2]
            error, check = size.error or queries.error, checks.get(_id(each))
            values = (size.value, queries.value, check.value if check else None)
            note = str(error) if error else ""
            rows.append(SearchRow(names[_id(each)], *values, note, is_of_model=check is not None))
        others = [each for each in indexes if each not in read]
        return rows + [
            SearchRow(names[_id(each)], None, None, None, not_read(each.using, alias, MAX_INDEXES)) for each in others
        ]

    def context(self, value: list[SearchRow]) -> dict[str, Any]:
        """Return the table, and the indexes with queries."""
        return {**_TABLE.context(value), "rows": [row for row in value if row.queries], "limit": f":{MAX_QUERIES}"}


def _id(index: SearchIndex) -> tuple[str, str]:
    return index.name, index.using
