"""Log files: their identity, and their lines in batches that can be resumed. Without Redis.

A file is divided into segments of 16 MiB of its uncompressed text. A line belongs to the segment in which it begins, so
several processes can read one file, and each segment has its own mark of how far it was counted.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, Self

#: Bytes of a segment. Part of what the marks of counted files mean: must not be changed.
SEGMENT_BYTES = 16 * 1024 * 1024
#: Bytes that are read at once.
BLOCK_BYTES = 1024 * 1024
#: Most bytes of a line; longer ones are counted as bad.
MAX_LINE_BYTES = 65_536
#: First bytes of a gzip file.
GZIP_MAGIC = b"\x1f\x8b"


class Mark(NamedTuple):
    """How far a segment was counted.

    Attributes:
        offset: after the last line that was counted, in the uncompressed text.
        length, digest: of that line, to recognize a copy of the file.
        token: of the call that stored the mark.
    """

    offset: int
    length: int
    digest: str
    token: str = ""

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """Return the mark of a stored text."""
        offset, length, digest, token = text.decode().split(" ")
        return cls(int(offset), int(length), digest, token)

    def encode(self) -> str:
        """Return the text that is stored."""
        return f"{self.offset} {self.length} {self.digest} {self.token}"


class LogFile:
    """An open log file, also one compressed with gzip, of several members.

    It stays the same file while it is renamed.

    Raises:
        OSError: it cannot be read.

    Attributes:
        is_gzip: whether it is compressed.
        first: hash of the first line; "" if there is no complete line yet.
        id: hash of the first line, and the inode.
        error: why the rest cannot be read; "" if it can.
        incomplete: bytes after the last newline, which are not counted yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._raw: IO[bytes] = self.path.open("rb")
        self.is_gzip = self._raw.read(2) == GZIP_MAGIC
        self.inode = os.fstat(self._raw.fileno()).st_ino
        self.error = ""
        self.incomplete = 0
        self._text = self._open()
        first = next(self.lines(0), None)
        self.first = "" if first is None else _digest(first[1] or b"")
        self.id = f"{self.first}-{self.inode:x}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._raw.close()

    @property
    def size(self) -> int:
        """The present size in bytes, as stored. A log grows while it is read."""
        return os.fstat(self._raw.fileno()).st_size

    def position(self) -> int:
        """Return how far the file was read, in bytes as stored."""
        return self._raw.tell()

    def segments(self) -> int:
        """Return the number of segments; that of a compressed file is not known, and 1 if it has any bytes."""
        return min(1, self.size) if self.is_gzip else -(-self.size // SEGMENT_BYTES)

    def has(self, mark: Mark) -> bool:
        """Return whether the line that a mark ends with is in this file, at its place."""
        if mark.length > MAX_LINE_BYTES:
            return False
        try:
            self._seek(mark.offset - mark.length)
            line = self._text.read(mark.length)
        except (OSError, EOFError, zlib.error):
            return False
        return len(line) == mark.length and _digest(line.rstrip(b"\n")) == mark.digest

    def lines(self, offset: int) -> Iterator[tuple[int, bytes | None]]:
        """Yield the lines from an offset: the offset after each, and its text; None for one that is too long.

        The rest after the last newline is yielded only of a compressed file, which does not grow.
        """
        self.error, self.incomplete = "", 0
        head, skipped = b"", 0
        for block in self._blocks(offset):
            first, newline, others = block.partition(b"\n")
            if not newline:
                skipped, head = (skipped, head + block) if not skipped else (skipped + len(block), b"")
                if len(head) > MAX_LINE_BYTES:
                    skipped, head = len(head), b""
                continue
            length = skipped + len(head) + len(first) + 1
            offset += length
            yield offset, None if length > MAX_LINE_BYTES else head + first
            *lines, head = others.split(b"\n")
            skipped = 0
            for line in lines:
                offset += len(line) + 1
                yield offset, line if len(line) < MAX_LINE_BYTES else None
        length = skipped + len(head)
        if length and self.is_gzip and not self.error:
            yield offset + length, None if length > MAX_LINE_BYTES else head
        else:
            self.incomplete = length

    def _blocks(self, offset: int) -> Iterator[bytes]:
        try:
            self._seek(offset)
            while block := self._text.read(BLOCK_BYTES):
                yield block
        except (EOFError, gzip.BadGzipFile, zlib.error) as exc:
            self.error = str(exc)

    def _seek(self, offset: int) -> None:
        if self.is_gzip and offset < self._text.tell():
            self._text = self._open()
        self._text.seek(offset)

    def _open(self) -> IO[bytes]:
        self._raw.seek(0)
        return gzip.GzipFile(fileobj=self._raw) if self.is_gzip else self._raw  # type: ignore[return-value]


def line_mark(offset: int, length: int, line: bytes | None) -> Mark:
    """Return the mark after a line.

    Args:
        length: of the line with its newline.
        line: its text; None if it is too long.
    """
    return Mark(offset, length, "-" if line is None else _digest(line))


def _digest(line: bytes) -> str:
    return hashlib.blake2b(line, digest_size=8).hexdigest()


#: Called with the growth of the position in a file, in bytes.
OnRead = Callable[[int], object]
