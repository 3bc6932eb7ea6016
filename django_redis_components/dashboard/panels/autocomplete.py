"""The panel of autocomplete: the registered indexes and their size."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.autocomplete import ModelIndex, RegisteredIndex
from django_redis_components.autocomplete.index import IndexInfo, info_flow
from django_redis_components.autocomplete.registry import registered
from django_redis_components.core.gather import GatherResult, gather, raise_if_all_failed
from django_redis_components.core.model_changes import CheckRecord, read_check
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.drift import drift_cell
from django_redis_components.dashboard.panels.not_read import not_read
from django_redis_components.dashboard.table import Column, Table

#: Indexes that are measured. Each takes 6 commands.
MAX_INDEXES = 30


@dataclasses.dataclass(frozen=True, slots=True)
class IndexRow:
    """A registered index.

    Attributes:
        size: None if it was not measured; `note` says why.
        is_model: whether it is the index of a model.
        check: the last comparison with the model, or None.
    """

    name: str
    scoped: bool
    size: IndexInfo | None
    note: str = ""
    is_model: bool = False
    check: CheckRecord | None = None


def _note(row: IndexRow) -> str:
    return row.note if row.size is None else _("a rebuild is running") if row.size.is_rebuilding else ""


def _memory(row: IndexRow) -> str | None:
    return None if row.size is None or row.size.bytes is None else filesizeformat(row.size.bytes)


_TABLE: Table[IndexRow] = Table(
    [
        Column("name", gettext_lazy("Name"), lambda row: row.name, "name"),
        Column("entries", gettext_lazy("Entries"), lambda row: row.size.entries if row.size else None),
        Column("terms", gettext_lazy("Terms"), lambda row: row.size.terms if row.size else None),
        Column("memory", gettext_lazy("Memory"), _memory),
        Column("drift", gettext_lazy("Drift"), lambda row: drift_cell(row.check) if row.is_model else None, "whole"),
        Column("note", gettext_lazy("Note"), _note, "whole", has_label=False, skip_empty=True),
    ]
)


class IndexesPanel(Panel):
    """The indexes that this process has registered."""

    name = "indexes"
    title = gettext_lazy("Autocomplete indexes")
    page = "indexes"
    order = 10
    template_name = "django_redis_components/dashboard/panels/indexes.html"

    def using(self) -> str:
        """Return the alias of the first index; indexes on other connections are not measured."""
        return next((source.using for source in registered()), conf.settings().dashboard.using)

    def read(self) -> Flow[list[IndexRow]]:
        """Measure the indexes in one round trip."""
        sources, alias = registered(), self.using()
        measured = [each for each in sources if not each.scoped and each.using == alias][:MAX_INDEXES]
        compared = [each for each in sources if isinstance(each, ModelIndex) and each.using == alias][:MAX_INDEXES]
        flows = [info_flow(each.index()) for each in measured] + [
            read_check("autocomplete", each.name) for each in compared
        ]
        outcomes = yield from gather(flows)
        raise_if_all_failed(outcomes)
        sizes = dict(zip((each.name for each in measured), outcomes[: len(measured)], strict=True))
        checks = dict(zip((each.name for each in compared), outcomes[len(measured) :], strict=True))
        return [_row(each, alias, sizes.get(each.name), checks.get(each.name)) for each in sources]

    def context(self, value: list[IndexRow]) -> dict[str, Any]:
        """Return the table."""
        return _TABLE.context(value)


def _row(source: RegisteredIndex, alias: str, outcome: GatherResult | None, check: GatherResult | None) -> IndexRow:
    checked = check.value if check is not None else None
    is_model = isinstance(source, ModelIndex)
    if outcome is not None and outcome.error is None:
        return IndexRow(source.name, source.scoped, outcome.value, "", is_model, checked)
    return IndexRow(source.name, source.scoped, None, _reason(source, alias, outcome), is_model, checked)


def _reason(source: RegisteredIndex, alias: str, outcome: GatherResult | None) -> str:
    """Return why an index was not measured."""
    if outcome is not None:
        return str(outcome.error)
    if source.scoped:
        return _("one index for each scope; scopes are not listed")
    return not_read(source.using, alias, MAX_INDEXES)
