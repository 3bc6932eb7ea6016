"""Opening files that must be regular ones: to open a pipe waits for its writer, and to read it may never end."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_regular_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to read its bytes, without waiting.

    Raises:
        IsADirectoryError: it is a directory.
        OSError: it cannot be opened, or is a pipe, a socket or a device, such as a link to ``/dev/stdout``.
    """
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - the caller closes it; Path.open has no opener
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file, but a pipe or a device", os.fspath(path))


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
