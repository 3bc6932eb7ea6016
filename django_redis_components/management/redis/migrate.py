"""`manage.py redis migrate`: converts stored data to the formats of this release. The site keeps running."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial

from django.core.management.base import CommandParser

from django_redis_components.core.client import connections
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.protocol import run
from django_redis_components.core.stored_formats import (
    WRITTEN,
    StoredFormats,
    read_formats,
    record_formats,
    record_migrated,
)
from django_redis_components.core.text import counted
from django_redis_components.management.base import EXIT_CODES, CommandResult, add_common
from django_redis_components.management.progress import progress
from django_redis_components.management.redis import groups


@dataclasses.dataclass(frozen=True, slots=True)
class FormatMigration:
    """Converts the data of a component to a newer format. Both formats can be read and written meanwhile.

    Attributes:
        component: the component.
        number: the format that its data have afterwards.
        change: what is different, for the output.
        count: returns how many objects are to be converted.
        convert: converts them, and yields the number of objects after each bounded step. A further run finds those that
            remain, also after an interruption within a step.
    """

    component: str
    number: int
    change: str
    count: Callable[[SyncClient], int]
    convert: Callable[[SyncClient], Iterator[int]]

    def __str__(self) -> str:
        return f"{self.component} to format {self.number} ({self.change})"


#: The migrations of this release, in order. Those of formats that no supported release has written are removed.
MIGRATIONS: tuple[FormatMigration, ...] = ()


def pending_migrations(stored: StoredFormats) -> list[FormatMigration]:
    """Return the migrations that have not finished on a server."""
    return [each for each in MIGRATIONS if stored.migrated(each.component) < each.number]


class Group(groups.CommandGroup):
    """Converts stored data."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.description = (
            "Convert stored data to the formats of this release, and record these. The site may keep running. An"
            " interrupted command continues where it was when it is run again."
        )
        parser.epilog = EXIT_CODES
        add_common(parser)
        parser.add_argument("--dry-run", action="store_true", help="print what would be converted, and write nothing")
        parser.set_defaults(verb="migrate")

    def perform(self, options: dict[str, object]) -> CommandResult:
        """Convert what is pending."""
        using, is_dry_run = str(options["using"]), bool(options["dry_run"])
        client = connections.client(using)
        if is_dry_run:
            stored = run(client, read_formats())
            stored.check(str(client.endpoint))
        else:
            stored = run(client, record_formats(str(client.endpoint)))
        pending = pending_migrations(stored)
        perform = _count if is_dry_run else self._convert
        counts = [perform(each, client) for each in pending]
        formats = {component: stored.number(component) for component in WRITTEN}
        done = [
            {"component": each.component, "format": each.number, "objects": count}
            for each, count in zip(pending, counts, strict=True)
        ]
        verb = "to convert" if is_dry_run else "converted"
        lines = [f"{each}: {counted(count, 'object')} {verb}." for each, count in zip(pending, counts, strict=True)]
        if not pending:
            lines = [f"Nothing to do. Formats: {', '.join(f'{name} {number}' for name, number in formats.items())}."]
        if is_dry_run:
            lines.append("Dry run: nothing was written.")
        return CommandResult({"formats": formats, "dry_run": is_dry_run, "migrations": done}, "\n".join(lines))

    def _convert(self, migration: FormatMigration, client: SyncClient) -> int:
        converted = 0
        try:
            with progress(str(migration), partial(migration.count, client), "objects") as advance:
                for count in migration.convert(client):
                    converted += count
                    advance(count)
        except BaseException:
            text = f"{migration}: stopped after {counted(converted, 'object')}. Run the command again to continue."
            self.command.stderr.write(text, self.command.style.WARNING)
            raise
        client.execute(record_migrated(migration.component, migration.number))
        return converted


def _count(migration: FormatMigration, client: SyncClient) -> int:
    return migration.count(client)
