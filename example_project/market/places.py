"""Where visitors come from: ``manage.py aggregate_logs`` counts the access log by city, and a page shows the counts."""

from __future__ import annotations

import io
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.core.management import CommandError, call_command
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.aggregation import OTHER, LogAggregator
from django_redis_components.geoip import UNKNOWN, IpLookup, RangesInfo
from django_redis_components.locks import lock
from example_project import access_log
from example_project.market.content.visitors import RANGES

#: Name of the aggregator, the default of the command and of the dashboard.
NAME = "visits"

#: The levels of a place, as the page names them.
LEVELS: dict[str, Promise] = {
    "country": gettext_lazy("Country"),
    "region": gettext_lazy("Region"),
    "city": gettext_lazy("City"),
}

#: Days of the page, with today.
DAYS = 7

#: Places and log files in the tables of the page.
ROWS, FILES = 20, 5

#: Files that are read for the number of bad lines, with those that were rotated out.
ALL_FILES = 1_000

logger = logging.getLogger("example_project.places")


@dataclass(frozen=True)
class Row:
    """The requests of a place. `width` is the length of its bar in percent of the longest."""

    name: str
    today: int
    total: int
    share: float
    width: int


@dataclass(frozen=True)
class LogCounts:
    """A log file and its counts."""

    name: str
    lines: int
    bad: int
    counted_at: datetime


@dataclass(frozen=True)
class Report:
    """What the page shows."""

    rows: list[Row]
    hidden: int
    today: int
    total: int
    unknown: int
    bad: int
    files: list[LogCounts]
    ranges: RangesInfo

    @property
    def counted_at(self) -> datetime | None:
        """When lines were counted last."""
        return self.files[0].counted_at if self.files else None

    @property
    def is_made_up(self) -> bool:
        """Whether the places are the invented ones of the demo."""
        return self.ranges.source == RANGES.name


@lock("market:access log", timeout=60)
def aggregate() -> None:
    """Count the lines of the access log that were not counted before, and rotate the log when it is large.

    The counting needs no lock, the rotation does. A file is only replaced after it was counted.
    """
    files = [str(path) for path in access_log.files()]
    if not files:
        return
    try:
        call_command("aggregate_logs", *files, "--by", "city", "--name", NAME, stdout=io.StringIO())
    except CommandError as exc:
        if exc.returncode != 1:
            raise
        logger.warning("aggregate_logs: %s", exc)  # the next run continues
    else:
        access_log.rotate()


def report(level: str) -> Report:
    """Return the requests by country, region or city, most first.

    Raises:
        redis.exceptions.RedisError: the counts could not be read.
    """
    visits, day = LogAggregator(NAME), timezone.localdate()
    today, total = visits.totals(day), visits.totals(day - timedelta(days=DAYS - 1), day)
    files = visits.files(limit=ALL_FILES)
    rows = _rows(_by_level(today, level), _by_level(total, level))
    return Report(
        rows=rows[:ROWS],
        hidden=len(rows[ROWS:]),
        today=sum(today.values()),
        total=sum(total.values()),
        unknown=total.get(UNKNOWN.country, 0),
        bad=sum(file.bad for file in files),
        files=[LogCounts(Path(file.name).name, file.lines, file.bad, file.counted_at) for file in files[:FILES]],
        ranges=IpLookup().info(),
    )


def _by_level(counts: dict[str, int], level: str) -> dict[str, int]:
    """Return the sums of the counts by city, such as "FR/Île-de-France/Paris", by the first parts of their keys."""
    parts = list(LEVELS).index(level) + 1
    found: dict[str, int] = {}
    for key, count in counts.items():
        place = "/".join(key.split("/")[:parts])
        found[place] = found.get(place, 0) + count
    return found


def _rows(today: dict[str, int], total: dict[str, int]) -> list[Row]:
    longest, everything = max(total.values(), default=1), max(1, sum(total.values()))
    return [
        Row(_name(key), today.get(key, 0), count, 100 * count / everything, max(1, round(100 * count / longest)))
        for key, count in sorted(total.items(), key=lambda item: (-item[1], item[0]))
    ]


def _name(key: str) -> str:
    if key == UNKNOWN.country:
        return _("Unknown")
    if key == OTHER:
        return _("Other places")
    return ", ".join(part for part in reversed(key.split("/")) if part)
