"""The loggers of this package. An error in the site's logging never reaches the code that logs.

Filters, formatters and handlers are the site's code. Python's logging lets the errors of a filter through, and those of
a handler too if standard error is closed. Such an error would end a thread, or change the outcome of an operation.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Mapping
from typing import Any

from django_redis_components.core.exception_text import BARE_HEADER, exc_info_of, traceback_text
from django_redis_components.core.exceptions import must_raise

#: Frames between the caller and Python's logger, for the line number of a record.
_STACK_LEVEL = 3


class GuardedLogger:
    """Logs to one of Python's loggers; create it with `guarded_logger`.

    An interruption of the running code is raised, and so is what ends the main thread, such as KeyboardInterrupt.

    Attributes:
        target: the logger of Python.
        isEnabledFor: see `logging.Logger`.
    """

    def __init__(self, name: str) -> None:
        self.target = logging.getLogger(name)
        self.isEnabledFor = self.target.isEnabledFor

    def debug(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.debug`."""
        if self.isEnabledFor(logging.DEBUG):
            self._log(logging.DEBUG, message, args, options)

    def info(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.info`."""
        if self.isEnabledFor(logging.INFO):
            self._log(logging.INFO, message, args, options)

    def warning(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.warning`."""
        self._log(logging.WARNING, message, args, options)

    def error(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.error`."""
        self._log(logging.ERROR, message, args, options)

    def exception(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.exception`, and `log_exception`."""
        self._log(logging.ERROR, *_with_traceback(sys.exc_info()[1], message, args, options))

    def log_exception(
        self, exc: BaseException, message: str, *args: object, level: int = logging.ERROR, **options: Any
    ) -> None:
        """Log a message with the traceback of an exception; without source lines if that cannot be formatted."""
        self._log(level, *_with_traceback(exc, message, args, options))

    def log(self, level: int, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.log`."""
        self._log(level, message, args, options)

    def _log(self, level: int, message: str, args: tuple[object, ...], options: Mapping[str, Any]) -> None:
        try:
            self.target.log(level, message, *args, stacklevel=_STACK_LEVEL, **options)
        except BaseException as exc:
            if must_raise(exc):
                raise
            _report(exc, message)


def guarded_logger(name: str) -> GuardedLogger:
    """Return the logger of a component or module."""
    return GuardedLogger(name)


def _with_traceback(
    exc: BaseException | None, message: str, args: tuple[object, ...], options: dict[str, Any]
) -> tuple[str, tuple[object, ...], dict[str, Any]]:
    """Return the arguments of `GuardedLogger._log` for a message with the traceback of an exception."""
    text = "" if exc is None else traceback_text(exc)
    if text.startswith(BARE_HEADER):  # Python's logging would lose the message
        return f"{message}\n%s", (*args, text), options
    return message, args, {"exc_info": None if exc is None else exc_info_of(exc)} | options


def _report(exc: BaseException, message: str) -> None:
    """Write that a message was lost to standard error, as Python's logging does."""
    with contextlib.suppress(BaseException):
        sys.stderr.write(f"The logging of the site raised {type(exc).__name__}; a message was lost: {message}\n")
