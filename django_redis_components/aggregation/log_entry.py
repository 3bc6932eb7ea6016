"""A request in an access log."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple


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
