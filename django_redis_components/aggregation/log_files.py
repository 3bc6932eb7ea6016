"""Log files: their identity, and their lines in batches that can be resumed. Without Redis.

A file is divided into segments of 16 MiB of its uncompressed text. A line belongs to the segment in which it begins, so
several processes can read one file, and each segment has its own mark of how far it was counted.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, Self

from django_redis_components.aggregation.exceptions import LogDamaged
from django_redis_components.aggregation.log_text import WINDOW_BYTES, LogText
from django_redis_components.core.decompression import MAGIC_BYTES, detect_codec
from django_redis_components.core.regular_files import open_regular_file

#: Bytes of a segment. Part of what the marks of counted files mean: must not be changed.
SEGMENT_BYTES = 16 * 1024 * 1024
#: Most bytes of a line; longer ones are counted as bad.
MAX_LINE_BYTES = 65_536
#: First lines of a file that identify it, and characters of the digest of each.
HEAD_LINES, HEAD_CHARS = 16, 8


class Mark(NamedTuple):
    """How far a segment was counted.

    Attributes:
        offset: after the last line that was counted, in the uncompressed text.
        length, digest: of the text before it, up to 4 KiB, by which the file and a copy of it are recognized.
        token: of the call that stored the mark.
    """

    offset: int
    length: int
    digest: str
    token: str = ""

    @classmethod
    def decode(cls, stored: bytes) -> Self:
        """Return the mark of a stored text."""
        offset, length, digest, token = stored.decode().split(" ")
        return cls(int(offset), int(length), digest, token)

    def encode(self) -> str:
        """Return the text that is stored."""
        return f"{self.offset} {self.length} {self.digest} {self.token}"

    @property
    def is_short(self) -> bool:
        """Whether it covers so little text that another file may begin in the same way."""
        return self.length < WINDOW_BYTES


class LogFile:
    """An open log file, also one compressed with gzip, bzip2, xz or zstd, of several members.

    It stays the same file while it is renamed.

    Raises:
        OSError: it cannot be read, or is a pipe or a device.
        ImportError: it is compressed with zstd, and the package for it is not installed.

    Attributes:
        codec: "gzip", "bzip2", "xz", "zstd", or "".
        first: hash of the first line; "" if there is no complete line yet.
        head: hashes of the first lines, one after the other.
        id: hash of the first line, and the inode.
        error: why the rest cannot be read; "" if it can.
        incomplete: bytes after the last newline, which are not counted yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._raw: IO[bytes] = open_regular_file(self.path)
        try:
            self.codec = detect_codec(self._raw.read(MAGIC_BYTES))
            self.inode = os.fstat(self._raw.fileno()).st_ino
            self.error = ""
            self.incomplete = 0
            self._content = LogText(self._raw, self.codec)
            head = [_digest(line or b"") for _, line in islice(self.lines(0), HEAD_LINES)]
        except BaseException:
            self._raw.close()
            raise
        self.first = head[0] if head else ""
        self.head = "".join(each[:HEAD_CHARS] for each in head)
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
        return min(1, self.size) if self.codec else -(-self.size // SEGMENT_BYTES)

    def begins_like(self, head: str) -> bool:
        """Return whether the first lines are those of another file, as far as both have them."""
        length = min(len(head), len(self.head))
        return head[:length] == self.head[:length]

    def has(self, mark: Mark) -> bool:
        """Return whether the text before a mark is in this file, at its place."""
        if not self.codec and mark.offset > self.size:
            return False
        try:
            text = self._content.read_at(mark.offset - mark.length, mark.length)
        except LogDamaged as exc:
            self.error = str(exc)
            return False
        return len(text) == mark.length and _digest(text) == mark.digest

    def ends_at(self, offset: int) -> bool:
        """Return whether there is no line after an offset."""
        return next(self.lines(offset), None) is None

    def line_at(self, offset: int) -> bytes:
        """Return the line at an offset, without null bytes before it, and of one that is too long the start.

        See `has` for damaged files.
        """
        try:
            return self._content.read_at(offset, MAX_LINE_BYTES).lstrip(b"\0").partition(b"\n")[0]
        except LogDamaged as exc:
            self.error = str(exc)
            return b""

    def mark(self, offset: int) -> Mark:
        """Return the mark of an offset after the line that was read last."""
        text = self._content.tail(offset)
        return Mark(offset, len(text), _digest(text))

    def lines(self, offset: int) -> Iterator[tuple[int, bytes | None]]:
        """Yield the lines from an offset: the offset after each, and its text; None for one that is too long.

        Null bytes before a line are left out: a log that is truncated while a server writes to it, as by logrotate's
        copytruncate, begins with as many of them as it had bytes, and one may have some after a crash. The rest
        after the last newline is yielded only of a compressed file, which does not grow.
        """
        self.error, self.incomplete = "", 0
        head: bytes | None = b""
        length = 0
        for block in self._blocks(offset):
            first, newline, others = block.partition(b"\n")
            if not newline:
                length += len(block)
                head = _grown(head, block)
                continue
            offset += length + len(first) + 1
            yield offset, _grown(head, first)
            *lines, rest = others.split(b"\n")
            has_nulls = b"\0" in others
            for line in lines:
                offset += len(line) + 1
                yield offset, _grown(b"", line) if has_nulls or len(line) >= MAX_LINE_BYTES else line
            length, head = len(rest), _grown(b"", rest)
        if not self.codec or self.error:
            self.incomplete = length
        elif head != b"":  # else there are null bytes only
            yield offset + length, head

    def _blocks(self, offset: int) -> Iterator[bytes]:
        self._content.seek(offset)
        try:
            while block := self._content.read():
                yield block
        except LogDamaged as exc:
            self.error = str(exc)


def _grown(head: bytes | None, part: bytes) -> bytes | None:
    """Return a line that goes on, without null bytes before it; None if it is too long."""
    if head is None:
        return None
    line = head + part if head else part.lstrip(b"\0")
    return line if len(line) < MAX_LINE_BYTES else None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
