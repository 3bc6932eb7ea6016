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

from django_redis_components.core.arguments import check_choice, check_instance
from django_redis_components.core.client_address import bare_address

#: The format of lines. "auto" tells it from each line.
LogFormat = Literal["auto", "common", "combined", "vhost_combined", "nginx-json", "caddy"]
LOG_FORMATS: tuple[LogFormat, ...] = ("auto", "common", "combined", "vhost_combined", "nginx-json", "caddy")

#: Text in quotes with escapes. Possessive, so that a line of any length is matched in linear time.
_QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_TIME = r"\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]"
#: The address has a separate group where nothing is written around it, which is the fast way.
_COMMON = re.compile(rf"(?:([\da-fA-F:.]++) - )?.*?{_TIME} {_QUOTED} (\d{{3}}) (?:\d+|-)(?: {_QUOTED} {_QUOTED})?")
#: Fields before the time among which an address is looked for. The user is one of them, and may be any text.
_MAX_FIELDS = 32
#: Fields of JSON that contain a whole line: of Docker's log files, of journald, and of log shippers.
_WRAPPERS = ("log", "MESSAGE", "message")
#: Loggers of Caddy whose lines repeat a request that the access log has too.
_CADDY_ERRORS = "http.log.error"
#: Most characters of a time in ISO 8601.
_MAX_TIME_CHARS = 40
#: A time above this number, of seconds in the year 5138, is in a thousandth, a millionth or a billionth of a second.
_MAX_SECONDS = 1e11
#: Caddy writes 0 for a request without a response, such as one of a WebSocket or one that was aborted.
_STATUS = re.compile(r"[0-9]{3}|0")
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
        address: of the client, without a port and the like; of several the first one. Text that is no address, such as
            the name of a host or "unix:", as in the log.
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
    check_choice(name, "format", LOG_FORMATS)
    return {"auto": parse_line, "nginx-json": _nginx, "caddy": _caddy}.get(name, _common)


def parse_line(line: bytes) -> LogEntry | None:
    """Return the request of a line of any format; None if it is none.

    Prefixes by syslog, containers and supervisors are skipped.
    """
    if check_instance(line, "line", bytes, "bytes").startswith(b"{"):
        return _any_json(line)
    return _common(line) or (_any_json(_json_of(line)) if line.endswith((b"}", b"}\r")) else None)


def _common(line: bytes) -> LogEntry | None:
    text = line.decode("utf-8", "replace")
    found = _COMMON.match(text)
    if found is None:
        return None
    plain, time, request, status, referrer, agent = found.groups("")
    address = (plain and bare_address(plain)) or _client(text[: found.start(2) - 1])
    # The same for a minute: no offset of a time zone has seconds.
    day = _day_of_minute(time[:17] + time[-5:])
    if day is None or not address:
        return None
    method, _, rest = request.partition(" ")
    return LogEntry(day, address, int(status), method, rest.partition(" ")[0], referrer, agent)


def _client(head: str) -> str:
    """Return the address in the text before the time of a line; "" if there is no field for it.

    A line that begins with an address has no prefix, and the user after it may be any text. Otherwise the address is
    the last one that two fields follow: before it is what syslog, a container or the virtual host wrote.
    """
    fields = head.replace("\ufeff", " ").split()
    if not fields:
        return ""
    first = bare_address(fields[0])
    if first is not None and (len(fields) < 3 or fields[1] == "-" or bare_address(fields[1]) is None):
        return first
    last = len(fields) - 3
    for at in range(last, max(-1, last - _MAX_FIELDS), -1):
        text, is_list = _first_of_list(fields, at)
        address = bare_address(text)
        if address is not None or is_list:
            return address or text
    return fields[last] if last >= 0 else ""


def _first_of_list(fields: list[str], last: int) -> tuple[str, bool]:
    """Return the first entry of the list that ends with a field, and whether there are others."""
    at = last
    while at and fields[at - 1].endswith(","):
        at -= 1
    text, comma, _ = fields[at].partition(",")
    return text.strip('"'), bool(comma)


def _any_json(line: bytes) -> LogEntry | None:
    data = _object(line)
    if isinstance(data.get("request"), dict):
        return _caddy_entry(data)
    inner = next((data[name] for name in _WRAPPERS if isinstance(data.get(name), str)), "")
    return _nginx_entry(data) or (parse_line(inner.strip().encode("utf-8", "replace")) if inner else None)


def _nginx(line: bytes) -> LogEntry | None:
    return _nginx_entry(_object(_json_of(line)))


def _caddy(line: bytes) -> LogEntry | None:
    return _caddy_entry(_object(_json_of(line)))


def _json_of(line: bytes) -> bytes:
    """Return a line from its first brace on."""
    return line[line.find(b"{") :] if b"{" in line else b""


def _nginx_entry(data: dict[str, Any]) -> LogEntry | None:
    """Return the request of a JSON line whose fields have the names of nginx's variables."""
    time = _first(data, "time_iso8601", "msec", "time_local", "timestamp", "time", "@timestamp")
    address = _first(data, "remote_addr", "client_ip", "clientip", "remote_ip")
    method, _, rest = _as_text(data.get("request")).partition(" ")
    path = _as_text(_first(data, "request_uri", "uri")) or rest.partition(" ")[0]
    agent, referrer = _first(data, "http_user_agent", "user_agent"), _first(data, "http_referer", "http_referrer")
    return _entry(time, address, data.get("status"), data.get("request_method") or method, path, referrer, agent)


def _caddy_entry(data: dict[str, Any]) -> LogEntry | None:
    request = data.get("request")
    if not isinstance(request, dict):
        return None
    headers = request.get("headers")
    headers = headers if isinstance(headers, dict) else {}
    if _as_text(data.get("logger")).startswith(_CADDY_ERRORS):
        return None
    address = _first(request, "client_ip", "remote_ip", "remote_addr")
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
    code = _as_text(status)
    if day is None or not isinstance(address, str) or not address or not _STATUS.fullmatch(code):
        return None
    client = address.partition(",")[0].strip()
    return LogEntry(
        day,
        bare_address(client) or client,
        int(code),
        _as_text(method),
        _as_text(path),
        _as_text(referrer),
        _as_text(agent),
    )


def _object(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _first(data: dict[str, Any], *names: str) -> Any:
    return next((data[name] for name in names if data.get(name) not in (None, "")), None)


def _as_text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _header(headers: dict[str, Any], name: str) -> str:
    values = headers.get(name)
    return _as_text(values[0]) if isinstance(values, list) and values else ""


def _day(time: Any) -> date | None:
    """Return the local date of a time.

    Args:
        time: seconds, milliseconds, microseconds or nanoseconds since 1970; ISO 8601, also with slashes, as Caddy's
            "wall"; or that of the common format.
    """
    try:
        if isinstance(time, str) and "/" in time and not time[:4].isdecimal():
            return _day_of_minute(time[:17] + time[-5:])
        if isinstance(time, str) and ("-" in time or "/" in time):
            return _day_of_iso(time.replace("/", "-")) if len(time) <= _MAX_TIME_CHARS else None
        seconds = float(time)
    except (TypeError, ValueError, OverflowError):
        return None
    return _day_of_timestamp(int(_in_seconds(seconds) // 60)) if math.isfinite(seconds) else None


def _in_seconds(number: float) -> float:
    """Return the seconds of a time whose unit follows from its size: seconds of today have ten digits."""
    for divisor in (1e9, 1e6, 1e3):
        if abs(number) >= _MAX_SECONDS * divisor / 1e3:
            return number / divisor
    return number


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
