"""A failure as it is described and stored, and its class, found without importing anything."""

from __future__ import annotations

import dataclasses
import sys
import traceback
from inspect import isclass
from typing import Any

#: Characters of a traceback that are kept, from its end.
MAX_TRACEBACK = 20_000


class StoredError:
    """Mixin for an error that was read from Redis: what its class path names is looked up, and not imported."""

    __slots__ = ()
    exception_class_path: str

    @property
    def exception_class(self) -> type[BaseException]:
        """The exception's class.

        Raises:
            ImportError: its module has not been imported by this process.
            ValueError: the path names something else than an exception.
        """
        path = self.exception_class_path
        found = _loaded(path)
        if not isclass(found) or not issubclass(found, BaseException):
            raise ValueError(f"{path!r} does not reference a valid exception.")
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class TaskError(StoredError):
    """One failure: the exception's class as a dotted path (never imported), its text, and the traceback."""

    exception_class_path: str
    message: str
    traceback: str


def describe(exc: BaseException) -> dict[str, str]:
    """An exception as it is kept with the task: class path, message, end of the traceback."""
    kind = type(exc)
    text = "".join(traceback.format_exception(exc))
    return {
        "exception_class_path": f"{kind.__module__}.{kind.__qualname__}",
        "message": _message(exc)[:2_000],
        "traceback": text[-MAX_TRACEBACK:],
    }


def _message(exc: BaseException) -> str:
    try:
        return str(exc)
    except BaseException as broken:  # noqa: BLE001 - the site's own __str__; SystemExit would end the thread
        return f"<no text: {type(broken).__name__}>"


def _loaded(path: str) -> Any:
    """What the path names, in the modules that are imported already."""
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
