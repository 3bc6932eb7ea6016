"""Counting log files in several processes."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import cast

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.aggregation import FileReport, LogAggregator, LogFileChanged
from django_redis_components.aggregation.batches import MAX_EXAMPLES
from django_redis_components.aggregation.exceptions import AggregationError
from django_redis_components.aggregation.log_files import LogFile
from django_redis_components.aggregation.log_lines import LogFormat
from django_redis_components.core.exception_text import safe_text
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.geoip import GeoIpError
from django_redis_components.management.progress import Advance

#: Errors of one file, which do not stop the others.
_FILE_ERRORS = (OSError, LogFileChanged, ImportError)


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentJob:
    """A segment of a file; all of a compressed file if `segment` is None.

    Attributes:
        inode: of the file: another one means that the file was rotated since.
    """

    path: str
    segment: int | None
    inode: int


@dataclasses.dataclass(frozen=True, slots=True)
class _BytesRead:
    """The message of a process that it has read some bytes of a file."""

    count: int
    path: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    """The message of a process that it cannot continue."""

    text: str
    is_outage: bool


class WorkerDied(RedisComponentsError):
    """Raised when a process that counted was killed, or failed. What it has not counted is counted by the next run."""


class CountingFailed(RedisComponentsError):
    """Raised when a file cannot be counted for a reason that the other files share, such as an error of the key."""


def total_bytes(paths: Sequence[str]) -> int:
    """Return the size of the files that can be read, for the progress bar."""
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += Path(path).stat().st_size
    return total


class LogCounter:
    """Counts files, in this process or in several.

    Args:
        aggregator: which counts them.
        format: of their lines.
        accept_bad: see `LogAggregator.add_file`.
        advance: called with the number of bytes that were read, and the name of the file, now and then.
    """

    def __init__(self, aggregator: LogAggregator, format: LogFormat, accept_bad: bool, advance: Advance) -> None:
        self._aggregator = aggregator
        self._format = format
        self._accept_bad = accept_bad
        self._advance = advance

    def count(self, paths: Sequence[str], processes: int) -> dict[str, FileReport]:
        """Count files; return what was counted of each. A file that cannot be read has an error in its report.

        Raises:
            WorkerDied: a process was killed.
            CountingFailed: the key function has raised an error.
            AggregationError, GeoIpError, redis.exceptions.RedisError: no file can be counted; see
                `LogAggregator.add_file`.
        """
        reports = {path: FileReport(path) for path in paths}
        jobs = list(_jobs_of(reports))
        for report in self._in_processes(jobs, processes) if processes > 1 else map(self._count_job, jobs):
            _add(reports[report.path], report)
        return reports

    def _count_job(self, job: SegmentJob, advance: Advance | None = None) -> FileReport:
        advance = advance or self._advance
        try:
            if Path(job.path).stat().st_ino != job.inode:
                reason = "it was rotated meanwhile: run the command again, with the rotated file"
                return FileReport(job.path, error=reason)
            return self._aggregator.add_file(
                job.path,
                format=self._format,
                segment=job.segment,
                accept_bad=self._accept_bad,
                progress=partial(advance, name=job.path),
            )
        except _FILE_ERRORS as exc:
            return FileReport(job.path, error=_text(exc))
        except (AggregationError, GeoIpError, RedisError):
            raise
        except Exception as exc:
            raise CountingFailed(f"{job.path}: {type(exc).__name__}: {safe_text(exc)}") from exc

    def _in_processes(self, jobs: Sequence[SegmentJob], processes: int) -> Iterator[FileReport]:
        """Count in processes, each with a connection on which it gets jobs and sends messages."""
        context = multiprocessing.get_context("fork")
        children: dict[Connection, BaseProcess] = {}
        try:
            for _ in range(min(processes, len(jobs))):
                ours, theirs = context.Pipe()
                child: BaseProcess = context.Process(target=self._work, args=(theirs, [*children, ours]))
                child.start()
                theirs.close()
                children[ours] = child
            yield from self._distribute(jobs, children)
        finally:
            for connection, child in children.items():
                connection.close()
                child.kill()
                child.join()

    def _distribute(self, jobs: Sequence[SegmentJob], children: dict[Connection, BaseProcess]) -> Iterator[FileReport]:
        """Give each process a job, and another one after each report. Those of a killed process are left undone."""
        left, busy, killed = iter(jobs), set(children), None
        for connection in children:
            _send(connection, next(left, None))
        while busy:
            for connection in cast(list[Connection], wait(list(busy))):
                try:
                    message = connection.recv()
                except (EOFError, ConnectionResetError):
                    busy.discard(connection)
                    children[connection].join()
                    killed = children[connection].exitcode or killed
                    continue
                if isinstance(message, _BytesRead):
                    self._advance(message.count, message.path)
                elif isinstance(message, _Failure):
                    raise ConnectionError(message.text) if message.is_outage else CountingFailed(message.text)
                else:
                    yield message
                    _send(connection, next(left, None))
        if killed:
            raise WorkerDied(f"A process ended with exit code {killed}. Nothing is lost: run the command again.")

    def _work(self, connection: Connection, unused: Sequence[Connection]) -> None:
        """Count jobs until there are none, or the parent has ended."""
        for each in unused:
            each.close()
        advance = _Sender(connection)
        try:
            while (job := connection.recv()) is not None:
                connection.send(self._count_job(job, advance))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            pass
        except (RedisError, RedisComponentsError) as exc:
            connection.send(_Failure(str(exc), isinstance(exc, ConnectionError | TimeoutError)))
        except KeyboardInterrupt:
            os._exit(130)


class _Sender:
    """Tells the parent how much was read."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __call__(self, count: int, name: str = "") -> None:
        self._connection.send(_BytesRead(count, name))


def _jobs_of(reports: dict[str, FileReport]) -> Iterator[SegmentJob]:
    """Yield the jobs of files; report those that cannot be read."""
    for path, report in reports.items():
        try:
            with LogFile(path) as log:
                segments: Sequence[int | None] = [None] if log.codec else range(log.segments())
                inode = log.inode
        except _FILE_ERRORS as exc:
            report.error = _text(exc)
            continue
        yield from (SegmentJob(path, segment, inode) for segment in segments)


def _send(connection: Connection, job: SegmentJob | None) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it was killed: the next read tells
        connection.send(job)


def _text(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _add(report: FileReport, part: FileReport) -> None:
    """Add what was counted of a segment."""
    report.lines += part.lines
    report.bad += part.bad
    report.unknown += part.unknown
    report.uncounted += part.uncounted
    report.looks_like = report.looks_like or part.looks_like
    report.examples = sorted([*report.examples, *part.examples])[:MAX_EXAMPLES]
    report.incomplete = max(report.incomplete, part.incomplete)
    report.error = report.error or part.error
