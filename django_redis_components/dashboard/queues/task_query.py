"""What a request wants from the list of a queue's tasks: the state, the filters and the page."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from django_redis_components.core import serialization
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.text import has_part
from django_redis_components.core.units import aware, parse_duration
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.arguments import masked_arguments
from django_redis_components.dashboard.error_text import is_masked, masked_error
from django_redis_components.dashboard.parameters import InvalidParameter, not_of_a_link, not_one_of, too_long
from django_redis_components.taskqueue.stats import fingerprint
from django_redis_components.taskqueue.store.scan import STATES, Filters, ScannedTask

#: Tasks on a page.
PAGE_SIZE = 50
#: The filters, as parameters of the page.
FILTERS = ("name", "error", "text", "begin", "end", "version", "host")
#: Longest filter that a form accepts, in characters.
MAX_FILTER = 200
#: Names of days, Monday first.
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: A cursor is the task's part of the queue, its score or time, and its entry.
CURSOR = re.compile(r"[a-z]{1,20} -?(?:\d{1,20}(?:\.\d{1,20})?(?:e\+?\d{1,3})?|inf) .{1,1000}", re.DOTALL)
#: Arguments as the page shows them: name=value.
_NAMED = re.compile(r"(\w+)=(.+)", re.DOTALL)
#: How JSON begins that is no string without its quotes.
_PLAIN = re.compile(r'[-\d\["{]|(?:true|false|null)\b')


@dataclasses.dataclass(frozen=True, slots=True)
class TaskQuery:
    """The state, the filters and the page.

    Attributes:
        name, error, text: filters as the operator has typed them; an error may be the fingerprint of a group.
        begin, end: bounds of the time of the state, as `parse_time` takes them.
        version, host: of the worker that runs the task, or has run it last, whole.
        direction: "after" or "before" the cursor.
    """

    state: str = "ready"
    name: str = ""
    error: str = ""
    text: str = ""
    begin: str = ""
    end: str = ""
    version: str = ""
    host: str = ""
    cursor: str = ""
    direction: str = "after"

    @property
    def filters(self) -> Filters:
        """The filters for the server."""
        name, text = self.name, needle_of(self.text)
        error, group = ("", self.error) if self.is_group else (json_text(self.error), "")
        span = parse_time(self.begin), parse_time(self.end)
        return Filters(name, text, error, group, *span, version=self.version, host=self.host)

    @property
    def is_group(self) -> bool:
        """Whether the error is a fingerprint: the tasks of one error group."""
        return fingerprint.PATTERN.fullmatch(self.error) is not None

    @property
    def needs_rows(self) -> bool:
        """Whether `accepts` must look at each task that the server has found."""
        return bool(self.text) or self._is_error_masked

    def cursor_in(self, shard: str) -> str:
        """Return the cursor in a shard. That of a page of several shards has one for each, as JSON."""
        return self.cursors().get(shard, "") if self.cursor.startswith("{") else self.cursor

    def cursors(self) -> dict[str, str]:
        """Return the cursors of a page of several shards by their names; none of a page of one."""
        found: dict[str, str] = json.loads(self.cursor) if self.cursor.startswith("{") else {}
        return found

    def encoded(self, **changed: str) -> str:
        """Return the query string with some values changed."""
        values = {**dataclasses.asdict(self), **changed}
        if not values["cursor"]:
            values["direction"] = ""
        return urlencode({name: value for name, value in values.items() if value})

    def accepts(self, task: ScannedTask) -> bool:
        """Return whether the texts are in what is shown, too: a search must not reveal masked values."""
        if self._is_error_masked and not is_in_error(task, self.error):
            return False
        return not self.text or has_part(masked_json(task), needle_of(self.text))

    @property
    def _is_error_masked(self) -> bool:
        return bool(self.error) and not self.is_group and is_masked()


def parse_time(value: str) -> int | None:
    """Return the milliseconds since the epoch of ``2026-11-23 11:20``, in the active time zone; None for "".

    Raises:
        ValueError: it is no time.
    """
    if not value:
        return None
    try:
        at = parse_datetime(value)
    except ValueError:  # such as 25:00
        at = None
    if at is None or not 1970 <= at.year < 9_999:  # near the ends of the calendar a time has no UTC
        raise InvalidParameter(_("%(value)s: expected a time such as 2026-11-23 11:20.") % {"value": short_repr(value)})
    if timezone.is_naive(at):
        at = timezone.make_aware(at) if settings.USE_TZ else aware(at)
    return int(at.timestamp() * 1_000)


def check_span(query: Any) -> None:
    """Check the bounds of a time, `begin` and `end`, of a query.

    Raises:
        ValueError: one of them is no time.
    """
    for name in ("begin", "end"):
        try:
            parse_time(getattr(query, name))
        except (ValueError, OverflowError) as exc:
            raise ValueError(f"{name}={exc}") from exc


def day_of(text: str) -> str:
    """Return the date of a day by its English name: ``today``, ``yesterday``, or a weekday, the last one or today.

    Raises:
        ValueError: it is no such name.
    """
    today = formats.local(timezone.now()).date()
    days = ("today", "yesterday")
    name = text.lower()
    if name in days:
        return str(today - timedelta(days=days.index(name)))
    return str(today - timedelta(days=(today.weekday() - WEEKDAYS.index(name)) % 7))


def moment_ago(text: str, *, ahead: bool = False) -> str:
    """Return the time of now but a duration, ``15m``, or of ``midnight``, as `parse_time` takes it, to the minute.

    Args:
        ahead: now and the duration; the next midnight.

    Raises:
        ValueError: it is neither.
    """
    now = formats.local(timezone.now())
    if text == "midnight":
        moment = (now + timedelta(days=int(ahead))).replace(hour=0, minute=0)
    else:
        duration = timedelta(seconds=parse_duration(text))
        moment = now + duration if ahead else now - duration
    return moment.strftime("%Y-%m-%dT%H:%M")


def query_of(form: Mapping[str, str]) -> TaskQuery:
    """Return the query of a request.

    Raises:
        ValueError: a parameter is not valid.
    """
    query = TaskQuery(**_parameters(form))
    if query.state not in STATES:
        raise not_one_of("state", query.state, STATES)
    for name in ("name", "error", "text", "version", "host"):
        if len(getattr(query, name)) > MAX_FILTER:
            raise too_long(name, MAX_FILTER)
    check_span(query)
    if query.direction not in ("after", "before"):
        raise not_one_of("direction", query.direction, ("after", "before"))
    if query.cursor and not _is_cursor(query.cursor):
        raise not_of_a_link("cursor")
    return query


def _is_cursor(text: str) -> bool:
    """Return whether a text is the cursor of a list, or has those of several shards by their names."""
    if not text.startswith("{"):
        return CURSOR.fullmatch(text) is not None
    try:
        cursors = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return all(isinstance(each, str) and CURSOR.fullmatch(each) for each in cursors.values())


def _parameters(form: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a form; a time that is relative to now is replaced."""
    parameters = {field.name: form[field.name] for field in dataclasses.fields(TaskQuery) if form.get(field.name)}
    for name, relative in (("begin", "since"), ("end", "within")):
        if form.get(relative) and not form.get(name):
            try:
                parameters[name] = moment_ago(form[relative], ahead=name == "end")
            except (ValueError, OverflowError) as exc:
                raise ValueError(f"{relative}={exc}") from exc
    return parameters


def is_in_error(task: ScannedTask, text: str) -> bool:
    """Return whether a text is in the class or the masked text of the last error."""
    masked = {"exception_class_path": task.error_class, "message": masked_error(task.error_text)}
    return has_part(serialization.encode(masked).decode(), json_text(text))


def masked_json(task: ScannedTask) -> str:
    """Return the masked arguments as JSON; "" if they cannot be read."""
    try:
        return serialization.encode([*masked_arguments(task.record)]).decode()
    except Exception:  # noqa: BLE001 - the site's codec may raise anything
        return ""


def needle_of(text: str) -> str:
    """Return a text of the page as JSON writes it: ``order_id=7`` is ``"order_id":7``, ``to=kim`` ``"to":"kim``."""
    named = _NAMED.fullmatch(text)
    if not named:
        return json_text(text)
    quote = "" if _PLAIN.match(named[2]) else '"'
    return f'"{named[1]}":{quote}{json_text(named[2])}'


def json_text(text: str) -> str:
    """Return a text as it stands within a JSON string, unless it has quotes: then it is JSON already."""
    return text if '"' in text else serialization.encode(text).decode()[1:-1]
