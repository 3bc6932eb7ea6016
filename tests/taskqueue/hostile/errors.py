"""Exceptions that cannot be described, and a log filter that raises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any


def _raise(exc: type[BaseException]) -> Any:
    raise exc("hostile")


class AttributesError(Exception):
    """API clients forward unknown attributes, and raise another error than AttributeError."""

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)


class TextError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    def __repr__(self) -> str:
        raise KeyboardInterrupt


class ClassError(Exception):
    @property
    def __class__(self) -> Any:
        raise KeyboardInterrupt


class NotesError(Exception):
    __notes__ = property(lambda self: _raise(SystemExit))  # type: ignore[assignment]


class SlotsError(Exception):
    """Its cause, context, traceback and arguments cannot be read."""

    __cause__ = property(lambda self: _raise(MemoryError))  # type: ignore[assignment]
    __context__ = property(lambda self: _raise(GeneratorExit))  # type: ignore[assignment]
    __traceback__ = property(lambda self: _raise(SystemExit))  # type: ignore[assignment]
    args = property(lambda self: _raise(RecursionError))  # type: ignore[assignment]


class EndlessError(Exception):
    """Its cause is another one each time."""

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        return EndlessError()


class FalseError(Exception):
    def __bool__(self) -> bool:
        raise SystemExit(4)


class EmptyError(Exception):
    """Has a length, as an error that lists the errors of fields; it is false."""

    def __len__(self) -> int:
        return 0


class Text(str):
    """A text whose methods raise."""

    __slots__ = ()

    def __len__(self) -> int:
        raise SystemExit(5)

    def __getitem__(self, key: Any) -> str:
        raise SystemExit(6)


class SubclassTextError(Exception):
    def __str__(self) -> str:
        return Text("a text")


class MetaclassError(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__module__", "__qualname__", "__name__"):
            raise SystemExit(7)
        return super().__getattribute__(name)


class NamelessError(Exception, metaclass=MetaclassError):
    pass


class ModuleError(Exception):
    __module__ = 17  # type: ignore[assignment]


def named(name: str) -> type[Exception]:
    """Return a class with any text as its qualified name, as libraries give it to generated classes."""
    return type("Generated", (Exception,), {"__qualname__": name})


NullError = named("Null\0Error")
LoneSurrogateError = named("Lone\udcffError")


def chained() -> BaseException:
    """A chain of causes that is longer than any program's."""
    error = ValueError("first")
    for number in range(5_000):
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    return error


def with_false_cause() -> BaseException:
    error = ValueError("its cause is false")
    error.__cause__ = FalseError("false")
    return error


def nested_group() -> BaseException:
    error: Exception = AttributesError("inner")
    for _ in range(50):
        error = ExceptionGroup("group", [error, ValueError("beside")])
    return error


#: What makes each exception, by name.
KINDS: dict[str, Callable[[], BaseException]] = {
    "attributes": AttributesError,
    "text": TextError,
    "class": ClassError,
    "notes": NotesError,
    "slots": SlotsError,
    "endless": EndlessError,
    "false": lambda: FalseError("false"),
    "false cause": with_false_cause,
    "empty": lambda: EmptyError("no fields"),
    "subclass of str": SubclassTextError,
    "nameless": NamelessError,
    "module": ModuleError,
    "null in name": NullError,
    "surrogate in name": LoneSurrogateError,
    "chained": chained,
    "group": nested_group,
    "surrogate": lambda: ValueError("\udcff" * 10),
    "huge": lambda: ValueError("x" * 20_000_000),
    "memory": lambda: MemoryError(),
    "recursion": lambda: RecursionError("deep"),
    "exit": lambda: SystemExit(AttributesError()),
    "interrupt": lambda: KeyboardInterrupt(),
    "generator": lambda: GeneratorExit(),
    "cancelled": lambda: asyncio.CancelledError(),
}


def make(kind: str) -> BaseException:
    """Return a new exception of this kind."""
    return KINDS[kind]()


class RaisingFilter(logging.Filter):
    """Raises for each message about a run, as a filter that needs a request does."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Raise."""
        if hasattr(record, "task_id"):
            raise KeyError("request_id")
        return True
