"""Translation of the tables of django-celery-beat to schedules. They are read by SQL: its app need not be installed."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError, connections
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules import definitions
from django_redis_components.taskqueue.schedules.recurrence import encode_moment, moment_ms
from django_redis_components.taskqueue.schedules.schedule import Schedule, registered
from django_redis_components.taskqueue.schedules.transfer import NewSchedule, check_name

#: The app's tables start with it.
PREFIX = "django_celery_beat_"
#: Seconds of each period of an interval.
PERIODS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1, "microseconds": 1e-6}
#: The author of the pause of an entry that is not enabled.
AUTHOR = "celery beat"
#: The fields of a crontab, in the order of an expression.
CRON_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
#: What the messages of a task have no equivalent of, with the value that means nothing.
LEFT_OUT = ("priority", "exchange", "routing_key", "headers")

Row = dict[str, Any]


class Untranslatable(ValueError):
    """An entry has no equivalent here; the text says why."""


class Unneeded(ValueError):
    """An entry has nothing left to do here; the text says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Translation:
    """An entry of beat, and the schedule that does the same.

    Attributes:
        name, task: of the entry.
        new: None if there is no such schedule.
        error: then why.
        is_needed: False for an entry that has nothing left to do here.
        notes: what differs.
    """

    name: str
    task: str
    new: NewSchedule | None
    error: str = ""
    notes: tuple[str, ...] = ()
    is_needed: bool = True


def read_translations(database: str, using: str) -> list[Translation]:
    """Return what the entries of a database become, by name.

    Raises:
        ValueError: there is no such database or table.
        CommandError: it cannot be read.
    """
    if database not in connections.databases:
        raise ValueError(f"There is no database {database!r} in DATABASES: {', '.join(connections.databases)}.")
    registry.autodiscover()
    try:
        tables = _Tables(database)
        return [_translate(row, tables, using) for row in sorted(tables.entries, key=lambda row: str(row["name"]))]
    except DatabaseError as exc:
        raise CommandError(f"Database {database!r}: {exc}") from exc


class _Tables:
    """The rows of the tables.

    Attributes:
        entries: periodic tasks.
        times: by kind and id.
    """

    def __init__(self, database: str) -> None:
        self._connection = connections[database]
        self._names = set(self._connection.introspection.table_names())
        if f"{PREFIX}periodictask" not in self._names:
            raise ValueError(
                f"Database {database!r} has no table {PREFIX}periodictask. Name that of beat by --database."
            )
        self.entries = list(self._read("periodictask"))
        self.times = {
            kind: {row["id"]: row for row in self._read(f"{kind}schedule")}
            for kind in ("interval", "crontab", "clocked")
        }

    def moment(self, value: Any) -> datetime | None:
        """Return a stored time; databases without time zones store it in that of the connection."""
        found = parse_datetime(value) if isinstance(value, str) else value
        if found is None or timezone.is_aware(found):
            return found
        return timezone.make_aware(found, self._connection.timezone or UTC)

    def _read(self, name: str) -> Iterator[Row]:
        if f"{PREFIX}{name}" not in self._names:  # an older version of the app
            return
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self._connection.ops.quote_name(PREFIX + name)}")  # noqa: S608 - a constant
            columns = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                yield dict(zip(columns, row, strict=True))


def _translate(row: Row, tables: _Tables, using: str) -> Translation:
    name, task = str(row["name"]), str(row["task"])
    try:
        new = _new(name, row, tables, using)
    except (TypeError, ValueError, InvalidTask) as exc:
        return Translation(name, task, None, str(exc), is_needed=not isinstance(exc, Unneeded))
    notes = [f"{field}={row[field]!r} is left out" for field in LEFT_OUT if row.get(field) not in (None, "", "{}")]
    return Translation(name, task, new, notes=tuple(notes))


def _new(name: str, row: Row, tables: _Tables, using: str) -> NewSchedule:
    if str(row["task"]).startswith("celery."):
        raise Unneeded("a task of Celery itself.")
    if row.get("one_off") and not row["enabled"] and row.get("total_run_count"):
        raise Unneeded("it has run once, as it should.")
    fields = {
        "task": row["task"],
        **_times(row, tables),
        "args": _decode(row, "args", "[]"),
        "kwargs": _decode(row, "kwargs", "{}"),
    }
    if "at" not in fields:
        fields |= _bounds(row, tables)
    if options := _options(row):
        fields["options"] = options
    schedule = definitions.parse_fields(name, fields)
    check_name(name, schedule, using)
    if same := _schedule_of_code(schedule):
        raise Unneeded(f"the code has the schedule {same.name!r}.")
    if schedule.following(time.time_ns() // 1_000_000) is None:
        raise Untranslatable("nothing is due from now on.")
    return NewSchedule(schedule, paused=None if row["enabled"] else AUTHOR)


def _schedule_of_code(schedule: Schedule) -> Schedule | None:
    """Return the schedule of the code with the same task, times and arguments: with both it would run twice.

    Beat's DatabaseScheduler copies the entries of `beat_schedule` to its tables.
    """

    def facts(each: Schedule) -> tuple[Any, ...]:
        return each.task.name, each.recurrence.text.lower(), list(each.args), each.kwargs

    return next((each for each in registered() if facts(each) == facts(schedule)), None)


def _times(row: Row, tables: _Tables) -> dict[str, Any]:
    """Return the fields every, cron and tz, or at."""
    if row.get("solar_id") is not None:
        raise Untranslatable("a solar schedule: a task that computes the next time can enqueue itself with run_after.")
    kinds = [kind for kind in tables.times if row.get(f"{kind}_id") is not None]
    if len(kinds) != 1:
        raise Untranslatable("expected one of interval, crontab and clocked.")
    [kind] = kinds
    times = tables.times[kind].get(row[f"{kind}_id"])
    if times is None:
        raise Untranslatable(f"its {kind} schedule {row[f'{kind}_id']} does not exist.")
    if kind == "interval":
        return {"every": _seconds(times)}
    if kind == "clocked":
        return {"at": _encoded(times["clocked_time"], tables)}
    return {"cron": _expression(times), "tz": str(times.get("timezone") or "UTC")}


def _seconds(times: Row) -> float:
    if times["period"] not in PERIODS:
        raise Untranslatable(f"period {times['period']!r}: expected one of {', '.join(PERIODS)}.")
    found: float = times["every"] * PERIODS[times["period"]]
    return found


def _expression(times: Row) -> str:
    fields = {name: "".join(str(times[name]).split()) for name in CRON_FIELDS}
    if not any(fields[name].startswith("*") for name in ("day_of_month", "day_of_week")):
        raise Untranslatable(
            f"day of month {fields['day_of_month']} and day of week {fields['day_of_week']}: Celery requires both to"
            " match, and cron either. Check one of them in the task."
        )
    # Celery also reads whole names, such as "monday".
    return " ".join(re.sub("[A-Za-z]{4,}", lambda match: match[0][:3], field) for field in fields.values())


def _bounds(row: Row, tables: _Tables) -> dict[str, Any]:
    """Return the fields start, end and count that limit an entry."""
    given = {"start": row.get("start_time"), "end": row.get("expires")}
    found: dict[str, Any] = {what: _encoded(value, tables) for what, value in given.items() if value is not None}
    return found | ({"count": 1} if row.get("one_off") else {})


def _options(row: Row) -> dict[str, Any]:
    given = {"queue_name": row.get("queue"), "expires": row.get("expire_seconds")}
    return {name: value for name, value in given.items() if value not in (None, "")}


def _encoded(value: Any, tables: _Tables) -> str:
    return encode_moment(moment_ms(tables.moment(value), "moment"))


def _decode(row: Row, field: str, default: str) -> Any:
    try:
        return json.loads(row.get(field) or default)
    except (ValueError, RecursionError) as exc:
        raise Untranslatable(f"its {field} are not JSON ({exc}).") from exc
