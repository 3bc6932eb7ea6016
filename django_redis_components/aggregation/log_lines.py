"""Lines of access logs: common, combined and vhost_combined, JSON of nginx, and Caddy's JSON. Without Redis."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from django.core.signals import setting_changed
from django.utils.timezone import get_default_timezone, is_naive

#: The format of lines. "auto" tells it from each line.
LogFormat = Literal["auto", "common", "combined", "vhost_combined", "nginx-json", "caddy"]
LOG_FORMATS: tuple[LogFormat, ...] = ("auto", "common", "combined", "vhost_combined", "nginx-json", "caddy")

#: Text in quotes with escapes. Possessive, so that a line of any length is matched in linear time.
_QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
#: The virtual host of vhost_combined: an address follows it, and not the identity of the common format, which is "-".
_VHOST = r"(?:\S++ (?=[\da-fA-F]*[.:][\da-fA-F.:]* ))?"
_COMMON = re.compile(
    rf"{_VHOST}(\S+) \S+ .*?\[(\d\d/[A-Z][a-z]{{2}}/\d{{4}}:\d\d:\d\d:\d\d [+-]\d{{4}})\] {_QUOTED} (\d{{3}}) (?:\d+|-)"
    rf"(?: {_QUOTED} {_QUOTED})?"
)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}


class LogEntry(NamedTuple):
    """A request in an access log. Texts that the format lacks are "".

    Attributes:
        day: local date of the request in ``TIME_ZONE``.
        address: of the client, as in the log.
        status: of the response.
        path: with the query.
    """

    day: date
    address: str
    status: int
    method: str
    path: str
    referrer: str
    agent: str


def parser_for(name: LogFormat) -> Callable[[bytes], LogEntry | None]:
    """Return the function that parses a line of a format. It returns None for a line that is not of the format.

    Raises:
        ValueError: there is no such format.
    """
    if name not in LOG_FORMATS:
        raise ValueError(f"format={name!r}: expected one of {', '.join(LOG_FORMATS)}.")
    return {"auto": parse_line, "nginx-json": _nginx, "caddy": _caddy}.get(name, _common)


def parse_line(line: bytes) -> LogEntry | None:
    """Return the request of a line of any format; None if it is none."""
    return _any_json(line) if line.startswith(b"{") else _common(line)


def _common(line: bytes) -> LogEntry | None:
    found = _COMMON.match(line.decode("utf-8", "replace"))
    if found is None:
        return None
    address, time, request, status, referrer, agent = found.groups("")
    # The same for a minute: no offset of a time zone has seconds.
    day = _day_of_minute(time[:17] + time[-5:])
    if day is None:
        return None
    method, _, rest = request.partition(" ")
    return LogEntry(day, address, int(status), method, rest.partition(" ")[0], referrer, agent)


def _any_json(line: bytes) -> LogEntry | None:
    data = _object(line)
    return _caddy_entry(data) if isinstance(data.get("request"), dict) else _nginx_entry(data)


def _nginx(line: bytes) -> LogEntry | None:
    return _nginx_entry(_object(line))


def _caddy(line: bytes) -> LogEntry | None:
    return _caddy_entry(_object(line))


def _nginx_entry(data: dict[str, Any]) -> LogEntry | None:
    """Return the request of a JSON line whose fields have the names of nginx's variables."""
    time = _first(data, "time_iso8601", "msec", "time_local", "timestamp", "time", "@timestamp")
    address = _first(data, "remote_addr", "client_ip", "clientip", "remote_ip")
    method, _, rest = _text(data.get("request")).partition(" ")
    path = _text(_first(data, "request_uri", "uri")) or rest.partition(" ")[0]
    agent, referrer = _first(data, "http_user_agent", "user_agent"), _first(data, "http_referer", "http_referrer")
    return _entry(time, address, data.get("status"), data.get("request_method") or method, path, referrer, agent)


def _caddy_entry(data: dict[str, Any]) -> LogEntry | None:
    request = data.get("request")
    if not isinstance(request, dict):
        return None
    headers = request.get("headers")
    headers = headers if isinstance(headers, dict) else {}
    address = _first(request, "client_ip", "remote_ip") or _text(request.get("remote_addr")).rpartition(":")[0]
    return _entry(
        data.get("ts"),
        address,
        data.get("status"),
        request.get("method"),
        request.get("uri"),
        _header(headers, "Referer"),
        _header(headers, "User-Agent"),
    )


def _entry(time: Any, address: Any, status: Any, method: Any, path: Any, referrer: Any, agent: Any) -> LogEntry | None:
    day = _day(time)
    code = _text(status)
    if day is None or not isinstance(address, str) or not address or len(code) != 3 or not code.isdecimal():
        return None
    return LogEntry(day, address, int(code), _text(method), _text(path), _text(referrer), _text(agent))


def _object(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _first(data: dict[str, Any], *names: str) -> Any:
    return next((data[name] for name in names if data.get(name) not in (None, "")), None)


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _header(headers: dict[str, Any], name: str) -> str:
    values = headers.get(name)
    return _text(values[0]) if isinstance(values, list) and values else ""


def _day(time: Any) -> date | None:
    """Return the local date of a time: seconds since 1970, ISO 8601, or that of the common format."""
    try:
        if isinstance(time, str) and "/" in time:
            return _day_of_minute(time[:17] + time[-5:])
        if isinstance(time, str) and "-" in time:
            return _day_of_iso(time)
        seconds = float(time)
    except (TypeError, ValueError):
        return None
    return _day_of_timestamp(int(seconds // 60)) if math.isfinite(seconds) else None


@lru_cache(4_096)
def _day_of_minute(time: str) -> date | None:
    """Return the local date of "10/Oct/2026:13:55-0700"."""
    try:
        offset = timedelta(hours=int(time[-4:-2]), minutes=int(time[-2:])) * (-1 if time[-5] == "-" else 1)
        parts = (int(time[7:11]), _MONTHS[time[3:6]], int(time[:2]), int(time[12:14]), int(time[15:17]))
        return _local_date(datetime(*parts, tzinfo=timezone(offset)))
    except (ValueError, KeyError, IndexError, OverflowError):
        return None


@lru_cache(4_096)
def _day_of_timestamp(minute: int) -> date | None:
    try:
        return _local_date(datetime.fromtimestamp(minute * 60, UTC))
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(4_096)
def _day_of_iso(time: str) -> date | None:
    try:
        moment = datetime.fromisoformat(time)
        return moment.date() if is_naive(moment) else _local_date(moment)
    except (ValueError, OverflowError):
        return None


def _local_date(moment: datetime) -> date:
    return moment.astimezone(get_default_timezone()).date()


def _forget_days(*, setting: str, **_: Any) -> None:
    if setting in ("TIME_ZONE", "USE_TZ"):
        for function in (_day_of_minute, _day_of_timestamp, _day_of_iso):
            function.cache_clear()


setting_changed.connect(_forget_days, dispatch_uid="django_redis_components.aggregation.log_lines")
