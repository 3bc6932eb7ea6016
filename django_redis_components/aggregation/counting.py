"""Counting a log file: where to continue, and the batches that are counted and marked in one step."""

from __future__ import annotations

import dataclasses
import os
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from django_redis_components.aggregation.batches import (
    MAX_EXAMPLES,
    EntryKey,
    LogBatch,
    PlaceKey,
    flat,
    texts_of,
)
from django_redis_components.aggregation.cursor import LineCursor, Parse
from django_redis_components.aggregation.exceptions import KeyMismatch, LogFileChanged
from django_redis_components.aggregation.identity import FileIdentity, identify
from django_redis_components.aggregation.log_files import SEGMENT_BYTES, LogFile, Mark
from django_redis_components.aggregation.log_lines import parse_line
from django_redis_components.aggregation.other_formats import OTHER_READ, name_of_format
from django_redis_components.aggregation.scripts import FLUSH
from django_redis_components.core.protocol import Batch, Flow, LocalIO, Read
from django_redis_components.core.settings import conf
from django_redis_components.core.units import to_ms


@dataclasses.dataclass(slots=True)
class FileReport:
    """What a call has counted of a file.

    Attributes:
        lines, bad: number of lines that were counted now, and of those that are no requests, or lack the address that
            the key needs.
        unknown: those of `lines` whose address has no place, if places are counted. They are all if a log has the
            addresses of a proxy.
        uncounted: lines that were not counted because most of them are bad, and no others of the file were counted
            before: the format may be wrong.
        looks_like: name of the format that these lines seem to have; "" if it is not known.
        examples: offsets of the first bad lines, in the uncompressed text.
        incomplete: bytes of a last line without a newline, which is counted once it is complete.
        error: why the rest of the file cannot be read; "" if it can.
    """

    path: str
    lines: int = 0
    bad: int = 0
    unknown: int = 0
    uncounted: int = 0
    looks_like: str = ""
    examples: list[int] = dataclasses.field(default_factory=list)
    incomplete: int = 0
    error: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class CountOptions:
    """How an aggregator counts a file.

    Attributes:
        aggregator: its name.
        base: prefix of its keys.
        key_name: of the key function.
        accept_bad: whether to count a file of which most lines are no requests.
    """

    aggregator: str
    base: str
    key: EntryKey
    key_name: str
    max_keys: int
    parse: Parse
    accept_bad: bool
    progress: Callable[[int], object] | None


class FileCounter:
    """Counts the lines of an open file that were not counted before."""

    def __init__(self, log: LogFile, options: CountOptions) -> None:
        self._log = log
        self._options = options
        self._cursor = LineCursor(log, options.parse)
        self._report = FileReport(str(log.path))
        #: Position in the file that was reported last.
        self._position = 0

    def flow(self, segment: int | None) -> Flow[FileReport]:
        """Count the file, or one of its segments. See `LogAggregator.add_file`."""
        log, report = self._log, self._report
        yield from self._check_key()
        if log.first:
            identity: FileIdentity = yield from identify(self._options.base, log)
            self._is_proven = identity.is_proven or self._options.accept_bad
            numbers = [segment] if segment is not None else count() if log.codec else range(log.segments())
            for number in numbers:
                if not log.codec:
                    self._position = max(self._position, number * SEGMENT_BYTES)
                yield from self._count_segment(identity, number)
                if self._cursor.is_at_end or report.uncounted:
                    break
        report.error, report.incomplete = log.error, log.incomplete
        return report

    def _check_key(self) -> Flow[None]:
        """Refuse another key function also if all lines are marked as counted, so that no batch would tell."""
        options = self._options
        stored = yield Read("GET", f"{options.base}:key")
        if stored is not None and stored.decode() != options.key_name:
            raise KeyMismatch(options.aggregator, options.key_name, stored.decode())

    def _count_segment(self, identity: FileIdentity, segment: int) -> Flow[None]:
        log, cursor, report = self._log, self._cursor, self._report
        mark: Mark | None = yield from self._resume(identity, segment)
        while True:
            if mark is not None and not log.codec and mark.offset > (size := log.size):
                raise LogFileChanged(str(log.path), mark.offset, size)
            batch = LogBatch(self._options.key)
            last = yield LocalIO(partial(cursor.fill, batch, (segment + 1) * SEGMENT_BYTES))
            if last is None:
                return
            if not self._is_proven and batch.bad > batch.lines:
                _add_uncounted(report, batch)
                report.looks_like = yield LocalIO(partial(self._format_of, report.examples))
                return
            last = last._replace(token=secrets.token_hex(4))
            is_counted = yield from self._flush(identity, segment, mark, last, batch)
            if is_counted:
                self._is_proven, mark = True, last
                _add(report, batch)
            else:  # another process has counted a batch of the segment
                cursor.rewind()
                mark = yield from self._resume(identity, segment)
            self._report_position()

    def _resume(self, identity: FileIdentity, segment: int) -> Flow[Mark | None]:
        """Move to the first line that was not counted, of this file or of one that it is a copy of; return its mark."""
        log = self._log
        files = [identity.id, *identity.family]
        while True:
            replies = yield Batch(
                [Read("HGET", f"{self._options.base}:file:{each}", f"mark:{segment}") for each in files]
            )
            own, *others = [None if reply is None else Mark.decode(reply) for reply in replies]
            best = yield LocalIO(partial(_furthest, log, [own, *others]))
            if own is not None and (best is None or best.offset < own.offset) and not log.error:
                raise LogFileChanged(str(log.path), own.offset, log.size)
            if best is None or (own is not None and best.offset <= own.offset):
                break
            # The lines up to there were counted of a copy: mark them here too.
            token = secrets.token_hex(4)
            yield from self._flush(identity, segment, own, best._replace(token=token), LogBatch(self._options.key))
        yield LocalIO(partial(self._cursor.start, segment, own))
        self._report_position()
        return own

    def _format_of(self, offsets: Sequence[int]) -> str:
        """Return the name of the format that one of some lines seems to have; "" if it is not known."""
        for line in (self._log.line_at(offset) for offset in offsets):
            if self._options.parse(line) is not None:
                continue  # it lacks an address
            if name := OTHER_READ if parse_line(line) else name_of_format(line):
                return name
        return ""

    def _report_position(self) -> None:
        """Report how far the file was read, skipped lines included."""
        position = self._log.position() if self._log.codec else self._cursor.offset
        if self._options.progress is not None:
            self._options.progress(max(0, position - self._position))
        self._position = max(self._position, position)

    def _flush(
        self, identity: FileIdentity, segment: int, before: Mark | None, mark: Mark, batch: LogBatch
    ) -> Flow[bool]:
        """Count and mark a batch; return whether the segment was counted up to it before."""
        options, log = self._options, self._log
        if isinstance(options.key, PlaceKey):
            batch.place((yield from texts_of(options.key, (address for _, address in batch.addresses))))
        reply: int | bytes = yield FLUSH(
            base=options.base,
            file=identity.id,
            first=log.first,
            head=log.head,
            name=os.fsencode(log.path),  # it may be no text in UTF-8
            key_name=options.key_name,
            segment=segment,
            before="" if before is None else before.offset,
            mark=mark.encode(),
            lines=batch.lines,
            bad=batch.bad,
            max_keys=options.max_keys,
            ttl_ms=to_ms(conf.settings().aggregation.ttl_s, "ttl_s"),
            counts=flat(batch),
        )
        if isinstance(reply, bytes):
            raise KeyMismatch(options.aggregator, options.key_name, reply.decode())
        return bool(reply)


def _furthest(log: LogFile, marks: Sequence[Mark | None]) -> Mark | None:
    """Return the last of the marks up to which a file has the text that was counted."""
    best = None
    for mark in sorted({each for each in marks if each is not None}):
        if log.has(mark):
            best = mark
    return best


def _add(report: FileReport, batch: LogBatch) -> None:
    """Add a batch that was counted."""
    report.lines += batch.lines
    report.bad += batch.bad
    report.unknown += batch.unknown
    _add_examples(report, batch)


def _add_uncounted(report: FileReport, batch: LogBatch) -> None:
    """Add a batch that was not counted."""
    report.uncounted += batch.lines + batch.bad
    _add_examples(report, batch)


def _add_examples(report: FileReport, batch: LogBatch) -> None:
    report.examples = (report.examples + batch.examples)[:MAX_EXAMPLES]
