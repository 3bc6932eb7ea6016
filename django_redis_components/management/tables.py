"""Text for a terminal: columns that stay in line in any script, and nothing that a terminal would obey."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from itertools import accumulate

#: Spaces between two columns.
GAP = "  "
#: Columns that the last cell of a row always has.
LEAST_LAST = 10
#: Characters that turn the direction of text: one of them can make a name read as another.
_TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def harmless(text: str) -> str:
    """The text in one line, with control characters and turns of direction written out."""
    return "".join(char if _is_harmless(char) else _written_out(char) for char in text)


def width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(map(_width_of, text))


def cut(text: str, columns: int) -> str:
    """The text if it fits; else as much of it as fits, and an ellipsis."""
    if width(text) <= columns:
        return text
    end = sum(reached < columns for reached in accumulate(map(_width_of, text)))
    return f"{text[:end]}…"


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = (), columns: int | None = None
) -> str:
    """Lines of a table.

    Args:
        right: headers of the columns that are aligned to the right.
        columns: the terminal's width, for which the last column is cut; None: as wide as it gets.
    """
    lines = [[harmless(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(width(line[at]) for line in lines) for at in range(len(headers))]
    if columns is not None:
        before = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
        last = max(LEAST_LAST, columns - before)
        lines = [[*line[:-1], cut(line[-1], last)] for line in lines]
        widths[-1] = min(widths[-1], last)
    to_the_right = [header in right for header in headers]
    return "\n".join(GAP.join(map(_padded, line, widths, to_the_right)).rstrip(" ") for line in lines)


def _padded(text: str, columns: int, to_the_right: bool) -> str:
    space = " " * (columns - width(text))
    return space + text if to_the_right else text + space


def _width_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _is_harmless(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") and char not in _TURNING


def _written_out(char: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    code = ord(char)
    return known.get(char) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
