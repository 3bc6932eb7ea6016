"""Exceptions as text. Describing one never raises, whatever the code of its class does."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any

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


def class_path(kind: type[BaseException]) -> str:
    """Return the dotted path of an exception's class. Attributes of a metaclass are not used."""
    module, name = class_module(kind), class_name(kind)
    path = f"{module}.{name}" if isinstance(module, str) else name
    return path[:MAX_CLASS_PATH]


def safe_repr(exc: BaseException) -> str:
    """Return the `repr` of an exception for a log message, or the name of its class; at most `MAX_REPR` characters."""
    try:
        return _plain(repr(exc))[:MAX_REPR]
    except BaseException:  # noqa: BLE001 - the site's own __repr__
        return f"<{class_name(type(exc))}>"


def safe_text(exc: BaseException) -> str:
    """Return the text of an exception; it never raises."""
    try:
        return _plain(str(exc))
    except BaseException as broken:  # noqa: BLE001 - the site's own __str__; SystemExit would end the thread
        return f"<no text: {class_name(type(broken))}>"


def traceback_text(exc: BaseException) -> str:
    """Return the traceback; without source lines if the exception, or one of its causes, cannot be formatted."""
    try:
        if _chain_length(exc) <= MAX_CHAIN:
            return _plain("".join(traceback.format_exception(exc)))
    except BaseException:  # noqa: BLE001, S110 - the site's own __getattr__, __str__, __notes__
        pass
    return "\n".join(_bare_lines(exc))


def exc_info_of(exc: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Return an exception as the argument `exc_info` of loggers: they ask a bare one whether it is true."""
    return type(exc), exc, traceback_of(exc)


def traceback_of(exc: BaseException) -> TracebackType | None:
    """Return the traceback of an exception, also if its class has a property of this name."""
    found: TracebackType | None = _slot("__traceback__", exc)
    return found


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
        yield from _frames(traceback_of(exc))
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


def class_module(kind: type[Any]) -> Any:
    """Return the module of a class, a string unless the class has another value. See `class_name`."""
    return vars(type)["__module__"].__get__(kind)


def class_name(kind: type[Any]) -> str:
    """Return the name of a class. Attributes of a metaclass are not used."""
    name: str = vars(type)["__qualname__"].__get__(kind)
    return name


def _plain(text: str) -> str:
    """Return a text whose class is `str`: `__str__` may return a subclass, which may override any method."""
    return str.__str__(text)
