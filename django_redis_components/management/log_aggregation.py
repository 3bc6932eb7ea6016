"""Counting log files in several processes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.aggregation import FileReport, LogAggregator
from django_redis_components.aggregation.batches import MAX_EXAMPLES
from django_redis_components.aggregation.exceptions import AggregationError
from django_redis_components.aggregation.log_files import LogFile
from django_redis_components.aggregation.log_lines import LogFormat
from django_redis_components.core.exceptions import RedisComponentsError

#: Bytes of a job number in the pipe. A read of so many bytes takes one job.
JOB_BYTES = 4
#: Bytes of a message of a process: a pipe writes up to PIPE_BUF, at least 512, at once.
MAX_MESSAGE_BYTES = 500


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentJob:
    """A segment of a file; all of a compressed file if `segment` is None.

    Attributes:
        inode: of the file: another one means that the file was rotated since.
    """

    path: str
    segment: int | None
    inode: int


class WorkerDied(RedisComponentsError):
    """Raised when a process that counted was killed, or failed. What it has not counted is counted by the next run."""


def jobs_of(paths: Sequence[str]) -> tuple[list[SegmentJob], int]:
    """Return the jobs of files, and the size of the files in bytes.

    Raises:
        OSError: a file cannot be read.
    """
    jobs, total = [], 0
    for path in paths:
        with LogFile(path) as log:
            total += log.size
            segments: list[int | None] = [None] if log.is_gzip else list(range(log.segments()))
            jobs += [SegmentJob(path, segment, log.inode) for segment in segments]
    return jobs, total


class LogCounter:
    """Counts files, in this process or in several.

    Args:
        aggregator: which counts them.
        format: of their lines.
        advance: called with the number of bytes that were read, now and then.
    """

    def __init__(
        self,
        aggregator: LogAggregator,
        format: LogFormat,
        advance: Callable[[int], object],
    ) -> None:
        self._aggregator = aggregator
        self._format = format
        self._advance = advance

    def count(self, paths: Sequence[str], processes: int) -> dict[str, FileReport]:
        """Count files; return what was counted of each.

        Raises:
            WorkerDied: a process was killed, or failed.
            OSError: a file cannot be read.
        """
        jobs, _ = jobs_of(paths)
        reports = {path: FileReport(path) for path in paths}
        messages = self._in_processes(jobs, processes) if processes > 1 else self._here(jobs)
        for message in messages:
            if "read" in message:
                self._advance(message["read"])
            elif "error" in message:
                raise (ConnectionError if message["is_away"] else WorkerDied)(message["error"])
            else:
                _add(reports[jobs[message.pop("job")].path], message)
        return reports

    def _here(self, jobs: Sequence[SegmentJob]) -> Iterator[dict[str, Any]]:
        for number, job in enumerate(jobs):
            report = self._count_job(job, self._advance)
            yield {"job": number} | report

    def _count_job(self, job: SegmentJob, on_read: Callable[[int], object]) -> dict[str, Any]:
        if Path(job.path).stat().st_ino != job.inode:
            return {"error_of_file": "it was rotated meanwhile: run the command again, with the rotated file"}
        report = self._aggregator.add_file(job.path, format=self._format, segment=job.segment, on_read=on_read)
        examples = [str(each) for each in report.examples]
        fields = {"lines": report.lines, "bad": report.bad, "examples": examples, "incomplete": report.incomplete}
        return fields | {"error_of_file": report.error}

    def _in_processes(self, jobs: Sequence[SegmentJob], processes: int) -> Iterator[dict[str, Any]]:
        """Count in processes that take jobs from a pipe and send messages to another one."""
        context = multiprocessing.get_context("fork")
        jobs_out, jobs_in = os.pipe()
        messages_out, messages_in = os.pipe()
        children = [
            context.Process(target=self._work, args=(jobs, jobs_out, messages_in, (jobs_in, messages_out)))
            for _ in range(min(processes, len(jobs)))
        ]
        for child in children:
            child.start()
        os.close(jobs_out)
        os.close(messages_in)
        try:
            with os.fdopen(messages_out, "rb") as messages:
                with contextlib.suppress(BrokenPipeError):  # all have ended; their exit codes tell why
                    for number in range(len(jobs)):
                        os.write(jobs_in, number.to_bytes(JOB_BYTES, "big"))
                os.close(jobs_in)
                for line in messages:
                    yield json.loads(line)
            for child in children:
                child.join()
                if child.exitcode:
                    raise WorkerDied(
                        f"A process ended with exit code {child.exitcode}. Nothing is lost: run the command again."
                    )
        finally:
            for child in children:
                child.kill()
                child.join()

    def _work(self, jobs: Sequence[SegmentJob], jobs_out: int, messages_in: int, unused: Sequence[int]) -> None:
        """Count jobs until there are none."""
        for descriptor in unused:
            os.close(descriptor)

        def send(message: dict[str, Any]) -> None:
            os.write(messages_in, json.dumps(message).encode()[:MAX_MESSAGE_BYTES] + b"\n")

        try:
            while number := os.read(jobs_out, JOB_BYTES):
                job = int.from_bytes(number, "big")
                send({"job": job} | self._count_job(jobs[job], lambda count: send({"read": count})))
        except (RedisError, AggregationError, OSError) as exc:
            send({"error": str(exc)[:200], "is_away": isinstance(exc, ConnectionError | TimeoutError)})
        except KeyboardInterrupt:
            os._exit(130)


def _add(report: FileReport, fields: dict[str, Any]) -> None:
    report.lines += fields.get("lines", 0)
    report.bad += fields.get("bad", 0)
    report.examples = sorted([*report.examples, *map(int, fields.get("examples", ()))])[:MAX_EXAMPLES]
    report.incomplete = max(report.incomplete, fields.get("incomplete", 0))
    report.error = report.error or fields["error_of_file"]
