"""Write the logs of a long-running command to standard error, unless the site has configured its logging."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils.termcolors import colorize

from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.taskqueue import log_handler
from django_redis_components.taskqueue.log_handler import WorkerLogHandler
from django_redis_components.taskqueue.logs import JsonFormatter, TaskFilter, TextFormatter
from django_redis_components.taskqueue.states import Outcome
from django_redis_components.taskqueue.store.job import Job

#: The package's logger.
NAME = "django_redis_components"
_LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}
#: Formatters by the name of the format.
FORMATS = {"text": TextFormatter, "json": JsonFormatter}
#: Colors by the outcome of a task, and by the level of other messages.
_OUTCOME_COLORS: dict[str, str] = {Outcome.succeeded: "green", Outcome.retried: "yellow", Outcome.failed: "red"}
_LEVEL_COLORS = ((logging.ERROR, "red"), (logging.WARNING, "yellow"))


class ColorFormatter(TextFormatter):
    """One line of text, in color for warnings, errors and the outcomes of tasks."""

    _success_start_color, _, _success_end_color = colorize("\n", fg=_OUTCOME_COLORS[Outcome.succeeded]).partition("\n")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        """See `logging.Formatter`."""
        text = super().formatMessage(record)
        color = _OUTCOME_COLORS.get(getattr(record, "outcome", "")) or next(
            (name for level, name in _LEVEL_COLORS if record.levelno >= level), None
        )
        return colorize(text, fg=color) if color else text

    def format_success(self, job: Job, seconds: float, created_ms: int) -> str:
        """See `TextFormatter.format_success`."""
        text = super().format_success(job, seconds, created_ms)
        return f"{self._success_start_color}{text[:-1]}{self._success_end_color}\n"


def add_format(parser: CommandParser) -> None:
    """Declare `--log-format`."""
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        help="format of log lines: text, in color on a terminal unless NO_COLOR is set, or json, one object per line."
        " Ignored if LOGGING of the site has handlers (default: text)",
    )


def configure(command: BaseCommand, options: dict[str, Any]) -> Callable[[str], object]:
    """Configure logging as the options say; return the function that logs the command's own messages."""
    log_format = options["log_format"]
    color = has_color(sys.stderr, no_color=options["no_color"], force_color=options["force_color"])
    is_shown = show_logs(NAME, options["verbosity"], log_format or "text", color=color)
    if log_format and not is_shown:
        command.stderr.write(f"--log-format is ignored: LOGGING has handlers for {NAME}.")
    if is_shown and log_format == "json":
        return guarded_logger(NAME).info
    return command.stdout.write if options["verbosity"] else _discard


def has_color(stream: Any, *, no_color: bool = False, force_color: bool = False) -> bool:
    """Return whether text for this stream is colored: on a terminal, unless NO_COLOR is set (see no-color.org)."""
    if no_color or force_color:
        return force_color
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _discard(text: str) -> None:
    """Discard a message: ``--verbosity 0`` shows errors only."""


def show_logs(name: str, verbosity: int, log_format: str = "text", *, color: bool = False) -> bool:
    """Write a logger's messages to standard error, unless it has a handler; return whether it does so now.

    Messages of other loggers, including those of tasks, are written from WARNING on, as Python does by default.
    """
    logger = logging.getLogger(name)
    if logger.hasHandlers():
        return False
    top = logger
    while top.propagate and top.parent:
        top = top.parent
    handler = WorkerLogHandler()
    handler.setFormatter(ColorFormatter() if color and log_format == "text" else FORMATS[log_format]())
    handler.addFilter(TaskFilter())
    handler.addFilter(_is_not_written_yet)
    top.addHandler(handler)
    log_handler.installed = handler
    logger.setLevel(_LEVELS[verbosity])
    return True


def _is_not_written_yet(record: logging.LogRecord) -> bool:
    """Return whether no other stream handler writes the record: Django's own logger has one while DEBUG is on."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None and logger.propagate:
        if any(_writes(handler, record) for handler in logger.handlers):
            return False
        logger = logger.parent
    return True


def _writes(handler: logging.Handler, record: logging.LogRecord) -> bool:
    is_stream = isinstance(handler, logging.StreamHandler)
    return is_stream and record.levelno >= handler.level and bool(handler.filter(record))
