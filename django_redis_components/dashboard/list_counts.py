"""How many rows a list has, which of them a page shows, and how far a search has looked: as text and as JSON.

A number is printed only if it was counted. Without a count the text says that there are more; a count that ended early
is "at least".
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from django.utils.translation import gettext as _

from django_redis_components.dashboard.formats import number

Row = TypeVar("Row")


@dataclasses.dataclass(frozen=True, slots=True)
class ListCount:
    """The part of a list that a page shows.

    Attributes:
        shown: rows on the page.
        total: rows of the list; None if they were not counted, and there are more.
        start: rows before those of the page; None if that is not known, as after a cursor.
        is_least: whether there may be more than `total`.
    """

    shown: int
    total: int | None
    start: int | None = 0
    is_least: bool = False

    @property
    def text(self) -> str:
        """The numbers, such as "1 to 50 of 1,204"; "" for an empty list."""
        if not self.shown and not self.total and not self.is_least:
            return ""
        has_span = self.start is not None and self.shown > 0
        start = self.start or 0
        values = {"first": number(start + 1), "last": number(start + self.shown), "count": number(self.shown)}
        values["total"] = number(self.total or 0)
        if self.total is None:
            text = _("%(first)s to %(last)s; there are more") if has_span else _("%(count)s; there are more")
        elif self.is_least:
            text = (
                _("%(first)s to %(last)s of at least %(total)s") if has_span else _("%(count)s of at least %(total)s")
            )
        else:
            text = _("%(first)s to %(last)s of %(total)s") if has_span else _("%(count)s of %(total)s")
        return text % values

    def data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        first = self.start + 1 if self.start is not None and self.shown else None
        is_exact = self.total is not None and not self.is_least
        return {"first": first, "shown": self.shown, "total": self.total, "is_total_exact": is_exact}


@dataclasses.dataclass(frozen=True, slots=True)
class FoundCount:
    """What a filter or a search has found on a page.

    Attributes:
        found: rows that match, of those that this page looked at.
        searched: rows that this page looked at.
        total: rows of the list.
        start: rows that earlier pages looked at.
    """

    found: int
    searched: int
    total: int
    start: int = 0

    @property
    def text(self) -> str:
        """The numbers, such as "23 found in the first 2,000 of 100,000"."""
        values = {"found": number(self.found), "total": number(self.total)}
        values |= {"first": number(self.start + 1), "last": number(self.start + self.searched)}
        if self.start and self.searched:
            text = _("%(found)s found in %(first)s to %(last)s of %(total)s")
        elif self.is_whole:
            text = _("%(found)s found in all %(total)s")
        else:
            text = _("%(found)s found in the first %(last)s of %(total)s")
        return text % values

    @property
    def is_whole(self) -> bool:
        """Whether this page looked at the whole list."""
        return not self.start and self.searched >= self.total

    def data(self) -> dict[str, Any]:
        """Return it as JSON data."""
        first = self.start + 1 if self.searched else None
        return {"found": self.found, "first": first, "searched": self.searched, "total": self.total}


class CountedRows(list[Row]):
    """The rows that a panel shows. `total` is the number of all, or the least one if `is_least`."""

    total = 0
    is_least = False

    @property
    def extent(self) -> ListCount:
        """Which rows are shown."""
        return ListCount(len(self), max(self.total, len(self)), is_least=self.is_least)

    def note(self, *texts: Any) -> str:
        """Return the numbers of a list with rows, and texts about it, as the note below its table."""
        return " · ".join([self.extent.text, *(str(text) for text in texts if text)]) if self.extent.text else ""
