"""The panel of Bloom filters: their items, size, fill and expected error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.bloom import BloomInfo
from django_redis_components.bloom.filter import BloomFilter, info_flow
from django_redis_components.core.gather import gather, raise_if_all_failed
from django_redis_components.core.observability.catalog import names_flow, objects
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.elements import Cell
from django_redis_components.dashboard.formats import number, percent
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.not_read import not_read
from django_redis_components.dashboard.table import Column, Table

#: Filters that are read. Each takes 2 commands, and one for each of its layers.
MAX_FILTERS = 12


@dataclasses.dataclass(frozen=True, slots=True)
class BloomRow:
    """A filter.

    Attributes:
        info: None if it could not be read; `note` says why.
    """

    name: str
    info: BloomInfo | None
    note: str = ""


def _figure(get: Callable[[BloomInfo], str]) -> Callable[[BloomRow], str]:
    """Return what shows a figure of a row; nothing without figures."""
    return lambda row: get(row.info) if row.info else ""


def _error(row: BloomRow) -> Cell:
    info = row.info
    if info is None:
        return Cell(kind="alarming")
    error = {"expected": percent(info.expected_error), "allowed": percent(info.error_rate)}
    return Cell(_("%(expected)s of %(allowed)s") % error, "alarming" if info.is_over_capacity else "")


def _note(row: BloomRow) -> str:
    info = row.info
    if info is None:
        return row.note
    if info.is_over_capacity:
        return _("More items than its capacity: rebuild it with a larger one.")
    if info.is_rebuilding:
        return _("a rebuild is running")
    if not info.layers:
        return _("empty")
    if info.parts > 1:
        return _("%(parts)s parts, %(count)s layers") % {"parts": number(info.parts), "count": number(info.layers)}
    return _("%(count)s layers") % {"count": number(info.layers)} if info.layers > 1 else ""


_TABLE: Table[BloomRow] = Table(
    [
        Column("name", gettext_lazy("Name"), lambda row: row.name, "name"),
        Column("items", gettext_lazy("Items"), _figure(lambda info: number(info.items))),
        Column("capacity", gettext_lazy("Capacity"), _figure(lambda info: number(info.capacity))),
        Column("fill", gettext_lazy("Fill"), _figure(lambda info: percent(info.fill))),
        Column("error", gettext_lazy("Expected error"), _error, "whole"),
        Column("memory", gettext_lazy("Memory"), _figure(lambda info: filesizeformat(info.bytes))),
        Column("note", gettext_lazy("Note"), _note, "whole", has_label=False, skip_empty=True),
    ],
    note=gettext_lazy(
        "Bloom filters that the site uses."
        " Between a third and half of the bits of the last layer are set when it is full."
    ),
    empty=gettext_lazy("No Bloom filter has been used yet."),
)


class BloomPanel(Panel):
    """The Bloom filters that the site uses; those on other connections are listed without figures."""

    name = "bloom"
    title = gettext_lazy("Bloom filters")
    page = "analytics"
    order = 90
    template_name = "django_redis_components/dashboard/panels/table.html"

    def read(self) -> Flow[list[BloomRow]]:
        """Read the names and the filters in three round trips."""
        alias, registered = self.using(), objects((yield from names_flow(BloomFilter.catalog_kind)), BloomFilter)
        filters = [each for each in registered if each.using == alias][:MAX_FILTERS]
        outcomes = yield from gather([info_flow(each) for each in filters])
        raise_if_all_failed(outcomes)
        read = dict(zip(filters, outcomes, strict=True))
        return [
            BloomRow(each.name, read[each].value, str(read[each].error or ""))
            if each in read
            else BloomRow(each.name, None, not_read(each.using, alias, MAX_FILTERS))
            for each in registered
        ]

    def context(self, value: list[BloomRow]) -> dict[str, Any]:
        """Return the table."""
        return _TABLE.context(value)
