"""Read the newest mails that Django's file-based mail backend wrote, without reading the whole folder."""

from __future__ import annotations

import email
import email.policy
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from itertools import islice
from pathlib import Path

#: The backend writes this after each mail of a file.
SEPARATOR = b"\n" + b"-" * 79 + b"\n"

#: Bytes to read of one file. Mails of the market are far smaller.
READ_LIMIT = 64 * 1024


@dataclass(frozen=True)
class Mail:
    """A mail, as shown on the page."""

    sender: str
    recipient: str
    subject: str
    body: str
    sent_at: datetime


def newest(folder: Path, limit: int, offset: int = 0) -> list[Mail]:
    """Return up to ``limit`` mails, newest first."""
    return list(islice(_mails(folder), offset, offset + limit))


def _mails(folder: Path) -> Iterator[Mail]:
    """Yield mails one by one, so that only the files of one page are opened."""
    for path in _newest_files(folder):
        with path.open("rb") as file:
            *whole, _unfinished = file.read(READ_LIMIT).split(SEPARATOR)
        for raw in reversed(whole):
            yield _parse(raw)


def _newest_files(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            found = [(entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.endswith(".log")]
    except FileNotFoundError:
        return []
    return [Path(path) for _written_at, path in sorted(found, reverse=True)]


def _parse(raw: bytes) -> Mail:
    message = email.message_from_bytes(raw, _class=EmailMessage, policy=email.policy.default)
    try:
        sent_at = parsedate_to_datetime(str(message["Date"]))
    except ValueError:
        sent_at = datetime.fromtimestamp(0, UTC)
    return Mail(
        sender=str(message["From"]),
        recipient=str(message["To"]),
        subject=str(message["Subject"]),
        body=message.get_content().strip() if message.get_content_type() == "text/plain" else "",
        sent_at=sent_at,
    )
