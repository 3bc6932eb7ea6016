"""Stored failures: exceptions as text, and their classes looked up without imports."""

from __future__ import annotations

import dataclasses
import sys
from inspect import isclass
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.exception_text import BARE_HEADER, class_path, safe_text, traceback_text
from django_redis_components.core.settings import conf


class StoredError:
    """Mixin for errors read from Redis: the class is looked up among the imported modules, never imported."""

    __slots__ = ()
    exception_class_path: str

    @property
    def exception_class(self) -> type[BaseException]:
        """The exception's class.

        Raises:
            ImportError: this process has not imported its module.
            ValueError: the path does not name an exception.
        """
        path = self.exception_class_path
        found = _loaded(path)
        if not isclass(found) or not issubclass(found, BaseException):
            raise ValueError(f"{path!r} does not reference a valid exception.")
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class TaskError(StoredError):
    """A failure of a task: the dotted path of the exception's class, its text and the traceback."""

    exception_class_path: str
    message: str
    traceback: str


def describe(exc: BaseException) -> dict[str, str]:
    """Return an exception as it is stored: class path, message and traceback, each cut to its limit.

    It never raises, whatever the code of the exception's class does.
    """
    limit = conf.settings().taskqueue.max_error_bytes
    try:
        return {
            "exception_class_path": class_path(type(exc)),
            "message": _cut(safe_text(exc), limit // 10),
            "traceback": _cut(traceback_text(exc), limit),
        }
    except BaseException:  # noqa: BLE001 - no memory for its texts, for example
        return {"exception_class_path": class_path(type(exc)), "message": "", "traceback": ""}


def is_printable(described: bytes) -> bool:
    """Return whether the exception of an encoded description can be formatted, by Python's logging too."""
    return BARE_HEADER.encode() not in described


def _cut(text: str, limit: int) -> str:
    """Cut the middle out of a text whose JSON is longer than `limit` bytes, and say how much was cut.

    The end of a traceback has the location and the message; if the message is long, the start has the location.
    """
    keep = limit
    while len(text) > keep or len(serialization.encode(text)) > limit + 2:
        keep = min(keep, len(text))
        first, last = text[: keep // 2], text[len(text) - keep // 2 :]
        shorter = f"{first}\n… {len(text) - len(first) - len(last):,} characters cut …\n{last}"
        if keep <= 100 or len(serialization.encode(shorter)) <= limit + 2:
            return shorter
        keep = keep * 9 // 10
    return text


def _loaded(path: str) -> Any:
    """The object at this path within the imported modules."""
    module, names = path, list[str]()
    while module not in sys.modules:
        module, dot, name = module.rpartition(".")
        if not dot:
            raise ImportError(f"The module of {path!r} is not imported here, and no name from Redis is imported.")
        names.insert(0, name)
    found: Any = sys.modules[module]
    for name in names:
        found = vars(found).get(name) if hasattr(found, "__dict__") else None
    return found
