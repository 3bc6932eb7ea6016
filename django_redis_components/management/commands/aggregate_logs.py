"""`manage.py aggregate_logs`: counts the requests of access logs by day and place, or another key."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils.module_loading import import_string

from django_redis_components.aggregation import LOG_FORMATS, FileReport, IpLookup, LogAggregator, LogEntry, PlaceKey
from django_redis_components.aggregation.batches import EntryKey
from django_redis_components.management.arguments import whole_number
from django_redis_components.management.base import CommandResult, ExitCode, OperatorCommand, add_common
from django_redis_components.management.log_aggregation import LogCounter, jobs_of
from django_redis_components.management.progress import byte_progress
from django_redis_components.management.tables import Table

#: What ``--by`` can count.
PLACES = ("country", "region", "city")
FIELDS = ("path", "status", "method", "referrer", "agent", "address")


class Command(OperatorCommand):
    """Count the requests of access logs by day and place, or another key."""

    help = (
        "Count the requests of access logs by day and place, or another key. Each line is counted once, also if the"
        " command is killed and run again, or if a file was renamed, copied or compressed since. Formats: common and"
        " combined, JSON of nginx, and Caddy. Exit codes: 0 done; 1 not or only partly done: a file cannot be read, or"
        " more than half of its lines are no requests; 2 invalid arguments; 3 Redis is unavailable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("files", nargs="+", metavar="FILE", help="log files, also compressed with gzip")
        parser.add_argument("--name", default="visits", help="name of the aggregator (default: visits)")
        parser.add_argument(
            "--by",
            default="country",
            metavar="KEY",
            help=f"{', '.join(PLACES + FIELDS)}, or the dotted path of a function of a LogEntry (default: country)",
        )
        parser.add_argument("--format", default="auto", choices=LOG_FORMATS, help="of the lines (default: auto)")
        parser.add_argument("--processes", type=whole_number(1, 256), default=1, help="default: 1")
        parser.add_argument(
            "--max-keys", type=whole_number(1, 100_000), default=10_000, help="of a day (default: 10000)"
        )
        add_common(parser)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Count the files."""
        try:
            key = _key(options["by"], options["using"])
            aggregator = LogAggregator(options["name"], key, max_keys=options["max_keys"], using=options["using"])
        except (ValueError, TypeError, ImportError) as exc:
            raise CommandError(str(exc), returncode=ExitCode.INVALID_ARGUMENTS) from exc
        paths = list(dict.fromkeys(options["files"]))
        try:
            with byte_progress("aggregate", jobs_of(paths)[1]) as advance:
                reports = LogCounter(aggregator, options["format"], advance).count(paths, options["processes"])
        except OSError as exc:
            raise CommandError(f"Cannot read {exc.filename}: {exc.strerror}.", returncode=ExitCode.FAILED) from exc
        return _result(list(reports.values()))


def _key(by: str, using: str) -> EntryKey:
    if by in PLACES:
        return PlaceKey(by, IpLookup(using=using))  # type: ignore[arg-type]
    if by in FIELDS:
        return _Field(by)
    if "." not in by:
        raise ValueError(f"--by {by}: expected {', '.join(PLACES + FIELDS)}, or a dotted path.")
    function: EntryKey = import_string(by)
    return function


class _Field:
    """Counts requests by a field of theirs."""

    def __init__(self, name: str) -> None:
        self._index = LogEntry._fields.index(name)

    def __call__(self, entry: LogEntry) -> str:
        return str(entry[self._index])


def _result(reports: list[FileReport]) -> CommandResult:
    rows = [(each.path, f"{each.lines:,}", f"{each.bad:,}", str(each.incomplete or "")) for each in reports]
    table = Table(("FILE", "LINES", "BAD LINES", "INCOMPLETE"), rows, frozenset({"LINES", "BAD LINES", "INCOMPLETE"}))
    notes = [
        f"{each.path}: {each.bad:,} lines are no requests and are not counted; the first begin at the offsets"
        f" {', '.join(f'{offset:,}' for offset in each.examples)}."
        for each in reports
        if each.bad
    ]
    problems = [
        f"{each.path}: {each.error.rstrip('.')}. The lines before were counted." for each in reports if each.error
    ]
    problems += [
        f"{each.path}: more than half of the lines are no requests; is the format right?"
        for each in reports
        if each.bad > each.lines
    ]
    data = {"files": [dataclasses.asdict(each) for each in reports]}
    return CommandResult(data, table=table, note="\n".join(notes), problem="\n".join(problems))
