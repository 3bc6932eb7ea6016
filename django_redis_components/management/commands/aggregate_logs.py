"""`manage.py aggregate_logs`: counts the requests of access logs by day and place, or another key."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string

from django_redis_components.aggregation import LOG_FORMATS, FileReport, LogAggregator, LogEntry, PlaceKey
from django_redis_components.aggregation.batches import EntryKey
from django_redis_components.core.client import connections
from django_redis_components.core.text import counted
from django_redis_components.geoip import IpLookup
from django_redis_components.management.arguments import whole_number
from django_redis_components.management.base import CommandResult, ExitCode, OperatorCommand, add_common
from django_redis_components.management.jobs.log_aggregation import LogCounter, total_bytes
from django_redis_components.management.progress import byte_progress
from django_redis_components.management.tables import TextTable

#: What ``--by`` can count.
PLACES = ("country", "region", "city")
FIELDS = ("path", "status", "method", "referrer", "agent", "address")

#: Name of the counts by country, and the first part of the names of others.
DEFAULT_NAME = "visits"
#: Lines of a file that were not counted, from which on this is a failure: a new log may begin with a bad line.
MANY_UNCOUNTED = 10
#: Bad lines of a file whose format is known, from which on they are a failure if they are the most.
MANY_BAD = 100


class Command(OperatorCommand):
    """Count the requests of access logs by day and place, or another key."""

    help = (
        "Count the requests of access logs by day and place, or another key. Each line is counted once, also if the"
        " command is killed and run again, or if a file was renamed, copied or compressed since. Formats: common,"
        " combined, vhost_combined, JSON of nginx, Caddy and Traefik, and load balancers of AWS."
        " `redis aggregation` deletes counts, or has files counted"
        " again.\n\nExit codes: 0 done; 1 not or only partly done: a file"
        " cannot be read, most of its lines are no requests or lack the address that the key needs, or the name has"
        " counts of another key; 2 invalid arguments; 3 Redis is unavailable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "files", nargs="+", metavar="FILE", help="log files, also compressed with gzip, bzip2, xz or zstd"
        )
        parser.add_argument(
            "--name", help="name of the aggregator (default: visits, and for another --by than country visits-KEY)"
        )
        parser.add_argument(
            "--by",
            default="country",
            metavar="KEY",
            help=f"{', '.join(PLACES + FIELDS)}, or the dotted path of a function of a LogEntry; path is without the"
            " query (default: country)",
        )
        parser.add_argument("--format", default="auto", choices=LOG_FORMATS, help="of the lines (default: auto)")
        parser.add_argument(
            "--accept-bad",
            action="store_true",
            help="also count a file of which most of the first lines are no requests, or have no address",
        )
        parser.add_argument("--processes", type=whole_number(1, 256), default=1, help="default: 1")
        parser.add_argument(
            "--max-keys", type=whole_number(1, 100_000), default=10_000, help="of a day (default: 10000)"
        )
        add_common(parser)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Count the files."""
        connections.client(options["using"])  # an unknown alias is an error
        try:
            key = _key(options["by"], options["using"])
            name = options["name"] or _default_name(options["by"])
            aggregator = LogAggregator(name, key=key, max_keys=options["max_keys"], using=options["using"])
        except (ValueError, TypeError, ImportError) as exc:
            raise CommandError(str(exc), returncode=ExitCode.INVALID_ARGUMENTS) from exc
        paths = list(dict.fromkeys(options["files"]))
        with byte_progress("aggregate", partial(total_bytes, paths)) as advance:
            counter = LogCounter(aggregator, options["format"], options["accept_bad"], advance)
            reports = counter.count(paths, options["processes"])
        return _result(list(reports.values()))


def _default_name(by: str) -> str:
    """Return the name of the counts of a key: those of two keys have two names."""
    return DEFAULT_NAME if by == "country" else f"{DEFAULT_NAME}-{by}"


def _key(by: str, using: str) -> EntryKey:
    if by in PLACES:
        return PlaceKey(by, IpLookup(using=using))  # type: ignore[arg-type]
    if by in FIELDS:
        return _Path() if by == "path" else _Field(by)
    if "." not in by:
        raise ValueError(f"--by {by}: expected {', '.join(PLACES + FIELDS)}, or a dotted path.")
    function: EntryKey = import_string(by)
    return function


class _Field:
    """Counts requests by a field of theirs."""

    def __init__(self, name: str) -> None:
        self._index = LogEntry._fields.index(name)
        self.needs_address = name == "address"
        self.__module__, self.__qualname__ = "LogEntry", name

    def __call__(self, entry: LogEntry) -> str:
        return str(entry[self._index])


class _Path(_Field):
    """Counts requests by path, without the query: it would make a key of each value, and store what visitors enter."""

    def __init__(self) -> None:
        super().__init__("path")
        self.__qualname__ = "path_without_query"  # earlier counts of `LogEntry.path` may have queries

    def __call__(self, entry: LogEntry) -> str:
        return entry.path.partition("?")[0]


def _result(reports: list[FileReport]) -> CommandResult:
    rows = [(each.path, f"{each.lines:,}", f"{each.bad:,}", str(each.incomplete or "")) for each in reports]
    table = TextTable(
        ("FILE", "LINES", "BAD LINES", "INCOMPLETE"), rows, frozenset({"LINES", "BAD LINES", "INCOMPLETE"})
    )
    notes = [note for each in reports for note in _notes(each)]
    problems = [problem for each in reports for problem in _problems(each)]
    data = {"files": [dataclasses.asdict(each) for each in reports]}
    return CommandResult(data, table=table, note="\n".join(notes), problem=" ".join(problems))


def _notes(report: FileReport) -> Iterator[str]:
    offsets = ", ".join(f"{offset:,}" for offset in report.examples)
    if report.bad:
        yield (
            f"{report.path}: not counted: {counted(report.bad, 'line')} without a request or an address; the first"
            f" at the offsets {offsets}."
        )
    if report.unknown * 2 > report.lines:
        yield (
            f"{report.path}: more than half of the lines, {report.unknown:,} of {report.lines:,}, are from unknown"
            " places. Are all ranges loaded, or are the addresses those of a proxy in front of the server?"
        )
    if 0 < report.uncounted < MANY_UNCOUNTED:
        yield (
            f"{report.path}: not counted yet: {counted(report.uncounted, 'line')}, of which most are no requests, or"
            f" have no address, as at the offsets {offsets}."
        )


def _problems(report: FileReport) -> Iterator[str]:
    if report.error:
        before = " The lines before were counted." if report.lines else ""
        yield f"{report.path}: {report.error.rstrip('.')}.{before}"
    if report.uncounted >= MANY_UNCOUNTED:
        yield (
            f"{report.path}: nothing was counted, because more than half of the first"
            f" {counted(report.uncounted, 'line')} are no requests, or have no address that the key needs; is the"
            f" format right?{f' It looks like {report.looks_like}.' if report.looks_like else ''} --accept-bad counts"
            " the others."
        )
    elif report.bad > report.lines and report.bad >= MANY_BAD:
        yield f"{report.path}: more than half of the lines are no requests, or have no address; has the format changed?"
