"""Which failures are the same error: the exception's class, where it was raised, and its text without the particulars.

A thousand failures are a handful of errors. The fingerprint is made where the exception is, in the worker; Redis
counts by it and never looks into it.
"""

from __future__ import annotations

import re
import site
import sysconfig
import types
from functools import lru_cache
from hashlib import blake2b

from django_redis_components.core import serialization as arguments
from django_redis_components.taskqueue.exceptions import WorkerLost

#: Characters of an exception's text that tell errors apart; particulars among them do not.
MAX_TEXT = 300
#: Characters of the place and of the class that are kept.
MAX_NAME = 200
#: What differs from one failure to the next of the same error, and what stands for it.
_PARTICULARS = (
    (re.compile(r"'[^']*'|\"[^\"]*\"|‘[^’]*’|“[^”]*”"), "'…'"),
    (re.compile(r"\S+@\S+"), "…@…"),
    (re.compile(r"\b(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0x[0-9a-fA-F]+|[0-9a-fA-F]{8,})\b"), "#"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
)
#: Folders of what is not the site's own code.
_LIBRARIES = tuple(
    {*site.getsitepackages(), *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
)
_OURS = "django_redis_components."


def of(exc: BaseException) -> str:
    """Fingerprint and what it stands for, as the note of an ack has them."""
    kind = type(exc)
    return _note(f"{kind.__module__}.{kind.__qualname__}"[:MAX_NAME], place_of(exc.__traceback__), plain(_text(exc)))


def place_of(trace: types.TracebackType | None) -> str:
    """The function that raised: the innermost one of the site's own code, else the innermost one; "" for none."""
    last = own = ""
    while trace is not None:
        frame = trace.tb_frame
        module = frame.f_globals.get("__name__")
        last = f"{module}.{frame.f_code.co_qualname}"
        if not str(module).startswith(_OURS) and not _is_library(frame.f_code.co_filename):
            own = last
        trace = trace.tb_next
    return (own or last)[:MAX_NAME]


def plain(text: str) -> str:
    """A text without what differs from one failure to the next: quoted words, numbers, addresses."""
    line = text.strip().partition("\n")[0][:MAX_TEXT]
    for pattern, stands_for in _PARTICULARS:
        line = pattern.sub(stands_for, line)
    return line


def _note(kind: str, place: str, text: str) -> str:
    about = arguments.encode({"class": kind, "place": place, "text": text}).decode()
    return f"{blake2b(about.encode(), digest_size=8).hexdigest()} {about}"


@lru_cache(maxsize=4_096)
def _is_library(path: str) -> bool:
    return path.startswith(_LIBRARIES) or path.startswith("<frozen")


def _text(exc: BaseException) -> str:
    try:
        return str(exc)
    except BaseException:  # noqa: BLE001 - the site's own __str__; SystemExit would end the thread
        return ""


#: The note of tasks whose workers died too often: nothing was raised.
LOST = _note(f"{WorkerLost.__module__}.{WorkerLost.__qualname__}", "", "")
