"""CSV of counts (RFC 4180), in which no text runs as a formula of a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

#: First characters that make a spreadsheet run a text as a formula; some also accept the full-width ones.
FORMULA = "=+-@＝＋－＠"
#: Places where some spreadsheets begin a cell: a semicolon separates cells in many languages.
CELL_STARTS = re.compile(rf"(^\s*|[;\t\r\n]\s*)(?=\"?[{re.escape(FORMULA)}])|^(?=[\t\r\n])")


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield rows as CSV. A text that a spreadsheet would run as a formula gets an apostrophe before it.

    So does one after a semicolon, a tab or a line break in a text.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_without_formula(cell) for cell in row])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _without_formula(cell: Any) -> Any:
    return CELL_STARTS.sub(r"\1'", cell) if isinstance(cell, str) else cell
