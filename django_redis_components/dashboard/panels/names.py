"""The panels of names: what the site has used of kinds that have no panel of their own."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_redis_components.core.gather import gather_values
from django_redis_components.core.observability.catalog import CatalogEntry, names_flow
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.formats import age, number
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.table import Column, Table

#: Names that are listed, those that were used last.
MAX_NAMES = 30


class NamesPanel(Panel):
    """The names of some kinds. It takes a command for each kind."""

    template_name = "django_redis_components/dashboard/panels/table.html"
    #: Kind in the catalogue -> what it is called.
    kinds: ClassVar[Mapping[str, Any]] = {}

    def read(self) -> Flow[list[CatalogEntry]]:
        """Read the names in one round trip."""
        found = yield from gather_values([names_flow(kind) for kind in self.kinds])
        entries = [entry for entries in found for entry in entries]
        return sorted(entries, key=lambda entry: (-entry.used_at, entry.kind, entry.name))[:MAX_NAMES]

    def context(self, value: list[CatalogEntry]) -> dict[str, Any]:
        """Return the table."""
        now = time.time()
        columns: list[Column[CatalogEntry]] = [
            Column("name", _("Name"), lambda entry: entry.name, "name"),
            Column("kind", _("Kind"), lambda entry: str(self.kinds[entry.kind]), ""),
            Column("using", _("Connection"), lambda entry: entry.using, ""),
            Column(
                "used_at",
                pgettext("a name", "Used"),
                lambda entry: _("%(age)s ago") % {"age": age(now - entry.used_at)},
            ),
        ]
        note = _("At most the %(count)s names that were used last, exact to an hour.") % {"count": number(MAX_NAMES)}
        return Table(columns, note=note, empty=_("None has been used yet.")).context(value)

    def data(self, value: list[CatalogEntry]) -> list[dict[str, Any]]:
        """Return the names."""
        return [dataclasses.asdict(entry) for entry in value]


class CountersPanel(NamesPanel):
    """The sketches and counters."""

    name = "counters"
    title = gettext_lazy("Sketches and counters")
    page = "analytics"
    order = 95
    kinds = {
        "CountMinSketch": gettext_lazy("count-min sketch"),
        "TopK": gettext_lazy("top list"),
        "UniqueVisitors": gettext_lazy("unique visitors"),
        "SignIns": gettext_lazy("sign-ins"),
        "PageViews": gettext_lazy("page views"),
        "BitCounters": gettext_lazy("bit counters"),
    }


class PresencesPanel(NamesPanel):
    """The lists of present users."""

    name = "presences"
    title = gettext_lazy("Presence")
    page = "messaging"
    order = 25
    kinds = {"Presence": gettext_lazy("presence")}


class RecentListsPanel(NamesPanel):
    """The lists of recent choices."""

    name = "recent-lists"
    title = gettext_lazy("Recent choices")
    page = "indexes"
    order = 30
    kinds = {"RecentList": gettext_lazy("recent choices")}
