"""Validation of cron expressions and time zones, and the search for matching times."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django_redis_components.core.arguments import short_repr
from django_redis_components.taskqueue.exceptions import InvalidTask

#: Nicknames for five fields.
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
#: Accepted values of each field, by cronsim's name.
FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L (the last) or LW (the last weekday)",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT, 1#2 (the second Monday) or 5L (the last Friday)",
}


def fields_of(expression: str) -> str:
    """Return the five fields of an expression or nickname."""
    return NICKNAMES.get(expression, expression)


def search(fields: str, after: datetime) -> Iterator[datetime]:
    """Yield local times that match the five fields, in order, for at most 50 years."""
    found: Iterator[datetime] = _cronsim().CronSim(fields, after)
    return found


def _cronsim() -> Any:
    try:
        import cronsim
    except ImportError as exc:
        raise InvalidTask(
            "@cron needs the package cronsim: pip install 'django-redis-components[cron]'. @every needs nothing."
        ) from exc
    return cronsim


def check_expression(expression: Any) -> None:
    """Raise InvalidTask for an invalid expression, or one without a date in the next 50 years."""
    if not isinstance(expression, str):
        raise InvalidTask(f"cron {short_repr(expression)}: expected text, such as '*/5 * * * *'.")
    nicknames = ", ".join(NICKNAMES)
    fields = " ".join(expression.split())
    if fields.startswith("@") and fields not in NICKNAMES:
        raise InvalidTask(f"cron {short_repr(expression)}: expected five fields, or one of {nicknames}.")
    fields = fields_of(fields)
    if len(fields.split()) != len(FIELDS):
        raise InvalidTask(
            f"cron {short_repr(expression)} has {len(fields.split())} fields: expected five (minute, hour, day of"
            f" month, month, day of week), or one of {nicknames}. For seconds use @every."
        )
    cronsim = _cronsim()
    try:
        next_due = next(cronsim.CronSim(fields, datetime.now(UTC)), None)
    except cronsim.CronSimError as exc:
        name = str(exc).removeprefix("Bad ")
        if name != "day-of-month" or not _is_a_day(fields):
            accepted = f"{name} accepts {FIELDS[name]}; lists (1,2), ranges (1-5) and steps (*/5) of these."
            raise InvalidTask(f"cron {short_repr(expression)}: {accepted}") from exc
        next_due = None
    except ValueError as exc:  # more digits than Python converts
        raise InvalidTask(f"cron {short_repr(expression)}: {exc}.") from exc
    if next_due is None:
        raise InvalidTask(f"cron {short_repr(expression)}: no such date in the next 50 years.")


def check_steps(expression: str) -> None:
    """Raise InvalidTask for a step of more values than the field has: `*/100` minutes would be once an hour."""
    fields = fields_of(" ".join(expression.split()))
    for (name, accepted), field in zip(FIELDS.items(), fields.split(), strict=True):
        low, high = map(int, re.findall(r"\d+", accepted)[:2])
        most = 7 if name == "day-of-week" else high - low + 1  # 0 and 7 are one day
        if any(int(step) > most for step in re.findall(r"/(\d+)", field)):
            raise InvalidTask(f"cron {short_repr(expression)}: {name} accepts steps of 1 to {most}.")


def _is_a_day(fields: str) -> bool:
    """Return whether the day of the month is valid in other months."""
    minute, hour, day, _, weekday = fields.split()
    cronsim = _cronsim()
    try:
        cronsim.CronSim(f"{minute} {hour} {day} * {weekday}", datetime.now(UTC))
    except cronsim.CronSimError:
        return False
    return True


def zone_of(tz: Any) -> ZoneInfo:
    """Return the zone of a name, or the zone itself. Raise InvalidTask with the nearest name."""
    if isinstance(tz, ZoneInfo):
        return tz
    if not isinstance(tz, str):
        raise InvalidTask(
            f"tz={short_repr(tz)}: expected the name of a time zone, such as 'Europe/Berlin', or a ZoneInfo."
        )
    try:
        return ZoneInfo(tz)
    except (ValueError, OSError, LookupError):
        near = difflib.get_close_matches(tz, available_timezones(), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Expected a name such as 'Europe/Berlin'."
        raise InvalidTask(f"tz={short_repr(tz)} is not a time zone. {hint}") from None
