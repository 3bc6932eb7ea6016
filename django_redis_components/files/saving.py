"""Writing a published file to a local path, so that it appears whole or not at all."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from django_redis_components.core.arguments import check_progress
from django_redis_components.core.keys import digest
from django_redis_components.core.protocol import Flow, LocalIO
from django_redis_components.files.chunk_reader import ChunkReader
from django_redis_components.files.exceptions import ChecksumMismatch, FileUnavailable
from django_redis_components.files.manifest import Manifest

try:
    import fcntl
except ImportError:  # Windows
    _CAN_LOCK = False
else:
    _CAN_LOCK = True

#: Bytes that are read at once of a file that is continued.
BLOCK_BYTES = 1024 * 1024
#: Most bytes of the name of a file, and of what follows it in the name of a part.
MAX_NAME_BYTES, PART_NAME_BYTES = 255, 22
#: Characters that are kept of a name that is too long for a part.
STEM_CHARS = 40
#: What follows the name of a path in that of a part.
_PART_NAME = re.compile(r"\.[0-9a-f]{16}\.part")


class PartFile:
    """The bytes of a file that were written until now, in a file beside its destination.

    Args:
        path: destination.
        manifest: of the file.

    Raises:
        OSError: it cannot be written, or another process writes it.
    """

    def __init__(self, path: str, manifest: Manifest) -> None:
        self._path = Path(path)
        if self._path.is_dir() and not self._path.is_symlink():  # before gigabytes are written that cannot be renamed
            raise IsADirectoryError(errno.EISDIR, "expected the path of a file, not of a directory", path)
        part_id = manifest.id if _CAN_LOCK else secrets.token_hex(8)  # without locks each call writes its own
        self._stem = _part_stem(self._path.name)
        self._part = self._path.with_name(f"{self._stem}.{part_id}.part")
        self._manifest = manifest
        self._digest = hashlib.sha256()
        self._file = self._part.open("a+b")
        if _CAN_LOCK:
            self._lock()
        self._remove_others()
        self._file.seek(0)
        self.size = 0

    def resume(self) -> int:
        """Add the whole chunks that are there to the checksum, cut the rest off, and return their size."""
        chunk_bytes = self._manifest.chunk_bytes
        length = min(os.fstat(self._file.fileno()).st_size, self._manifest.size)
        self.size = length if length == self._manifest.size else length - length % chunk_bytes
        bytes_left = self.size
        while bytes_left > 0 and (block := self._file.read(min(BLOCK_BYTES, bytes_left))):
            self._digest.update(block)
            bytes_left -= len(block)
        self._file.truncate(self.size)
        return self.size

    def _lock(self) -> None:
        """Lock the file until it is closed; the kernel unlocks that of a killed process."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_same = self._part.stat().st_ino == os.fstat(self._file.fileno()).st_ino
        except (BlockingIOError, FileNotFoundError):
            is_same = False
        if not is_same:  # the other process may have renamed it between the two calls
            self._file.close()
            raise BlockingIOError(f"{str(self._part)!r} is being written by another process or thread.")

    def _remove_others(self) -> None:
        """Remove parts of other files for the same path, which expired meanwhile, unless a process writes them."""
        for other in self._part.parent.glob(f"{glob.escape(self._stem)}.*.part"):
            if other == self._part or not _PART_NAME.fullmatch(other.name.removeprefix(self._stem)):
                continue
            with suppress(OSError):
                _remove_unless_open(other)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
        self._digest.update(data)

    def finish(self, channel: str) -> None:
        """Compare the checksum, and rename the file to its destination.

        Raises:
            ChecksumMismatch: the bytes that an earlier process wrote are damaged; they are removed.
        """
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        found = self._digest.hexdigest()
        if found != self._manifest.sha256:
            with suppress(FileNotFoundError):
                self._part.unlink()
            text = f"the SHA-256 of {str(self._part)!r} was {found}; it was removed, so that the next call starts over"
            raise ChecksumMismatch(channel, self._manifest.name, text)
        self._part.replace(self._path)
        _sync_directory(self._path.parent)

    def discard(self) -> None:
        """Close and remove the part: the file cannot be completed."""
        self._file.close()  # first: Windows removes no open file
        with suppress(FileNotFoundError):
            self._part.unlink()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _part_stem(name: str) -> str:
    """Return what the name of a part begins with: the name of the file, or a part of it that fits."""
    encoded = os.fsencode(name)
    if len(encoded) + PART_NAME_BYTES <= MAX_NAME_BYTES:
        return name
    return f"{name[:STEM_CHARS]}-{digest(encoded)}"


def _remove_unless_open(part: Path) -> None:
    """Remove a part.

    Raises:
        OSError: another process writes it. Windows removes no open file.
    """
    if not _CAN_LOCK:
        part.unlink()
        return
    with part.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink()


def _sync_directory(path: Path) -> None:
    """Write a renaming to the disk: a power failure after `done` may undo it otherwise."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows cannot open directories
        return
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def save_flow(
    manifest: Manifest,
    reader_at: Callable[[int], ChunkReader],
    path: str,
    progress: Callable[[int], object] | None,
) -> Flow[None]:
    """Write a file to a path; continue where an earlier call ended."""
    check_progress(progress)
    part: PartFile = yield LocalIO(partial(PartFile, path, manifest))
    try:
        offset = yield LocalIO(part.resume)
        reader = reader_at(offset)
        if offset and progress is not None:
            progress(offset)
        while chunk := (yield from reader.read()):
            yield LocalIO(partial(part.write, chunk))
            if progress is not None:
                progress(len(chunk))
        yield LocalIO(partial(part.finish, reader.channel))
    except FileUnavailable:
        yield LocalIO(part.discard)
        raise
    finally:
        part.close()
