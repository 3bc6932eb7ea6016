"""Messages and tracebacks of errors as text: masked by the site's function, and cut."""

from __future__ import annotations

import re

from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from django_redis_components.core.exceptions import must_raise
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.taskqueue import ErrorGroup

logger = guarded_logger("django_redis_components.dashboard")

#: A line of a traceback that names a frame, and one whose frame is that of a library or of Python.
_FRAME = re.compile(r'\s*File ".*", line \d+')
_LIBRARY = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python[\d.]*)[/\\]|<frozen ")
#: Characters of the text of an error in a list.
LIST_LENGTH = 160


def is_masked() -> bool:
    """Return whether the site masks errors."""
    return conf.settings().dashboard.mask_error is not None


def masked_error(message: str) -> str:
    """Return a message or a traceback as the function ``DASHBOARD["MASK_ERROR"]`` returns it; as it is without one.

    Lone surrogates are escaped: in an error they are bytes of a file name that is not UTF-8.
    """
    message, path = encodable(message), conf.settings().dashboard.mask_error
    if path is None or not message:
        return message
    try:
        return encodable(str(import_string(path)(message)))
    except BaseException as exc:
        if must_raise(exc):
            raise
        logger.exception("%s failed, so an error is not shown.", path)
        return _("Hidden: MASK_ERROR failed.")


def error_line(message: str) -> str:
    """Return the first line of a message, masked and cut."""
    line = masked_error(message).strip().partition("\n")[0]
    return line if len(line) <= LIST_LENGTH else f"{line[: LIST_LENGTH - 1]}…"


def group_line(group: ErrorGroup) -> str:
    """Return the message of a group's sample in one line; without a sample the message without its variable parts."""
    return error_line(group.sample.message if group.sample else group.message)


def traceback_lines(text: str) -> list[tuple[str, bool]]:
    """Return the lines of a traceback, and whether each is where it failed.

    These are the line of code of the site's last frame (of the last one if all are of libraries), and the exception.
    """
    lines = text.rstrip("\n").split("\n")
    frames = [at for at, line in enumerate(lines[:-1]) if _FRAME.match(line)]
    own = [at for at in frames if not _LIBRARY.search(lines[at])]
    failed = {len(lines) - 1, *(at + 1 for at in (own or frames)[-1:])}
    return [(line, at in failed) for at, line in enumerate(lines)]
