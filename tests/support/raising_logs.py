"""A site whose logging raises: a filter on the handlers of the root logger, and on the loggers of the package."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

PACKAGE = "django_redis_components"


class _RaisingFilter(logging.Filter):
    """Keeps the formats of the messages, and raises."""

    def __init__(self, name: str, error: type[BaseException]) -> None:
        super().__init__(name)
        self.error = error
        self.messages: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        if super().filter(record):
            self.messages.append(record.msg)
            raise self.error("request_id")
        return True


@contextlib.contextmanager
def raising_logs(error: type[BaseException] = KeyError, name: str = PACKAGE) -> Iterator[list[str]]:
    """Let the filter raise during the block. Yield the formats of the messages that it has seen.

    Args:
        name: the logger whose messages it raises for, with those below it; "" for all, Django's too.
    """
    raising = _RaisingFilter(name, error)
    loggers = [logging.getLogger(each) for each in logging.root.manager.loggerDict if each.startswith(PACKAGE)]
    filtered: list[logging.Filterer] = [*logging.root.handlers, *loggers]
    for each in filtered:
        each.addFilter(raising)
    try:
        yield raising.messages
    finally:
        for each in filtered:
            each.removeFilter(raising)
