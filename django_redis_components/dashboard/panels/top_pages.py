"""The panel of the pages with the most views of the range."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_redis_components.analytics import UniqueVisitors
from django_redis_components.analytics.range_counts import view_sums_flow
from django_redis_components.analytics.visitors import visitor_count_flow
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.elements import Cell
from django_redis_components.dashboard.panels.analytics import CsvRow, SelectionPanel, counts_views
from django_redis_components.dashboard.panels.comparison import change
from django_redis_components.dashboard.panels.selection import Selection
from django_redis_components.dashboard.panels.traffic import about, name_label, page_views_counter, share_of
from django_redis_components.dashboard.table import Column, Table

#: Rows of the table.
TOP = 10


@dataclasses.dataclass(frozen=True, slots=True)
class PageRow:
    """A page with its views, those of the earlier range, and its visitors; 0 if they are not counted by page."""

    page: str
    views: int
    before: int
    visitors: int


@dataclasses.dataclass(frozen=True, slots=True)
class TopPages:
    """The pages with the most views, and the views of all pages."""

    selection: Selection
    name: str
    pages: list[PageRow]
    total: int


class TopPagesPanel(SelectionPanel):
    """The pages with the most views. A click on one shows its counts in the other panels."""

    name = "top-pages"
    title = gettext_lazy("Top pages")
    order = 30
    template_name = "django_redis_components/dashboard/panels/top_pages.html"
    filters = ("page",)

    def read_selection(self, selection: Selection) -> Flow[TopPages]:
        """Read the pages and the sum, then the visitors of each page."""
        views = page_views_counter()
        sums = yield from view_sums_flow(views, selection.days, selection.before, limit=TOP)
        counters = [UniqueVisitors(views.name, page=page, using=views.using) for page in sums.names]
        visitors = yield from gather_values([visitor_count_flow(each, *selection.days) for each in counters])
        rows = [
            PageRow(page, *counts, int(count))
            for (page, counts), count in zip(sums.names.items(), visitors, strict=True)
        ]
        return TopPages(selection, views.name, rows, sums.total)

    def context(self, value: TopPages) -> dict[str, Any]:
        """Return the table, with the views of all pages."""
        empty, example = _("No page views in this period."), ""
        if not counts_views():
            empty = _("No page views in this period. To count page views, append this to MIDDLEWARE:")
            example = "django_redis_components.analytics.AnalyticsMiddleware"
        table = Table(_columns(value), empty=empty, example=example)
        return {
            **table.context(value.pages, totals=value.pages),
            "filter_note": self.filter_note(value.selection),
        }

    def data(self, value: TopPages) -> dict[str, Any]:
        """Return the pages and the sum."""
        has_before = value.selection.before is not None
        return {
            "name": value.name,
            "start": value.selection.days[0],
            "end": value.selection.days[1],
            "total": value.total,
            "pages": [{**dataclasses.asdict(row), "before": row.before if has_before else None} for row in value.pages],
        }

    def csv_rows(self, value: TopPages) -> list[CsvRow]:
        """Return the pages."""
        has_before = value.selection.before is not None
        return [(row.page, row.views, row.before if has_before else "") for row in value.pages]


def _columns(value: TopPages) -> list[Column[PageRow]]:
    selection = value.selection
    columns: list[Column[PageRow]] = [
        Column(
            "page", _("Page"), lambda row: _page_cell(row.page, selection), "name", total=lambda rows: _("All pages")
        ),
        Column("views", pgettext("of pages", "Views"), lambda row: row.views, total=lambda rows: value.total),
        Column("share", _("Share"), lambda row: share_of(row.views, value.total)),
    ]
    if selection.before is not None:
        columns.append(
            Column(
                "change",
                pgettext("against a period", "Change"),
                lambda row: change(row.views, row.before),
                skip_empty=True,
            )
        )
    return [*columns, Column("visitors", _("Visitors"), lambda row: about(row.visitors) if row.visitors else "")]


def _page_cell(page: str, selection: Selection) -> Cell:
    """Return the link that shows the counts of a page; a second click shows all again."""
    is_chosen = page == selection.page
    url = selection.url(page="" if is_chosen else page, source="")
    return Cell(name_label(page), "chosen" if is_chosen else "", url=url)
