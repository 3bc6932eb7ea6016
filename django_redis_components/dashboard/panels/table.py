"""The table of a panel, for `panels/table.html`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class TableColumn(NamedTuple):
    """A column: its heading, and the CSS class of its cells. The first column has the heading of each row."""

    label: str
    css: str = "drc-number"


def table(columns: Sequence[TableColumn], rows: Iterable[Sequence[str]], *, note: str, empty: str) -> dict[str, Any]:
    """Return the context of a table.

    Args:
        rows: texts, one for each column.
        note: what is shown below the table.
        empty: what is shown instead of a table without rows.
    """
    cells = [list(zip(columns, row, strict=True)) for row in rows]
    return {"columns": columns, "rows": cells, "note": note, "empty": empty}
