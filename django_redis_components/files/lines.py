"""Lines across blocks."""

from __future__ import annotations

from collections.abc import Iterator

from django_redis_components.files.exceptions import LineTooLong

#: Longest line by default, in bytes.
MAX_LINE_BYTES = 16 * 1024 * 1024


class LineSplitter:
    """Splits blocks at newlines. The last line may lack one.

    Args:
        name: name of the file, for errors.
        offset: byte of the stream at which the first block starts.
        max_line_bytes: longest line.

    Attributes:
        offset: byte after the line that was yielded last.
    """

    def __init__(self, name: str, offset: int, max_line_bytes: int) -> None:
        self._name = name
        self._max_line_bytes = max_line_bytes
        #: The parts of a line whose end is in a later block. Joined once: a sum would copy a long line again and again.
        self._parts: list[bytes] = []
        self._length = 0
        self.offset = offset

    def feed(self, block: bytes) -> Iterator[bytes]:
        """Yield the lines that end in this block, with their newlines.

        Raises:
            LineTooLong: a line is longer than `max_line_bytes`.
        """
        start = 0
        while (end := block.find(b"\n", start) + 1) > 0:
            yield self._complete(block[start:end])
            start = end
        if start < len(block):
            self._keep(block[start:])

    def finish(self) -> Iterator[bytes]:
        """Yield the last line if it has no newline."""
        if self._parts:
            yield self._complete(b"")

    def _complete(self, end: bytes) -> bytes:
        self._keep(end)
        line = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self.offset += len(line)
        self._parts, self._length = [], 0
        return line

    def _keep(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._max_line_bytes:
            raise LineTooLong(self._name, self._max_line_bytes, self.offset)
        self._parts.append(part)
