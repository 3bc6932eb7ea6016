"""Messages and tracebacks of errors as text: masked by the site's function, and cut."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence

from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from django_redis_components.core.exceptions import must_raise
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.taskqueue import ErrorGroup

logger = guarded_logger("django_redis_components.dashboard")

#: A line of a traceback that names a frame; the location of a syntax error is no call. Within a group of exceptions,
#: lines have a border.
_FRAME = re.compile(r'(?P<indent>[ |]*)File ".*", line \d+(?P<call>, in )?')
_BORDER = " |+-"
#: In such a line: an installed package, the standard library, or the worker of this package.
_LIBRARY = re.compile(
    r"[/\\](?:site-packages|dist-packages|lib[/\\]python[\d.]*t?|django_redis_components[/\\](?:core|taskqueue))[/\\]"
    r"|<frozen "
)
#: Characters of the text of an error in a list.
LIST_LENGTH = 160


@dataclasses.dataclass(frozen=True, slots=True)
class TracebackPart:
    """Lines of a traceback, each with whether it is where it failed.

    Attributes:
        frames: how many frames of libraries the lines are, and nothing else; 0: they are not folded.
    """

    lines: list[tuple[str, bool]]
    frames: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Frame:
    """A frame of a traceback: the numbers of its lines."""

    lines: range
    is_library: bool


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


def traceback_parts(text: str) -> list[TracebackPart]:
    """Return a traceback in parts, in order: frames of libraries fold between those of the site.

    The exception, and the line of code of the site's last frame (of the last one if all are of libraries), are where it
    failed. A stack without an exception has no such lines.
    """
    lines = text.rstrip("\n").split("\n")
    frames = list(_frames(lines))
    own = [frame for frame in frames if not frame.is_library]
    folded = {number for frame in frames if own and frame.is_library for number in frame.lines}
    failed = set()
    exception = max((index for index, line in enumerate(lines) if line.strip(_BORDER)), default=0)
    if not any(exception in frame.lines for frame in frames):
        failed = {exception, *(min(frame.lines.start + 1, frame.lines.stop - 1) for frame in (own or frames)[-1:])}
    starts = {frame.lines.start for frame in frames} & folded
    return [
        TracebackPart([(lines[number], number in failed) for number in numbers], len(starts.intersection(numbers)))
        for _, group in itertools.groupby(range(len(lines)), key=folded.__contains__)
        for numbers in [list(group)]
    ]


def _frames(lines: Sequence[str]) -> Iterator[_Frame]:
    """Yield the frames, each with the lines below that are indented more than its first one."""
    for start, line in enumerate(lines):
        found = _FRAME.match(line)
        if not found:
            continue
        code, repeated = f"{found['indent']}  ", f"{found['indent']}[Previous line repeated "
        stop = start + 1
        while stop < len(lines) and lines[stop].startswith((code, repeated)) and not _FRAME.match(lines[stop]):
            stop += 1
        yield _Frame(range(start, stop), bool(found["call"] and _LIBRARY.search(line)))
