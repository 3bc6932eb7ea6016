"""The uncompressed text of a log file, in blocks, with a window of what was read last. Without Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from django_redis_components.aggregation.exceptions import LogDamaged
from django_redis_components.core.decompression import Decompressor

#: Bytes that are read at once of a file that is not compressed, and of a compressed one.
BLOCK_BYTES, COMPRESSED_BLOCK_BYTES = 1024 * 1024, 64 * 1024
#: Bytes before the present block that are kept, from which marks are made.
WINDOW_BYTES = 4_096


class LogText:
    """The text of an open file, from any offset.

    To go back in a compressed file beyond the window means to read it from its start.

    Args:
        raw: the file.
        codec: "gzip", "bzip2", "xz", "zstd", or "" for a file that is not compressed.
    """

    def __init__(self, raw: IO[bytes], codec: str) -> None:
        self._raw = raw
        self._codec = codec
        #: Offset of the next byte that `read` returns.
        self._at = 0
        #: Text that is kept, and where it begins.
        self._window: bytes = b""
        self._start = 0
        self._restart(0)

    def seek(self, offset: int) -> None:
        """Have the next call of `read` return the text from an offset."""
        self._at = offset
        if not self._codec:
            if not self._start <= offset <= self._end:
                self._restart(offset)
        elif offset < self._start:
            self._restart(0)

    def read(self) -> bytes:
        """Return the next bytes; b"" at the end.

        Raises:
            LogDamaged: the rest of the file cannot be decompressed. What comes before was returned.
        """
        while self._at >= self._end:
            if not (block := self._next()):
                return b""
            kept = self._window[-WINDOW_BYTES:]
            self._start, self._window = self._end - len(kept), kept + block
        data, self._at = self._window[self._at - self._start :], self._end
        return data

    def read_at(self, offset: int, length: int) -> bytes:
        """Return the text at an offset; less at the end. See `read`."""
        self.seek(offset)
        parts, bytes_left = [], length
        while bytes_left > 0 and (part := self.read()):
            parts.append(part[:bytes_left])
            bytes_left -= len(part)
        return b"".join(parts)

    def tail(self, offset: int) -> bytes:
        """Return the text before an offset, up to the size of the window; less if that would need another read."""
        at = offset - self._start
        if at < 0:  # a line without an end filled the blocks since
            start = max(0, offset - WINDOW_BYTES)
            return self.read_at(start, offset - start)
        return self._window[max(0, at - WINDOW_BYTES) : at]

    @property
    def _end(self) -> int:
        return self._start + len(self._window)

    def _restart(self, offset: int) -> None:
        self._raw.seek(offset)
        self._start, self._window = offset, b""
        self._damage: LogDamaged | None = None
        self._blocks = self._decompressed()

    def _next(self) -> bytes:
        if not self._codec:
            return self._raw.read(BLOCK_BYTES)
        if self._damage is not None:
            raise self._damage
        try:
            return next(self._blocks, b"")
        except LogDamaged as exc:
            self._damage = exc
            raise

    def _decompressed(self) -> Iterator[bytes]:
        decompressor = Decompressor(self._codec, LogDamaged)
        while data := self._raw.read(COMPRESSED_BLOCK_BYTES):
            yield from decompressor.feed(data)
        decompressor.finish()
