"""Choosing the part of a text that a snippet shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

#: Part of a snippet that may stand before its first marked word: a fourth.
BEFORE = 4


class Match(NamedTuple):
    """A range of a text that matches a query.

    Attributes:
        start, end: of the range.
        group: number of the group of the query that it matches.
    """

    start: int
    end: int
    group: int


def snippet_window(text: str, matches: Sequence[Match], max_chars: int) -> tuple[int, int]:
    """Return start and end of the snippet."""
    if len(text) <= max_chars:
        return 0, len(text)
    best = best_start(matches, max_chars - max_chars // BEFORE)
    start = min(max(0, best - max_chars // BEFORE), len(text) - max_chars)
    if start and (space := text.find(" ", start, best)) >= 0:
        start = space + 1
    end = min(start + max_chars, len(text))
    if end < len(text) and (space := text.rfind(" ", start + max_chars // 2, end + 1)) > 0:
        end = space
    return start, end


def best_start(matches: Sequence[Match], length: int) -> int:
    """Return where the first part of this length starts that has the most different groups; 0 without matches.

    Both ends of the part move forward only: each match is looked at twice, however many there are.
    """
    best, most, end = 0, 0, 0
    groups: Counter[int] = Counter()
    for number, first in enumerate(matches):
        while end < len(matches) and matches[end].end <= first.start + length:
            groups[matches[end].group] += 1
            end += 1
        if len(groups) > most:
            best, most = first.start, len(groups)
        if end == number:  # it is longer than the part
            end += 1
        elif groups[first.group] > 1:
            groups[first.group] -= 1
        else:
            del groups[first.group]
    return best
