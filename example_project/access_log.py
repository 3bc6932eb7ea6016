"""The access log of the site, in the combined format of Apache and nginx: lines, middleware, rotation.

Several processes append to the log. The handler (`WatchedFileHandler`) opens the file again after it was renamed, so
that the log is rotated by renaming it. ``manage.py aggregate_logs`` recognizes the renamed file.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from django_redis_components.core.client_address import client_address
from example_project.paths import ACCESS_LOG

#: Size in bytes from which the log is rotated, about 35,000 lines.
MAX_BYTES = 5 * 1024 * 1024

#: Number of rotated files to keep.
KEEP = 3

#: Longest path, referrer or user agent in a line, in characters; escaped they are up to four times as long. A line that
#: is longer than the 8 KiB of a file's buffer is written in two parts, between which another process could write.
MAX_TEXT = 500

#: What must not be in a quoted text: control characters and others beyond ASCII, quotes and backslashes.
_UNSAFE = re.compile(rb'[^ -~]|["\\]')

_lines = logging.getLogger("example_project.access")


class AccessLogMiddleware:
    """Write a line for each response, except for ``UNCOUNTED_PATHS``."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not request.path.startswith(tuple(settings.UNCOUNTED_PATHS)):
            size = "-" if response.streaming else len(response.content)
            protocol = request.META.get("SERVER_PROTOCOL", "HTTP/1.1")
            write(
                visitor_address(request),
                timezone.localtime(),
                f"{request.method} {request.get_full_path()[:MAX_TEXT]} {protocol}",
                status=response.status_code,
                size=size,
                referrer=request.META.get("HTTP_REFERER", ""),
                agent=request.META.get("HTTP_USER_AGENT", ""),
            )
        return response


def visitor_address(request: HttpRequest) -> str:
    """Return the address to log: of a request from this machine the one in ``X-Forwarded-For``, if it is an address.

    It is used for the log only. Limits of the site ignore the header, because every visitor could forge it.
    """
    remote = request.META.get("REMOTE_ADDR", "")
    try:
        address = ip_address(client_address(request, 1) if ip_address(remote).is_loopback else remote)
    except ValueError:
        return remote or "-"
    return str(address).partition("%")[0]  # the zone of an IPv6 address may be any text


def write(
    address: str, at: datetime, request: str, *, status: int, size: int | str, referrer: str = "", agent: str = ""
) -> None:
    """Write a line of the combined format.

    Args:
        at: time of the request, with a time zone.
        request: method, path and protocol.
        size: of the response in bytes; "-" if it is not known.
    """
    time = f"{at:%d/%b/%Y:%H:%M:%S %z}"  # English names of months: the process does not set a locale
    quoted = f'"{_escaped(request)}" {status} {size} "{_escaped(referrer[:MAX_TEXT])}" "{_escaped(agent[:MAX_TEXT])}"'
    _lines.info("%s - - [%s] %s", address, time, quoted)


def files(log: Path = ACCESS_LOG) -> list[Path]:
    """Return the existing files of the log, the current one first."""
    return [path for path in _names(log) if path.exists()]


def rotate(log: Path = ACCESS_LOG, max_bytes: int = MAX_BYTES) -> bool:
    """Rename a log that has reached `max_bytes`, and the older files; the oldest is replaced. Return whether it was.

    Call it after all files were counted, and never twice at the same time.
    """
    if not log.exists() or log.stat().st_size < max_bytes:
        return False
    names = _names(log)
    for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
        if newer.exists():
            newer.replace(older)
    return True


def _names(log: Path) -> list[Path]:
    return [log, *(log.with_name(f"{log.name}.{number}") for number in range(1, KEEP + 1))]


def _escaped(text: str) -> str:
    r"""Return the text as nginx writes it: ``\xXX`` for each unsafe byte; "-" if it is empty."""
    data = (text or "-").encode("latin-1", "replace")  # as the server has decoded the headers
    return _UNSAFE.sub(lambda found: b"\\x%02X" % found[0][0], data).decode("ascii")
