"""A position in a log file, from which lines are read into batches. Without Redis."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from django_redis_components.aggregation.batches import LogBatch
from django_redis_components.aggregation.log_entry import LogEntry
from django_redis_components.aggregation.log_files import SEGMENT_BYTES, LogFile, Mark

#: Parses a line; None if it is no request.
Parse = Callable[[bytes], LogEntry | None]


class LineCursor:
    """The next line of a file.

    Attributes:
        offset: where it begins, in the uncompressed text.
        is_at_end: whether there is none.
    """

    def __init__(self, log: LogFile, parse: Parse) -> None:
        self.log = log
        self._parse = parse
        self._lines: Iterator[tuple[int, bytes | None]]
        self.offset: int
        self.is_at_end: bool
        self.rewind()

    def start(self, segment: int, mark: Mark | None) -> None:
        """Move to the first line of a segment that was not counted.

        Args:
            mark: how far the segment was counted; None: not at all.
        """
        start = segment * SEGMENT_BYTES
        if mark is not None:
            self._move_to(mark.offset)
        elif self.offset >= start:
            self._move_to(self.offset)  # the text may have been read elsewhere meanwhile
        else:
            self._move_to(start - 1)  # the byte before decides whether a line begins at the start
            self._skip_to(start)

    def rewind(self) -> None:
        """Move to the first line of the file."""
        self._move_to(0)

    def fill(self, batch: LogBatch, stop: int) -> Mark | None:
        """Add the lines that begin before an offset, until the batch is full; return the mark after the last one.

        None if there are no lines.
        """
        offset, parse = self.offset, self._parse
        while offset < stop and not batch.is_full():
            item = next(self._lines, None)
            if item is None:
                self.is_at_end = True
                break
            end, line = item
            batch.add(None if line is None else parse(line), offset)
            offset = end
        if offset == self.offset:
            return None
        self.offset = offset
        return self.log.mark(offset)

    def _move_to(self, offset: int) -> None:
        self._lines, self.offset, self.is_at_end = self.log.lines(offset), offset, False

    def _skip_to(self, offset: int) -> None:
        """Skip the lines that begin before an offset."""
        while self.offset < offset:
            item = next(self._lines, None)
            if item is None:
                self.is_at_end = True
                break
            self.offset = item[0]
