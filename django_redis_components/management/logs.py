"""Log lines of a long-running command go to standard error, unless the site configured them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from django_redis_components.taskqueue.logs import JsonFormatter, TaskFilter, TextFormatter

#: The package's logger.
NAME = "django_redis_components"
_LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}
#: Formats by name.
FORMATS = {"text": TextFormatter, "json": JsonFormatter}


def add_format(parser: CommandParser) -> None:
    """Declare `--log-format`."""
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        help="how log lines look, unless the site has configured its logging (default: text)",
    )


def begin(command: BaseCommand, options: dict[str, Any]) -> Callable[[str], object]:
    """Show the logs as the options of a command say. The value is how the command says something itself."""
    log_format = options["log_format"]
    shown = show(NAME, options["verbosity"], log_format or "text")
    if log_format and not shown:
        command.stderr.write(f"--log-format is not used: the site's LOGGING has handlers for {NAME}.")
    if shown and log_format == "json":
        return logging.getLogger(NAME).info
    return command.stdout.write if options["verbosity"] else _nothing


def _nothing(text: str) -> None:
    """What is said with ``--verbosity 0``: errors only, which others tell."""


def show(name: str, verbosity: int, log_format: str = "text") -> bool:
    """Show what is logged, if no handler stands above the logger. Returns whether that was so.

    What others log, the tasks among them, is shown from WARNING on, as it would be without us.
    """
    logger = logging.getLogger(name)
    if logger.hasHandlers():
        return False
    top = logger
    while top.propagate and top.parent:
        top = top.parent
    handler = logging.StreamHandler()
    handler.setFormatter(FORMATS[log_format]())
    handler.addFilter(TaskFilter())
    handler.addFilter(_is_new)
    top.addHandler(handler)
    logger.setLevel(_LEVELS[verbosity])
    return True


def _is_new(record: logging.LogRecord) -> bool:
    """Whether no other stream shows the record: Django's own logger has one while DEBUG is on."""
    logger: logging.Logger | None = logging.getLogger(record.name)
    while logger is not None and logger.parent is not None and logger.propagate:
        if any(_shows(handler, record) for handler in logger.handlers):
            return False
        logger = logger.parent
    return True


def _shows(handler: logging.Handler, record: logging.LogRecord) -> bool:
    is_stream = isinstance(handler, logging.StreamHandler)
    return is_stream and record.levelno >= handler.level and bool(handler.filter(record))
