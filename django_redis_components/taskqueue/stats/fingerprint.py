"""Fingerprints of failures: exception class, location, and message without variable parts.

The worker computes the fingerprint where it has the exception. Redis counts by it, stores it in the record of the task,
and never parses it.
"""

from __future__ import annotations

import re
import site
import sysconfig
import types
from functools import lru_cache
from hashlib import blake2b

from django_redis_components.core import serialization
from django_redis_components.core.exception_text import class_path
from django_redis_components.taskqueue.exceptions import WorkerLost
from django_redis_components.taskqueue.store.job import ErrorIdentity

#: Characters of the message that are kept.
MAX_TEXT = 300
#: Characters of the location and of the class path that are kept.
MAX_NAME = 200
#: A fingerprint as text.
PATTERN = re.compile(r"[0-9a-f]{16}")
#: Variable parts of messages, and their placeholders.
_VARIABLE_PARTS = (
    (re.compile(r"'[^']*'|\"[^\"]*\"|‘[^’]*’|“[^”]*”"), "'…'"),
    (re.compile(r"\S+@\S+"), "…@…"),
    (re.compile(r"\b(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0x[0-9a-fA-F]+|[0-9a-fA-F]{8,})\b"), "#"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
)
#: Folders of the standard library and of installed packages.
_LIBRARIES = tuple(
    {*site.getsitepackages(), *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
)
_PACKAGE = "django_redis_components."


def identify(exc: BaseException) -> ErrorIdentity:
    """Return the fingerprint of an exception, and the JSON of class, location and text.

    It never raises: what the exception does not return without an error is empty.
    """
    path = class_path(type(exc))[:MAX_NAME]
    try:
        location = location_of(exc.__traceback__)
    except BaseException:  # noqa: BLE001 - a property of the site's class
        location = ""
    return _identity(path, location, _message_of(exc))


def location_of(trace: types.TracebackType | None) -> str:
    """Return the innermost function of the site's own code, else the innermost function; "" without a traceback."""
    last = own = ""
    while trace is not None:
        frame = trace.tb_frame
        module = frame.f_globals.get("__name__")
        last = f"{module}.{frame.f_code.co_qualname}"
        if not str(module).startswith(_PACKAGE) and not is_library(frame.f_code.co_filename):
            own = last
        trace = trace.tb_next
    return (own or last)[:MAX_NAME]


def normalize(message: str) -> str:
    """Return the first line of a text with quoted words, numbers and addresses replaced by placeholders."""
    line = message.strip().partition("\n")[0][:MAX_TEXT]
    for pattern, placeholder in _VARIABLE_PARTS:
        line = pattern.sub(placeholder, line)
    return line


def _identity(kind: str, location: str, message: str) -> ErrorIdentity:
    description = serialization.encode({"class": kind, "location": location, "text": message})
    return ErrorIdentity(blake2b(description, digest_size=8).hexdigest(), description.decode())


@lru_cache(maxsize=4_096)
def is_library(path: str) -> bool:
    """Return whether a file belongs to the standard library or to an installed package."""
    return path.startswith(_LIBRARIES) or path.startswith("<frozen")


def _message_of(exc: BaseException) -> str:
    try:
        return normalize(str.__str__(str(exc)))  # it may be of a subclass of `str`
    except BaseException:  # noqa: BLE001 - __str__ is the site's code; a SystemExit in it would end the thread
        return ""


#: The error of tasks that exceeded `max_deliveries`: no exception was raised.
WORKER_LOST = _identity(class_path(WorkerLost), "", "")
