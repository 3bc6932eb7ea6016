"""The page of analytics: its selection, its controls, and its CSV."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from django.utils.translation import gettext as _

from django_redis_components.analytics.dates import site_date
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.panels import page
from django_redis_components.dashboard.panels.analytics import SelectionPanel
from django_redis_components.dashboard.panels.comparison import range_name
from django_redis_components.dashboard.panels.reading import MAX_PARAMETER, PanelResult
from django_redis_components.dashboard.panels.selection import (
    COMPARISONS,
    OTHERS,
    PARAMETERS,
    PERIODS,
    Selection,
    first_day,
    parse_selection,
)
from django_redis_components.dashboard.panels.sources import source_label
from django_redis_components.dashboard.panels.traffic import name_label
from django_redis_components.dashboard.snapshot import Snapshot

#: Columns of the CSV: the panel, what is counted (a day, a page, a source; "" for the whole range), and the counts.
CSV_COLUMNS = ("panel", "item", "count", "count_before")


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """A link to the page with another selection."""

    label: str
    url: str
    is_current: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Controls:
    """The controls of the page.

    Attributes:
        periods, comparisons: links.
        start, end: the days of the form; `first_day` and `last_day` are the first and last ones it accepts.
        kept: parameters that the form keeps.
        shown: the range and what it is compared with.
        filter: the chosen page or source, or ""; `clear_url` shows all.
    """

    periods: list[Choice]
    comparisons: list[Choice]
    start: str
    end: str
    first_day: str
    last_day: str
    kept: dict[str, str]
    shown: str
    filter: str
    clear_url: str
    csv_url: str


def parse(request: PageRequest) -> Selection:
    """Return the selection of a request.

    Raises:
        ValueError: a parameter is not valid; the page responds with 400.
    """
    query = request.http.GET
    return parse_selection({name: query.get(name, "")[:MAX_PARAMETER] for name in (*PARAMETERS, *OTHERS)})


def context(request: PageRequest, snapshot: Snapshot[list[PanelResult]]) -> dict[str, Any]:
    """Return the context of the templates."""
    return {**page.context(request, snapshot), "controls": _controls(request.query)}


def csv(snapshot: Snapshot[list[PanelResult]]) -> tuple[Sequence[str], Iterator[tuple[Any, ...]]]:
    """Return the columns and the rows of the panels of the range. A panel that failed has none."""
    return CSV_COLUMNS, _csv_rows(snapshot.value)


def _csv_rows(results: list[PanelResult]) -> Iterator[tuple[Any, ...]]:
    for result in results:
        if result.error is None and isinstance(result.panel, SelectionPanel):
            yield from ((result.panel.name, *row) for row in result.panel.csv_rows(result.value))


def _controls(selection: Selection) -> Controls:
    periods = [
        Choice(
            str(label), selection.url(period="" if name == "30d" else name, start="", end=""), name == selection.period
        )
        for name, label in PERIODS.items()
    ]
    comparisons = [
        Choice(str(label), selection.url(compare="" if name == "before" else name), name == selection.compare)
        for name, label in COMPARISONS.items()
    ]
    ours = ("period", "start", "end")
    return Controls(
        periods=periods,
        comparisons=comparisons,
        start=selection.days[0].isoformat(),
        end=selection.days[1].isoformat(),
        first_day=first_day().isoformat(),
        last_day=site_date().isoformat(),
        kept={name: value for name, value in selection.parameters.items() if name not in ours},
        shown=_shown(selection),
        filter=_filter_text(selection),
        clear_url=selection.url(page="", source=""),
        csv_url=selection.url(format="csv"),
    )


def _shown(selection: Selection) -> str:
    shown = range_name(selection.days)
    if selection.before is not None:
        named = {"period": shown, "before": range_name(selection.before)}
        return _("%(period)s, compared with %(before)s") % named
    if selection.compare != "none":
        return _("%(period)s, not compared: earlier counts are not kept") % {"period": shown}
    return shown


def _filter_text(selection: Selection) -> str:
    if selection.page:
        return _("Page: %(page)s") % {"page": name_label(selection.page)}
    if selection.dimension:
        return _("Source: %(source)s") % {"source": source_label(selection.dimension, selection.source)}
    return ""
