"""Argument types for argparse, with errors that state the value and what is accepted."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from django_redis_components.core.keys import validate_name
from django_redis_components.core.units import aware, parse_duration, to_seconds
from django_redis_components.taskqueue.pool import parse_queues


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """Return an argument type: an integer within bounds."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r}: expected an integer from {low} to {high}.") from None
        if not low <= number <= high:
            raise ArgumentTypeError(f"{text}: expected an integer from {low} to {high}.")
        return number

    return parse


def seconds(text: str) -> float:
    """Parse a number of seconds above 0, at most ten years."""
    try:
        return to_seconds(float(text), "seconds")
    except ValueError:
        raise ArgumentTypeError(f"{text!r}: expected a number of seconds above 0, at most ten years.") from None


def wait_seconds(text: str) -> float:
    """Parse a number of seconds of at least 0, at most ten years."""
    try:
        return to_seconds(float(text), "seconds", zero=True)
    except ValueError:
        raise ArgumentTypeError(f"{text!r}: expected a number of seconds of at least 0, at most ten years.") from None


def names(text: str) -> list[str]:
    """Parse NAME,NAME."""
    return [name(each.strip()) for each in text.split(",")]


def name(text: str, what: str = "name") -> str:
    """Parse a name."""
    try:
        return validate_name(text, what)
    except ValueError as exc:
        raise ArgumentTypeError(str(exc)) from None


def queue(text: str) -> str:
    """Parse the name of a queue."""
    return name(text, "queue name")


def weights(text: str) -> dict[str, int]:
    """Parse NAME=WEIGHT,NAME=WEIGHT, with integers from 1 to 1000."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        if not name:
            raise ArgumentTypeError(f"{part!r}: expected NAME=WEIGHT, as in high=5,low=1.")
        if name in found:
            raise ArgumentTypeError(f"{part!r}: duplicate queue {name!r}.")
        if not number.isdecimal() or not 1 <= int(number) <= 1_000:
            raise ArgumentTypeError(f"{part!r}: expected an integer from 1 to 1000 as the weight.")
        found[queue(name)] = int(number)
    return found


def ordered_queues(text: str) -> str:
    """Parse NAME,NAME in strict order, or NAME=WEIGHT,NAME=WEIGHT."""
    try:
        parse_queues(text)
    except ValueError as exc:
        raise ArgumentTypeError(str(exc)) from None
    return text


def address(text: str) -> tuple[str, int]:
    """Parse PORT, ADDRESS:PORT or [IPv6 ADDRESS]:PORT. PORT alone means all IPv4 addresses of this host."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise ArgumentTypeError(f"{text!r}: expected a port from 1 to 65535, or ADDRESS:PORT.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def day(text: str) -> date:
    """Parse a date as YYYY-MM-DD."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r}: expected a date as YYYY-MM-DD.") from None


def duration(text: str) -> int:
    """Parse a duration such as 90s, 15m, 1h or 2d; the value is in seconds."""
    try:
        return parse_duration(text)
    except ValueError as exc:
        raise ArgumentTypeError(str(exc)) from None


def moment(text: str) -> datetime:
    """Parse a date, or a date and time, in the site's time zone unless it states one."""
    try:
        found = aware(parse_datetime(text) or datetime.fromisoformat(text)).astimezone(UTC)
        return found if settings.USE_TZ else timezone.make_naive(found, timezone.get_default_timezone())
    except (ValueError, OverflowError):  # its year in UTC, or in the site's time zone, is not from 1 to 9999
        raise ArgumentTypeError(
            f"{text!r}: expected a time such as 2026-11-23, 2026-11-23 11:20 or 2026-11-23T11:20+01:00."
        ) from None


def past_moment(text: str) -> datetime:
    """Parse a duration before now, or a time as `moment` does."""
    try:
        return timezone.now() - timedelta(seconds=parse_duration(text))
    except ValueError:
        pass
    try:
        return moment(text)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"{text!r}: expected a duration before now such as 90s, 15m, 1h or 2d, or a time such as 2026-11-23 11:20."
        ) from None
