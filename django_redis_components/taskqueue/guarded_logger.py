"""The logger of the task queue. An error in the site's logging never reaches the code that logs.

Filters, formatters and handlers are the site's code. Python's logging lets the errors of a filter through, and those of
a handler too if standard error is closed. In a worker such an error would end a thread or change a task's outcome.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Mapping
from typing import Any

from django_redis_components.core.exceptions import Interruption
from django_redis_components.taskqueue.exceptions import TaskCancelled

#: Frames between the caller and Python's logger, for the line number of a record.
_STACK_LEVEL = 3


class GuardedLogger:
    """Logs to the logger `django_redis_components.taskqueue`.

    An interruption of the running task is raised, and so is what ends the main thread, such as KeyboardInterrupt.

    Attributes:
        isEnabledFor: see `logging.Logger`.
    """

    def __init__(self) -> None:
        self._logger = logging.getLogger("django_redis_components.taskqueue")
        self.isEnabledFor = self._logger.isEnabledFor

    def debug(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.debug`."""
        self._log(logging.DEBUG, message, args, options)

    def info(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.info`."""
        self._log(logging.INFO, message, args, options)

    def warning(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.warning`."""
        self._log(logging.WARNING, message, args, options)

    def error(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.error`."""
        self._log(logging.ERROR, message, args, options)

    def exception(self, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.exception`."""
        self._log(logging.ERROR, message, args, {"exc_info": True} | options)

    def log(self, level: int, message: str, *args: object, **options: Any) -> None:
        """See `logging.Logger.log`."""
        self._log(level, message, args, options)

    def _log(self, level: int, message: str, args: tuple[object, ...], options: Mapping[str, Any]) -> None:
        try:
            self._logger.log(level, message, *args, stacklevel=_STACK_LEVEL, **options)
        except BaseException as exc:
            if _must_raise(exc):
                raise
            _report(exc, message)


def _must_raise(exc: BaseException) -> bool:
    """Return whether an exception in the site's logging concerns the code that logs.

    The class is examined, not the instance, whose `__class__` may be the site's code.
    """
    kind = type(exc)
    if issubclass(kind, Interruption | TaskCancelled):
        return True
    return not issubclass(kind, Exception) and threading.current_thread() is threading.main_thread()


def _report(exc: BaseException, message: str) -> None:
    """Write that a message was lost to standard error, as Python's logging does."""
    with contextlib.suppress(BaseException):
        sys.stderr.write(f"The logging of the site raised {type(exc).__name__}; a message was lost: {message}\n")


#: The logger of all modules of the task queue.
logger = GuardedLogger()
