"""The counters of a site, that `manage.py redis analytics` reads and deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Any, get_args

from django_redis_components.analytics import Events, PageViews, Ranking, SignIns, UniqueVisitors
from django_redis_components.analytics.dates import span
from django_redis_components.analytics.events import all_names
from django_redis_components.analytics.expressions import count_all
from django_redis_components.analytics.pageviews import all_pages_flow, breakdown_flow, top_flow
from django_redis_components.analytics.periods import Unit
from django_redis_components.analytics.user_ids import UserId, forget_number, has_mapped_ids
from django_redis_components.analytics.view_counters import Dimension
from django_redis_components.core.client import connections
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import run
from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult
from django_redis_components.management.progress import progress
from django_redis_components.management.tables import TextTable

#: Rows of the tables of a report, and names of a day that it adds up.
TOP, MAX_NAMES = 10, 1_000

#: The columns of each export.
COLUMNS = {
    "days": ("day", "views", "visitors", "sign_ins"),
    "pages": ("day", "page", "views"),
    "sources": ("day", "dimension", "value", "views"),
    "events": ("day", "event", "users"),
}


class Site:
    """The counters of a site.

    Args:
        mapped: whether ids of users are mapped to numbers.
    """

    def __init__(self, name: str, using: str, *, mapped: bool = False) -> None:
        self._mapped = mapped
        self.views = PageViews(name, using=using)
        self.visitors = UniqueVisitors(name, using=using)
        self.sign_ins = SignIns(name, mapped=mapped, using=using)

    def report(self, start: date, end: date) -> CommandResult:
        """Return the counts of each day, and the sums, pages and sources of the range."""
        days = self._days(start, end)
        visitors = self.visitors.count(start, end)
        pages, *sources = self._most_viewed(start, end)
        views = sum(row[1] for row in days)
        label = (
            counted(visitors, "unique visitor")
            if visitors.is_unique
            else f"{counted(visitors, 'visitor')} (sum over the periods of their ids)"
        )
        lines = [f"{counted(views, 'view')}, ≈ {label}, {counted(sum(row[3] for row in days), 'sign-in')}", ""]
        for title, found in (("Pages", pages), *zip(get_args(Dimension), sources, strict=True)):
            if found:
                lines += [title.replace("_", " ").capitalize(), *(f"{times:>12,}  {name}" for name, times in found), ""]
        rows = [(str(day), *(f"{count:,}" for count in counts)) for day, *counts in days]
        data = {
            "site": self.views.site,
            "views": views,
            "visitors": int(visitors),
            "visitors_are_unique": visitors.is_unique,
            "visitors_standard_error": visitors.error,
            "days": [dict(zip(COLUMNS["days"], row, strict=True)) for row in days],
            "pages": dict(pages),
            "sources": dict(zip(get_args(Dimension), map(dict, sources), strict=True)),
        }
        headers = ("DAY", "VIEWS", "VISITORS", "SIGN-INS")
        return CommandResult(data, "\n".join(lines), TextTable(headers, rows, frozenset(headers[1:])))

    def rows(self, what: str, start: date, end: date) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of an export, day after day."""
        if what == "days":
            yield from self._days(start, end)
            return
        names = self.event_names() if what == "events" else []
        of_day: dict[str, Callable[[date], Iterable[tuple[Any, ...]]]] = {
            "pages": lambda day: run(connections.client(self.views.using), all_pages_flow(self.views, day)),
            "sources": self._sources,
            "events": lambda day: self._events(day, names),
        }
        days = span(start, end)
        with progress(what, lambda: len(days), "days") as advance:
            for day in days:
                yield from ((day, *row) for row in of_day[what](day))
                advance(1)

    def check_ids(self) -> None:
        """Raise ValueError if the ids of users are mapped to numbers, and were not declared so, or the other way.

        A number would select another user's data; an unknown id selects none.
        """
        is_mapped = has_mapped_ids(self.views.site, using=self.views.using)
        if is_mapped and not self._mapped:
            raise ValueError(
                f"Site {self.views.site!r} maps ids of users to numbers: pass --mapped. Without it an ID is read as a"
                " number, which belongs to another user."
            )
        if self._mapped and not is_mapped:
            raise ValueError(f"Site {self.views.site!r} maps no ids of users to numbers: omit --mapped.")

    def event_names(self) -> list[str]:
        """Return the names of the events that were marked."""
        return run(connections.client(self.views.using), all_names(self.views.site))

    def forget(self, user_id: UserId, rankings: Sequence[str]) -> dict[str, int]:
        """Delete what is stored of a user; return how much was found of each kind."""
        names = self.event_names()
        events = 0
        with progress("events", lambda: len(names), "events") as advance:
            for name in names:
                event = Events(
                    name, site=self.views.site, units=get_args(Unit), mapped=self._mapped, using=self.views.using
                )
                events += event.forget(user_id)
                advance(1)
        scores = sum(Ranking(ranking, using=self.views.using).forget(user_id) for ranking in rankings)
        found = self.sign_ins.forget(user_id)
        if self._mapped:
            forget_number(user_id, site=self.views.site, using=self.views.using)
        return {"sign_ins": found, "events": events, "scores": scores}

    def _days(self, start: date, end: date) -> list[tuple[date, int, int, int]]:
        views, visitors = self.views.series(None, start, end), self.visitors.series(start, end)
        sign_ins = self.sign_ins.series(start, end)
        return [(day, views[day], int(visitors[day]), sign_ins[day]) for day in views]

    def _most_viewed(self, start: date, end: date) -> list[list[tuple[str, int]]]:
        """Return the pages, and the values of each dimension, with the most views of a range."""
        client, days = connections.client(self.views.using), span(start, end)
        sums = [dict[str, int]() for _ in ("page", *get_args(Dimension))]
        with progress("pages and sources", lambda: len(days), "days") as advance:
            for day in days:
                flows = [
                    top_flow(self.views, day, MAX_NAMES),
                    *(breakdown_flow(self.views, each, day, MAX_NAMES, "day") for each in get_args(Dimension)),
                ]
                for sum_, rows in zip(sums, run(client, gather_values(flows)), strict=True):
                    for name, times in rows:
                        sum_[name] = sum_.get(name, 0) + times
                advance(1)
        return [sorted(sum_.items(), key=lambda item: (-item[1], item[0]))[:TOP] for sum_ in sums]

    def _sources(self, day: date) -> Iterator[tuple[str, str, int]]:
        for dimension in get_args(Dimension):
            for value, views in self.views.breakdown(dimension, at=day, limit=MAX_NAMES):
                yield dimension, value, views

    def _events(self, day: date, names: list[str]) -> list[tuple[str, int]]:
        events = [Events(name, site=self.views.site, using=self.views.using).day(at=day) for name in names]
        return list(zip(names, run(connections.client(self.views.using), count_all(events)), strict=True))


def last_days(days: int, end: date) -> tuple[date, date]:
    """Return the first and the last day of this many days.

    Raises:
        ValueError: the first one is before the calendar.
    """
    try:
        return end - timedelta(days=days - 1), end
    except OverflowError:
        raise ValueError(f"{days} days until {end}: expected a first day from {date.min} on.") from None
