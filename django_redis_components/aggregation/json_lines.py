"""Lines of access logs in JSON: a format is a declaration of where its fields are. Without Redis."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from django_redis_components.aggregation.log_entry import LogEntry
from django_redis_components.aggregation.log_times import local_day
from django_redis_components.core.client_address import bare_address


class JsonFields(NamedTuple):
    """The names of the fields of a format, of which the first one with a value counts. A dot is a step into an object.

    Attributes:
        request: "GET /a HTTP/1.1", for formats without a separate method or path.
        error_logger: start of the names of loggers whose lines repeat a request that the access log has too.
    """

    time: tuple[str, ...]
    address: tuple[str, ...]
    status: tuple[str, ...]
    method: tuple[str, ...]
    path: tuple[str, ...]
    referrer: tuple[str, ...]
    agent: tuple[str, ...]
    request: tuple[str, ...] = ()
    error_logger: str = ""


#: The formats in JSON, by name.
JSON_FORMATS = {
    "nginx-json": JsonFields(
        time=("time_iso8601", "msec", "time_local", "timestamp", "time", "@timestamp"),
        address=("remote_addr", "client_ip", "clientip", "remote_ip"),
        status=("status",),
        method=("request_method",),
        path=("request_uri", "uri"),
        referrer=("http_referer", "http_referrer"),
        agent=("http_user_agent", "user_agent"),
        request=("request",),
    ),
    "caddy": JsonFields(
        time=("ts",),
        address=("request.client_ip", "request.remote_ip", "request.remote_addr"),
        status=("status",),
        method=("request.method",),
        path=("request.uri",),
        referrer=("request.headers.Referer",),
        agent=("request.headers.User-Agent",),
        error_logger="http.log.error",
    ),
    "traefik": JsonFields(
        time=("StartUTC", "StartLocal", "time"),
        address=("ClientHost", "ClientAddr"),
        status=("DownstreamStatus",),
        method=("RequestMethod",),
        path=("RequestPath",),
        referrer=("request_Referer",),
        agent=("request_User-Agent",),
    ),
}
#: Caddy writes 0 for a request without a response, such as one of a WebSocket or one that was aborted.
_STATUS = re.compile(r"[0-9]{3}|0")


def json_object(line: bytes) -> dict[str, Any]:
    """Return the object that a line has from its first brace on; {} if it has none."""
    try:
        data = json.loads(line[line.find(b"{") :].decode("utf-8", "replace")) if b"{" in line else None
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def json_entry(data: dict[str, Any], fields: JsonFields) -> LogEntry | None:
    """Return the request of an object in a format; None if it is none."""
    address = _first(data, fields.address)
    if not isinstance(address, str):
        return None
    if fields.error_logger and _text(data, ("logger",)).startswith(fields.error_logger):
        return None
    day, status = local_day(_first(data, fields.time)), _text(data, fields.status)
    if day is None or not _STATUS.fullmatch(status):
        return None
    method, _, rest = _text(data, fields.request).partition(" ") if fields.request else ("", "", "")
    client = address.partition(",")[0].strip()
    return LogEntry(
        day,
        bare_address(client) or client,
        int(status),
        _text(data, fields.method) or method,
        _text(data, fields.path) or rest.partition(" ")[0],
        _text(data, fields.referrer),
        _text(data, fields.agent),
    )


def _first(data: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        value = _nested(data, name) if "." in name else data.get(name)
        if value is not None and value != "":
            return value
    return None


def _nested(data: Any, name: str) -> Any:
    for part in name.split("."):
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _text(data: dict[str, Any], names: tuple[str, ...]) -> str:
    value = _first(data, names)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:  # the values of a header
        value = value[0]
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
