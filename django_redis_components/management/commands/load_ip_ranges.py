"""`manage.py load_ip_ranges`: loads the ranges of IP addresses of places to Redis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.geoip import IpLookup, RangesInfo
from django_redis_components.geoip.range_files import RANGE_FORMATS, RangeFile, load_files, read_locations
from django_redis_components.management.base import EXIT_CODES, CommandResult, ExitCode, OperatorCommand, add_common
from django_redis_components.management.jobs.log_aggregation import total_bytes
from django_redis_components.management.progress import Advance, byte_progress
from django_redis_components.management.tables import TextTable


class Command(OperatorCommand):
    """Load the ranges of IP addresses of places to Redis."""

    help = (
        "Replace the ranges of IP addresses in Redis with those of CSV files: DB-IP Lite, IP2Location LITE,"
        " IPinfo Lite, or blocks of GeoLite2 with --locations; IPv4 and IPv6; also compressed with gzip. A file without"
        " a range that has a country is refused, and the former ranges stay in use. `redis geoip delete` removes"
        f" ranges.\n\n{EXIT_CODES}"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("files", nargs="+", metavar="FILE", help="CSV files, which become visible together")
        parser.add_argument("--locations", metavar="FILE", help="the file of locations of GeoLite2")
        parser.add_argument("--format", choices=RANGE_FORMATS, help="format of the files (default: by their columns)")
        parser.add_argument("--name", default="default", help="name of the ranges (default: default)")
        add_common(parser)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Load the ranges."""
        try:
            lookup = IpLookup(options["name"], source="ranges", using=options["using"])
        except ValueError as exc:
            raise CommandError(str(exc), returncode=ExitCode.INVALID_ARGUMENTS) from exc
        info = _load(lookup, options)
        rows = [(lookup.name, f"{info.ranges:,}", f"{info.blocks:,}", info.source)]
        table = TextTable(("NAME", "RANGES", "BLOCKS", "SOURCE"), rows, frozenset({"RANGES", "BLOCKS"}))
        data = {"name": lookup.name, "ranges": info.ranges, "blocks": info.blocks, "source": info.source}
        return CommandResult(data, table=table)


def _load(lookup: IpLookup, options: dict[str, Any]) -> RangesInfo:
    paths: list[str] = options["files"]
    try:
        locations = None if options["locations"] is None else read_locations(options["locations"])
        with byte_progress("load", partial(total_bytes, paths)) as advance:
            files = [RangeFile(path, locations, options["format"], _growth(advance)) for path in paths]
            return load_files(lookup, files)
    except OSError as exc:
        raise CommandError(f"Cannot read {exc.filename}: {exc.strerror}.", returncode=ExitCode.FAILED) from exc


def _growth(advance: Advance) -> Callable[[int], None]:
    """Return a function that takes positions in a file, and passes on by how much they grow."""
    last = 0

    def update(position: int) -> None:
        nonlocal last
        advance(position - last)
        last = position

    return update
