"""The panel of log files: requests by day, the top places or other keys, and the files that were counted last."""

from __future__ import annotations

import dataclasses
from datetime import date, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_lazy, ngettext

from django_redis_components.aggregation import FileState, LogAggregator
from django_redis_components.aggregation.aggregator import files_flow, series_flow, top_flow
from django_redis_components.analytics.dates import site_date
from django_redis_components.core.gather import gather, raise_if_all_failed
from django_redis_components.core.observability import catalog
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.panel import Panel
from django_redis_components.geoip import IpLookup, RangesInfo
from django_redis_components.geoip.lookup import info_flow

#: Aggregators that are read. Each takes 22 commands at most.
MAX_AGGREGATORS = 2
#: Days that are read.
DAYS = 14
#: Keys and files of each aggregator that are listed.
TOP, MAX_FILES = 10, 5


@dataclasses.dataclass(frozen=True, slots=True)
class LogCounts:
    """The counts of an aggregator.

    Attributes:
        days: requests by day.
        day: the latest day with requests, to which `top` belongs; None if there is none.
        error: why it could not be read, or "".
    """

    name: str
    days: dict[date, int]
    day: date | None
    top: list[tuple[str, int]]
    files: list[FileState]
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LogsSnapshot:
    """The aggregators, and the ranges of places in Redis; None if they could not be read."""

    aggregators: list[LogCounts]
    ranges: RangesInfo | None


class LogsPanel(Panel):
    """The log files that were counted."""

    name = "logs"
    title = gettext_lazy("Log files")
    page = "files"
    order = 40
    template_name = "django_redis_components/dashboard/panels/logs.html"

    def read(self) -> Flow[LogsSnapshot]:
        """Read the aggregators that the site used last, their days and files, then the top keys: 3 round trips."""
        alias = self.using()
        entries = yield from catalog.entries_flow(LogAggregator.catalog_kind)
        used = [entry for entry in entries if entry.using == alias][:MAX_AGGREGATORS]
        aggregators = [LogAggregator(entry.name, using=alias) for entry in used]
        flows = [flow for each in aggregators for flow in (_latest_top(each), files_flow(each, MAX_FILES))]
        *outcomes, ranges = yield from gather([*flows, info_flow(IpLookup(using=alias))])
        raise_if_all_failed([*outcomes, ranges])
        found = []
        for aggregator, counts, files in zip(aggregators, outcomes[::2], outcomes[1::2], strict=True):
            days, day, top = counts.value or ({}, None, [])
            error = counts.error or files.error
            found.append(LogCounts(aggregator.name, days, day, top, files.value or [], str(error) if error else ""))
        return LogsSnapshot(found, ranges.value)

    def context(self, value: LogsSnapshot) -> dict[str, Any]:
        """Return the rows of the tables."""
        shown = [each for each in value.aggregators if each.day or each.files or each.error]
        return {"aggregators": [_texts(each) for each in shown], "ranges": _ranges(value.ranges)}

    def data(self, value: LogsSnapshot) -> dict[str, Any]:
        """Return the counts."""
        return {
            "aggregators": [
                {
                    "name": counts.name,
                    "days": {day.isoformat(): count for day, count in counts.days.items()},
                    "top_day": counts.day,
                    "top": [{"key": key, "requests": count} for key, count in counts.top],
                    "files": counts.files,
                    "error": counts.error,
                }
                for counts in value.aggregators
            ],
            "ranges": value.ranges,
        }


def _latest_top(aggregator: LogAggregator) -> Flow[tuple[dict[date, int], date | None, list[tuple[str, int]]]]:
    today = site_date()
    days = yield from series_flow(aggregator, today - timedelta(days=DAYS - 1), today)
    day = max((day for day, count in days.items() if count), default=None)
    top = [] if day is None else (yield from top_flow(aggregator, day, None, TOP))
    return days, day, top


def _texts(counts: LogCounts) -> dict[str, Any]:
    now = timezone.now()
    total = counts.days.get(counts.day, 0) if counts.day else 0
    return {
        "name": counts.name,
        "error": counts.error,
        "day": formats.day_long(counts.day) if counts.day else "",
        "total": number(total),
        "top": [(key, number(count), formats.percent(count / total) if total else "") for key, count in counts.top],
        "days": [(formats.day_long(day), number(count)) for day, count in reversed(counts.days.items()) if count],
        "files": [
            (each.name, number(each.lines), number(each.bad), formats.timestamp(each.counted_at, now))
            for each in counts.files
        ],
    }


def _ranges(info: RangesInfo | None) -> str:
    if info is None or not info.ranges:
        return ""
    text = ngettext(
        "%(count)s range of addresses from %(source)s", "%(count)s ranges of addresses from %(source)s", info.ranges
    )
    return text % {"count": number(info.ranges), "source": info.source}
