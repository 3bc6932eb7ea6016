"""Lines of access logs as text, and the recognition of all formats. Without Redis."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal

from django_redis_components.aggregation.json_lines import JSON_FORMATS, JsonFields, json_entry, json_object
from django_redis_components.aggregation.log_entry import LogEntry
from django_redis_components.aggregation.log_times import day_of_common, local_day
from django_redis_components.core.arguments import check_choice, check_instance
from django_redis_components.core.client_address import bare_address

#: The format of lines. "auto" tells it from each line.
LogFormat = Literal["auto", "common", "combined", "vhost_combined", "nginx-json", "caddy", "traefik", "alb"]
LOG_FORMATS: tuple[LogFormat, ...] = (
    "auto", "common", "combined", "vhost_combined", "nginx-json", "caddy", "traefik", "alb",
)  # fmt: skip

#: Text in quotes with escapes. Possessive, so that a line of any length is matched in linear time.
_QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_CLOCK = r"\d\d:\d\d:\d\d(?:\.\d{1,9})?"
_TIME = rf"\[(\d\d/[A-Z][a-z]{{2}}/\d{{4}}:{_CLOCK} [+-]\d{{4}}|\d{{4}}-\d\d-\d\dT{_CLOCK}(?:Z|[+-]\d\d:\d\d))\]"
#: The address has a separate group where nothing is written around it, which is the fast way.
_COMMON = re.compile(rf"(?:([\da-fA-F:.]++) - )?.*?{_TIME} {_QUOTED} (\d{{3}}) (?:\d+|-)(?: {_QUOTED} {_QUOTED})?")
#: A line of an application or classic load balancer of AWS. That of an address has a port; its status is before that of
#: the target, its times in seconds may be -1, and its request has a whole URL.
_ALB = re.compile(
    rf"(?:(?:https?|h2|grpcs?|wss?) )?(\d{{4}}-\d\d-\d\dT\d\d:\d\d):\d\d(?:\.\d+)?Z \S+ (\S+) \S+ (?:-?[\d.]+ ){{3}}"
    rf"(\d{{3}}) (?:\d{{3}}|-) \d+ \d+ {_QUOTED}(?: {_QUOTED})?"
)
#: Scheme and host of a URL. Only at its start: a search at each position takes the square of a path's length.
_ORIGIN = re.compile(r"\A[a-z]++://[^/?]*+")
#: Fields before the time among which an address is looked for. The user is one of them, and may be any text.
_MAX_FIELDS = 32
#: Fields of JSON that contain a whole line: of Docker's log files, of journald, and of log shippers.
_WRAPPERS = ("log", "MESSAGE", "message")


def parser_for(name: LogFormat) -> Callable[[bytes], LogEntry | None]:
    """Return the function that parses a line of a format. It returns None for a line that is not of the format.

    Raises:
        ValueError: there is no such format.
    """
    check_choice(name, "format", LOG_FORMATS)
    if name in JSON_FORMATS:
        return partial(_json, JSON_FORMATS[name])
    return {"auto": parse_line, "alb": _alb}.get(name, _common)


def parse_line(line: bytes) -> LogEntry | None:
    """Return the request of a line of any format; None if it is none.

    Prefixes by syslog, containers and supervisors are skipped.
    """
    if check_instance(line, "line", bytes, "bytes").startswith(b"{"):
        return _any_json(line)
    return _common(line) or _alb(line) or (_any_json(line) if line.endswith((b"}", b"}\r")) else None)


def _common(line: bytes) -> LogEntry | None:
    text = line.decode("utf-8", "replace")
    found = _COMMON.match(text)
    if found is None:
        return None
    plain, time, request, status, referrer, agent = found.groups("")
    address = (plain and bare_address(plain)) or _client(text[: found.start(2) - 1])
    if "/" in time:
        day = day_of_common(time)
    else:  # a line of Envoy has such a time too, and no address before it
        day = None if bare_address(address) is None else local_day(time)
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
    for index in range(last, max(-1, last - _MAX_FIELDS), -1):
        text, start = _first_of_list(fields, index)
        address = bare_address(text)
        if address is not None:
            return _behind_proxy(fields, start, address)
        if start < index or "," in fields[index]:
            return text
    return fields[last] if last >= 0 else ""


def _first_of_list(fields: list[str], last: int) -> tuple[str, int]:
    """Return the first entry of the list that ends with a field, and the number of the field where it starts."""
    index = last
    while index and fields[index - 1].endswith(","):
        index -= 1
    return fields[index].partition(",")[0].strip('"'), index


def _behind_proxy(fields: list[str], start: int, address: str) -> str:
    """Return the forwarded address before that of a proxy in a private network, as "%{X-Forwarded-For}i %h" has it.

    An address with a port is that of the virtual host.
    """
    if not start or _is_public(address):
        return address
    forwarded, _ = _first_of_list(fields, start - 1)
    return forwarded if bare_address(forwarded) == forwarded and _is_public(forwarded) else address


@lru_cache(1_024)
def _is_public(address: str) -> bool:
    return ipaddress.ip_address(address).is_global


def _alb(line: bytes) -> LogEntry | None:
    found = _ALB.match(line.decode("utf-8", "replace"))
    if found is None:
        return None
    minute, client, status, request, agent = found.groups("")
    address, day = bare_address(client), local_day(minute + "Z")
    if address is None or day is None:
        return None
    method, _, rest = request.partition(" ")
    path = _ORIGIN.sub("", rest.partition(" ")[0])
    return LogEntry(day, address, int(status), method, path, "", agent)


def _any_json(line: bytes) -> LogEntry | None:
    data = json_object(line)
    for fields in JSON_FORMATS.values():
        if (entry := json_entry(data, fields)) is not None:
            return entry
    inner = next((data[name] for name in _WRAPPERS if isinstance(data.get(name), str)), "")
    return parse_line(inner.strip().encode("utf-8", "replace")) if inner else None


def _json(fields: JsonFields, line: bytes) -> LogEntry | None:
    return json_entry(json_object(line), fields)
