"""Tables of cohorts that were computed before: pages read them, because counting sets of users is too much for a page.

A table is JSON with the time of its computation, not a live figure.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from datetime import date, datetime
from typing import Any, cast

from django_redis_components.analytics.cohorts import Cohort, check_events, cohorts_flow
from django_redis_components.analytics.counter import ttl_ms
from django_redis_components.analytics.events import Events
from django_redis_components.analytics.periods import Unit
from django_redis_components.core import keys
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.units import aware, moment_of

#: Tables of a site.
MAX_TABLES = 50
#: A colon between two parts of the name of a table.
_BETWEEN = re.compile(r"(?<!:):(?!:)")


@dataclasses.dataclass(frozen=True, slots=True)
class StoredCohorts:
    """A stored table of cohorts.

    Attributes:
        first, later: names of the events.
        unit: length of a period.
        at: when it was computed, in UTC.
        rows: what `cohorts` returned.
    """

    first: str
    later: str
    unit: Unit
    at: datetime
    rows: tuple[Cohort, ...]


def roll_up_cohorts(
    first: Events, later: Events, periods: int = 8, *, unit: Unit = "week", end: date | None = None
) -> StoredCohorts:
    """Compute a table of cohorts and store it for the dashboard, with the TTL of `ANALYTICS["TTL"]`.

    A later call for the same events and unit replaces it; a site keeps 50 tables. Idempotent.

    Args:
        first, later, unit, periods, end: see `cohorts`.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    return check_events(first, "first")._run(_roll_up(first, later, unit, periods, end))


async def aroll_up_cohorts(
    first: Events, later: Events, periods: int = 8, *, unit: Unit = "week", end: date | None = None
) -> StoredCohorts:
    """See `roll_up_cohorts`."""
    return await check_events(first, "first")._arun(_roll_up(first, later, unit, periods, end))


def stored_cohorts_flow(site: str, limit: int, chosen: str = "") -> Flow[tuple[list[str], list[StoredCohorts]]]:
    """Return the flow that reads the names of the tables of a site, and some of the tables, in two round trips.

    Args:
        limit: how many are read, of those that were stored last.
        chosen: the name of the only table that is read, if it is stored.

    Returns:
        The names, ``first:later:unit``, and the tables.
    """
    names = [name.decode() for name in (yield Read("ZREVRANGE", _index(site), 0, MAX_TABLES - 1))]
    if not names:
        return [], []
    wanted = [chosen] if chosen in names else names[:limit]
    found = yield Read("MGET", *(_key(site, name) for name in wanted))
    tables = [_parsed(name, stored) for name, stored in zip(wanted, found, strict=True) if stored]
    return sorted(names), sorted(tables, key=lambda table: (table.first, table.later, table.unit))


def _roll_up(first: Events, later: Events, unit: Unit, count: int, end: date | None) -> Flow[StoredCohorts]:
    rows = yield from cohorts_flow(first, later, unit, count, end)
    now = time.time()
    table = StoredCohorts(first.event, later.event, unit, moment_of(int(now * 1_000_000)), tuple(rows))
    name, index = _table_name(first.event, later.event, unit), _index(first.site)
    yield Batch(
        [
            Command("SET", _key(first.site, name), _encoded(table), "PX", ttl_ms(), retry=True),
            Command("ZADD", index, now, name, retry=True),
            Command("ZREMRANGEBYRANK", index, 0, -MAX_TABLES - 1, retry=True),
            Command("ZREMRANGEBYSCORE", index, 0, now - ttl_ms() / 1_000, retry=True),
            Command("PEXPIRE", index, ttl_ms(), retry=True),
        ]
    )
    return table


def _encoded(table: StoredCohorts) -> str:
    rows = [[row.start.isoformat(), row.size, row.later] for row in table.rows]
    return json.dumps({"at": aware(table.at).isoformat(), "rows": rows})


def _parsed(name: str, stored: bytes) -> StoredCohorts:
    first, later, unit = events_of(name)
    data: dict[str, Any] = json.loads(stored)
    start_of = datetime.fromisoformat if unit == "hour" else date.fromisoformat
    rows = tuple(Cohort(start_of(start), size, tuple(counts)) for start, size, counts in data["rows"])
    at = moment_of(round(datetime.fromisoformat(data["at"]).timestamp() * 1_000_000))
    return StoredCohorts(first, later, unit, at, rows)


def events_of(name: str) -> tuple[str, str, Unit]:
    """Return the first and the later event of a table, and its unit, by its name."""
    first, later, unit = _BETWEEN.split(name)
    return first.replace("::", ":"), later.replace("::", ":"), cast("Unit", unit)


def _table_name(first: str, later: str, unit: Unit) -> str:
    """Return the name of a table: the events, with their colons doubled, and the unit."""
    return ":".join((first.replace(":", "::"), later.replace(":", "::"), unit))


def _index(site: str) -> str:
    return keys.key("analytics", site, "co")


def _key(site: str, name: str) -> str:
    return keys.key("analytics", site, "co", name)
