"""Counts of log lines by day and key, each line once."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from functools import partial

from django_redis_components.aggregation.batches import EntryKey, PlaceKey, check_places, key_name, name_of_key
from django_redis_components.aggregation.counting import CountOptions, FileCounter, FileReport
from django_redis_components.aggregation.identity import FileIdentity, identify
from django_redis_components.aggregation.log_files import LogFile
from django_redis_components.aggregation.log_lines import LogFormat, parser_for
from django_redis_components.aggregation.scripts import DELETE, RECOUNT_FILE
from django_redis_components.core import keys
from django_redis_components.core.arguments import check_callable, check_flag, check_int, check_progress, short_repr
from django_redis_components.core.chunks import chunks
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.day_ranges import days_of
from django_redis_components.core.keys import day_stamp
from django_redis_components.core.protocol import Batch, Command, Flow, LocalIO, Read
from django_redis_components.core.units import moment_of
from django_redis_components.geoip.lookup import IpLookup

#: The key that requests are counted under once a day has `max_keys` keys. Also in ``flush.lua``.
OTHER = "__other__"
#: Most keys of a day.
MAX_KEYS = 100_000
#: Most keys, and files, of one answer.
MAX_TOP = 1_000
#: Days that are read in one round trip.
DAYS_AT_ONCE = 10
#: Days, and files, that one call removes.
DELETE_COUNT = 100
#: The member that counts all keys. A key is never empty.
_SUM = ""


@dataclasses.dataclass(frozen=True, slots=True)
class FileState:
    """What was counted of a file in all.

    Attributes:
        name: path by which it was read last.
        lines, bad: number of lines that were parsed, and that were not.
        counted_at: when.
    """

    name: str
    lines: int
    bad: int
    counted_at: datetime


class LogAggregator(DeletableComponent):
    """Count the requests of log files by day and key.

    Args:
        name: name of the aggregator.
        key: what is counted: a function of a `LogEntry`, or a `PlaceKey`; None: the country of the address.
        max_keys: keys of a day, up to 100,000; further ones are counted under ``__other__``.
        key_name: name of the key function that is stored with the counts: those of another one are refused. None: the
            level of a `PlaceKey`, otherwise module and name of the function.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "aggregation"
    name_label = "aggregator name"
    catalog_kind = "LogAggregator"

    def __init__(
        self,
        name: str,
        *,
        key: EntryKey | None = None,
        max_keys: int = 10_000,
        key_name: str | None = None,
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        if key is not None:
            check_callable(key, "key", "a function of a LogEntry, or a PlaceKey")
        self.key: EntryKey = PlaceKey(lookup=IpLookup(using=using)) if key is None else key
        if isinstance(self.key, PlaceKey) and self.key.lookup.using != using:
            raise ValueError(f"using={using!r}: expected that of the lookup, {self.key.lookup.using!r}.")
        self.max_keys = check_int(max_keys, "max_keys", 1, MAX_KEYS)
        self.key_name = name_of_key(self.key) if key_name is None else keys.validate_name(key_name, "key_name")

    def add_file(
        self,
        path: str | os.PathLike[str],
        *,
        format: LogFormat = "auto",
        segment: int | None = None,
        accept_bad: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> FileReport:
        """Count the lines of a log file that were not counted before; also of one that is compressed.

        gzip, bzip2, xz and zstd are recognized by the first bytes.

        Each batch of lines is counted and marked in one step, so that a call that was interrupted is repeated, and
        several processes may count one file. A file is recognized by its first lines and inode, and a copy of it by
        its first lines and the text that was counted last.

        Args:
            path: of the file.
            format: of its lines.
            segment: the only segment to count, of 16 MiB; None: all.
            accept_bad: whether to count a file although most of its first lines are no requests, or lack the address
                that the key needs. Otherwise they are not marked as counted, because the format may be wrong.
            progress: called with the number of bytes read or skipped, after each batch.

        Raises:
            KeyMismatch: the aggregator has counts of another key function.
            NoRangesLoaded: the key is a place, and there is no source of places.
            LogFileChanged: the file lacks what was counted of it.
            OSError: it cannot be read.
            ImportError: the package that reads zstd is not installed.
            redis.exceptions.RedisError: call it again to continue.
        """
        return self._run(self._add_file(path, format, segment, accept_bad, progress))

    async def aadd_file(
        self,
        path: str | os.PathLike[str],
        *,
        format: LogFormat = "auto",
        segment: int | None = None,
        accept_bad: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> FileReport:
        """See `add_file`. The file is read, and the key function called, in a thread."""
        return await self._arun(self._add_file(path, format, segment, accept_bad, progress))

    def recount_file(self, path: str | os.PathLike[str]) -> None:
        """Have `add_file` count a file anew, also as a copy. The counts that it has stay. It may be repeated.

        Raises:
            OSError: it cannot be read.
        """
        self._run(self._recount_file(path))

    async def arecount_file(self, path: str | os.PathLike[str]) -> None:
        """See `recount_file`."""
        await self._arun(self._recount_file(path))

    def count(self, key: str | None, start: date, end: date | None = None) -> int:
        """Return the requests of a key from `start` to `end`, both included.

        Args:
            key: None for the sum of all keys.
            end: last day; the same as `start` if None.

        Raises:
            ValueError: the range is empty or has more than 400 days.
        """
        return sum(self.series(key, start, end).values())

    async def acount(self, key: str | None, start: date, end: date | None = None) -> int:
        """See `count`."""
        return sum((await self.aseries(key, start, end)).values())

    def series(self, key: str | None, start: date, end: date | None = None) -> dict[date, int]:
        """Return the requests of each day, in order; days without requests are 0. See `count`."""
        return self._run(self._series(key, start, end))

    async def aseries(self, key: str | None, start: date, end: date | None = None) -> dict[date, int]:
        """See `series`."""
        return await self._arun(self._series(key, start, end))

    def totals(self, start: date, end: date | None = None) -> dict[str, int]:
        """Return the requests of each key from `start` to `end`, most first. See `count`."""
        return self._run(self._totals(start, end))

    async def atotals(self, start: date, end: date | None = None) -> dict[str, int]:
        """See `totals`."""
        return await self._arun(self._totals(start, end))

    def top(self, start: date, end: date | None = None, *, limit: int = 10) -> list[tuple[str, int]]:
        """Return the keys with the most requests from `start` to `end`, most first, with their numbers."""
        return self._run(self._top(start, end, limit))

    async def atop(self, start: date, end: date | None = None, *, limit: int = 10) -> list[tuple[str, int]]:
        """See `top`."""
        return await self._arun(self._top(start, end, limit))

    def files(self, *, limit: int = 100) -> list[FileState]:
        """Return the files that were counted last, latest first."""
        return self._run(self._files(limit))

    async def afiles(self, *, limit: int = 100) -> list[FileState]:
        """See `files`."""
        return await self._arun(self._files(limit))

    def _log_key(self, *parts: str) -> str:
        return self._key("log", *parts)

    def _add_file(
        self,
        path: str | os.PathLike[str],
        format: LogFormat,
        segment: int | None,
        accept_bad: bool,
        progress: Callable[[int], object] | None,
    ) -> Flow[FileReport]:
        options = CountOptions(
            aggregator=self.name,
            base=self._log_key(),
            key=self.key,
            key_name=self.key_name,
            max_keys=self.max_keys,
            parse=parser_for(format),
            accept_bad=check_flag(accept_bad, "accept_bad"),
            progress=check_progress(progress),
        )
        if isinstance(self.key, PlaceKey):
            yield from check_places(self.key)
        log: LogFile = yield LocalIO(partial(LogFile, path))
        try:
            return (yield from FileCounter(log, options).flow(segment))
        finally:
            log.close()

    def _recount_file(self, path: str | os.PathLike[str]) -> Flow[None]:
        log: LogFile = yield LocalIO(partial(LogFile, path))
        try:
            identity: FileIdentity = yield from identify(self._log_key(), log)
        finally:
            log.close()
        for file in (identity.id, *identity.family):
            yield RECOUNT_FILE(base=self._log_key(), file=file, first=log.first)

    def _delete(self) -> Flow[bool]:
        found, rows_left = yield DELETE(base=self._log_key(), count=DELETE_COUNT)
        while rows_left:
            _, rows_left = yield DELETE(base=self._log_key(), count=DELETE_COUNT)
        return bool(found)

    def _day(self, day: date) -> str:
        return self._log_key("day", day_stamp(day))

    def _series(self, key: str | None, start: date, end: date | None) -> Flow[dict[date, int]]:
        name = _SUM if key is None else key_name(key)
        days = span(start, end)
        replies = yield Batch([Read("ZSCORE", self._day(day), name) for day in days])
        return {day: int(float(reply or 0)) for day, reply in zip(days, replies, strict=True)}

    def _totals(self, start: date, end: date | None) -> Flow[dict[str, int]]:
        found: Counter[str] = Counter()
        for days in chunks(span(start, end), DAYS_AT_ONCE):
            for reply in (yield Batch([_largest(self._day(day), MAX_KEYS) for day in days])):
                found.update(dict(_rows(reply)))
        return dict(found.most_common())

    def _top(self, start: date, end: date | None, limit: int) -> Flow[list[tuple[str, int]]]:
        check_int(limit, "limit", 1, MAX_TOP)
        days = span(start, end)
        if len(days) == 1:
            return _rows((yield _largest(self._day(days[0]), limit)))[:limit]
        totals = yield from self._totals(start, end)
        return list(totals.items())[:limit]

    def _files(self, limit: int) -> Flow[list[FileState]]:
        check_int(limit, "limit", 1, MAX_TOP)
        reply: list[bytes] = yield Read("ZREVRANGE", self._log_key("files"), 0, limit - 1, "WITHSCORES")
        files = list(zip(map(bytes.decode, reply[::2]), reply[1::2], strict=True))
        fields = ("name", "lines", "bad")
        records = (
            (yield Batch([Read("HMGET", self._log_key("file", file), *fields) for file, _ in files])) if files else []
        )
        return [
            FileState(name.decode(errors="replace"), int(lines), int(bad), moment_of(int(float(at_ms) * 1_000)))
            for (_, at_ms), (name, lines, bad) in zip(files, records, strict=True)
            if name is not None
        ]


def top_flow(aggregator: LogAggregator, start: date, end: date | None, limit: int) -> Flow[list[tuple[str, int]]]:
    """Return the flow of `LogAggregator.top`, to run it with others."""
    return aggregator._top(start, end, limit)


def series_flow(aggregator: LogAggregator, start: date, end: date | None) -> Flow[dict[date, int]]:
    """Return the flow of `LogAggregator.series` of all keys, to run it with others."""
    return aggregator._series(None, start, end)


def files_flow(aggregator: LogAggregator, limit: int) -> Flow[list[FileState]]:
    """Return the flow of `LogAggregator.files`, to run it with others."""
    return aggregator._files(limit)


def span(start: date, end: date | None) -> list[date]:
    """Return the days from `start` to `end`, both included; of a datetime its date.

    Raises:
        TypeError: one is no date.
        ValueError: the range is empty, or has more than MAX_RANGE_DAYS.
    """
    bounds = []
    for what, day in (("start", start), ("end", start if end is None else end)):
        if not isinstance(day, date):
            raise TypeError(f"{what}={short_repr(day)}: expected a date.")
        bounds.append(day.date() if isinstance(day, datetime) else day)
    return days_of(*bounds)


def _largest(key: str, limit: int) -> Command:
    return Read("ZREVRANGE", key, 0, limit, "WITHSCORES")  # one more, for the sum


def _rows(reply: list[bytes]) -> list[tuple[str, int]]:
    rows = [(key.decode(), int(float(count))) for key, count in zip(reply[::2], reply[1::2], strict=True)]
    return [row for row in rows if row[0] != _SUM]
