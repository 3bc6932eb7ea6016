"""`Table`: columns that say what they show, how it is added up, and how rows are sorted by it; for pages and panels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from django_redis_components.dashboard.elements import NO_VALUE, Cell
from django_redis_components.dashboard.formats import number

Row = TypeVar("Row")
#: What a cell shows: a text, a whole number, which is formatted, a `Cell`, or None for a dash.
Value = str | int | Cell | None


@dataclasses.dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a `Table`.

    Attributes:
        key: its name, in the query string that sorts by it.
        label: the heading; it may be a lazy translation. On narrow pages, whose rows are cards, each cell has it.
        value: returns what the cell of a row shows: a text, a whole number, a `Cell`, or None for a dash.
        kind: "number" (on the right), "whole" (a text that may be long), "name" (the heading of the row), or "".
        total: returns what the cell below all rows shows, for these rows.
        sort: returns the number by which rows are sorted, the largest first; without it the column cannot be sorted by.
        optional: whether it is left out on narrow pages.
        has_label: whether its cells have the label on narrow pages.
        skip_empty: whether it is left out of a table in which it is "" for each row.
    """

    key: str
    label: Any
    value: Callable[[Row], Value]
    kind: str = "number"
    total: Callable[[Sequence[Row]], Value] | None = None
    sort: Callable[[Row], float] | None = None
    optional: bool = False
    has_label: bool = True
    skip_empty: bool = False

    @property
    def is_sortable(self) -> bool:
        """Whether rows can be sorted by it.

        :meta private:
        """
        return self.sort is not None

    def css(self, cell: Cell) -> str:
        """Return the CSS classes of a cell.

        :meta private:
        """
        names = (self.kind, cell.kind, "optional" if self.optional else "")
        return " ".join(f"drc-{name}" for name in names if name)


@dataclasses.dataclass(frozen=True, slots=True)
class ShownCell:
    """A cell with the label of its column and its CSS classes.

    Attributes:
        label: shown on narrow pages, or "".
        is_text: whether it is a text alone, as most cells are: these are rendered without ``cell.html``.
    """

    cell: Cell
    css: str
    label: str
    is_text: bool


@dataclasses.dataclass(frozen=True, slots=True)
class ShownTable:
    """A table as ``table.html`` shows it: columns with whether rows are sorted by it, rows, and the totals or None."""

    heads: list[tuple[Column[Any], bool]]
    rows: list[list[ShownCell]]
    total: list[ShownCell] | None
    note: str
    empty: str
    example: str


@dataclasses.dataclass(frozen=True, slots=True)
class Table(Generic[Row]):
    """A table of a panel or a page, for the template ``django_redis_components/dashboard/panels/table.html``.

    Attributes:
        columns: the first one is the heading of each row.
        note: a text below the table.
        empty: a text instead of a table without rows, and `example`: a line of code after it.
    """

    columns: Sequence[Column[Row]]
    note: Any = ""
    empty: Any = ""
    example: str = ""

    @property
    def sorts(self) -> dict[str, Callable[[Row], float]]:
        """The columns that rows can be sorted by, by key."""
        return {column.key: column.sort for column in self.columns if column.sort is not None}

    def context(self, rows: Iterable[Row], *, totals: Sequence[Row] = (), sort: str = "") -> dict[str, Any]:
        """Return the context of the template for rows.

        Args:
            totals: the rows that are added up; without any there are no totals.
            sort: the key of the column by which the rows are sorted.
        """
        rows = list(rows)
        columns = [
            column for column in self.columns if not column.skip_empty or any(column.value(row) != "" for row in rows)
        ]
        labeled = [(column, str(column.label) if column.has_label else "") for column in columns]  # translated once
        shown = [[_cell(column, column.value(row), label) for column, label in labeled] for row in rows]
        total = [_total_cell(column, totals, label) for column, label in labeled] if totals else None
        heads = [(column, column.key == sort) for column in columns]
        return {"table": ShownTable(heads, shown, total, str(self.note), str(self.empty), self.example)}


def _total_cell(column: Column[Any], totals: Sequence[Any], label: str) -> ShownCell:
    return _cell(column, column.total(totals) if column.total else "", label)


def _cell(column: Column[Any], value: Value, label: str) -> ShownCell:
    if isinstance(value, int):
        value = number(value)
    cell = value if isinstance(value, Cell) else Cell(NO_VALUE if value is None else value)
    is_text = bool(cell.text) and not (cell.badge or cell.spark or cell.at or cell.url or cell.note or cell.links)
    return ShownCell(cell, column.css(cell), label, is_text)
