"""Stored failures: exceptions as text, and their classes looked up without imports."""

from __future__ import annotations

import dataclasses
import sys
import traceback
from collections import deque
from collections.abc import Iterator
from inspect import isclass
from types import TracebackType
from typing import Any

from django_redis_components.core import conf
from django_redis_components.core import serialization as arguments

#: Maximum length of the dotted path of an exception's class.
MAX_CLASS_PATH = 500
#: Maximum length of an exception in a log message.
MAX_REPR = 1_000
#: Exceptions that are formatted with their causes and contexts; a longer chain is described by its frames.
MAX_CHAIN = 200
#: Frames of each exception, and exceptions, of a description without source lines.
MAX_BARE_FRAMES, MAX_BARE_CAUSES = 50, 5
#: First line of a traceback without source lines.
BARE_HEADER = "Traceback without source lines (the exception cannot be formatted):"


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
            "traceback": _cut(_traceback(exc), limit),
        }
    except BaseException:  # noqa: BLE001 - no memory for its texts, for example
        return {"exception_class_path": class_path(type(exc)), "message": "", "traceback": ""}


def class_path(kind: type[BaseException]) -> str:
    """Return the dotted path of an exception's class. Attributes of a metaclass are not used."""
    module, name = _class_module(kind), _class_name(kind)
    path = f"{module}.{name}" if isinstance(module, str) else name
    return path[:MAX_CLASS_PATH]


def safe_repr(exc: BaseException) -> str:
    """Return the `repr` of an exception for a log message, or the name of its class; at most `MAX_REPR` characters."""
    try:
        return _plain(repr(exc))[:MAX_REPR]
    except BaseException:  # noqa: BLE001 - the site's own __repr__
        return f"<{_class_name(type(exc))}>"


def is_printable(described: bytes) -> bool:
    """Return whether the exception of an encoded description can be formatted, by Python's logging too."""
    return BARE_HEADER.encode() not in described


def _traceback(exc: BaseException) -> str:
    """Return the traceback; without source lines if the exception, or one of its causes, cannot be formatted."""
    try:
        if _chain_length(exc) <= MAX_CHAIN:
            return _plain("".join(traceback.format_exception(exc)))
    except BaseException:  # noqa: BLE001, S110 - the site's own __getattr__, __str__, __notes__
        pass
    return "\n".join(_bare_lines(exc))


def _chain_length(exc: BaseException | None) -> int:
    """Return how many exceptions Python would print. It stops after `MAX_CHAIN`: a property may never end."""
    length = 0
    while exc is not None and length <= MAX_CHAIN:
        length += 1
        if exc.__cause__ is None and exc.__suppress_context__:
            break
        exc = exc.__context__ if exc.__cause__ is None else exc.__cause__
    return length


def _bare_lines(exc: BaseException | None) -> Iterator[str]:
    """Return class and frames of an exception and of its causes, the last one first. No code of its class is used."""
    yield BARE_HEADER
    for _ in range(MAX_BARE_CAUSES):
        if exc is None:
            return
        yield class_path(type(exc))
        yield from _frames(_slot("__traceback__", exc))
        cause = _slot("__cause__", exc)
        exc = _slot("__context__", exc) if cause is None else cause


def _frames(trace: TracebackType | None) -> Iterator[str]:
    frames = deque[str](maxlen=MAX_BARE_FRAMES)
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}')
        trace = trace.tb_next
    return iter(frames)


def _slot(name: str, exc: BaseException) -> Any:
    """Return an attribute of an exception as Python stores it, also if its class has a property of this name."""
    return vars(BaseException)[name].__get__(exc)


def _class_module(kind: type[Any]) -> Any:
    return vars(type)["__module__"].__get__(kind)


def _class_name(kind: type[Any]) -> str:
    name: str = vars(type)["__qualname__"].__get__(kind)
    return name


def _plain(text: str) -> str:
    """Return a text whose class is `str`: `__str__` may return a subclass, which may override any method."""
    return str.__str__(text)


def _cut(text: str, limit: int) -> str:
    """Cut the middle out of a text whose JSON is longer than `limit` bytes, and say how much was cut.

    The end of a traceback has the location and the message; if the message is long, the start has the location.
    """
    keep = limit
    while len(text) > keep or len(arguments.encode(text)) > limit + 2:
        keep = min(keep, len(text))
        first, last = text[: keep // 2], text[len(text) - keep // 2 :]
        shorter = f"{first}\n… {len(text) - len(first) - len(last):,} characters cut …\n{last}"
        if keep <= 100 or len(arguments.encode(shorter)) <= limit + 2:
            return shorter
        keep = keep * 9 // 10
    return text


def safe_text(exc: BaseException) -> str:
    """Return the text of an exception; it never raises."""
    try:
        return _plain(str(exc))
    except BaseException as broken:  # noqa: BLE001 - the site's own __str__; SystemExit would end the thread
        return f"<no text: {_class_name(type(broken))}>"


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
