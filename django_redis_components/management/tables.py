"""Tables for a terminal: columns aligned in any script, without control sequences."""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Collection, Sequence
from itertools import accumulate

#: Spaces between two columns.
GAP = "  "
#: Minimum width of the last column.
MIN_LAST_WIDTH = 10
#: Bidirectional control characters, which can make one name look like another.
_BIDI_CONTROLS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@dataclasses.dataclass(frozen=True, slots=True)
class TextTable:
    """A table of text; `numbers` are the headers of right-aligned columns."""

    headers: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: frozenset[str] = frozenset()


def escape_controls(text: str) -> str:
    """Return the text in one line, with control characters escaped."""
    return "".join(char if _is_printable(char) else _escape(char) for char in text)


def width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    return sum(map(_width_of, text))


def truncate(text: str, columns: int) -> str:
    """Return the text, truncated with an ellipsis if it is too wide."""
    if width(text) <= columns:
        return text
    end = sum(reached < columns for reached in accumulate(map(_width_of, text)))
    return f"{text[:end]}…"


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = (), columns: int | None = None
) -> str:
    """Return a table as text.

    Args:
        right: headers of right-aligned columns.
        columns: width of the terminal, to which the last column is truncated; None for no limit.
    """
    lines = [[escape_controls(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(width(line[index]) for line in lines) for index in range(len(headers))]
    if columns is not None:
        before = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
        last = max(MIN_LAST_WIDTH, columns - before)
        lines = [[*line[:-1], truncate(line[-1], last)] for line in lines]
        widths[-1] = min(widths[-1], last)
    right_aligned = [header in right for header in headers]
    return "\n".join(GAP.join(map(_padded, line, widths, right_aligned)).rstrip(" ") for line in lines)


def _padded(text: str, columns: int, right_aligned: bool) -> str:
    space = " " * (columns - width(text))
    return space + text if right_aligned else text + space


def _width_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _is_printable(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") and char not in _BIDI_CONTROLS


def _escape(char: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    code = ord(char)
    return known.get(char) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
