"""`manage.py redis migrate`: converts stored data to the formats of this release. The site keeps running."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial

from django.core.management.base import CommandError, CommandParser
from redis.exceptions import NoPermissionError

from django_redis_components.core.client import connections
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.command_line import command_line
from django_redis_components.core.protocol import run
from django_redis_components.core.stored_formats import (
    WRITTEN,
    StoredFormats,
    read_formats,
    record_formats,
    record_migrated,
)
from django_redis_components.core.text import counted
from django_redis_components.management.base import EXIT_CODES, CommandResult, add_common, add_yes
from django_redis_components.management.former_indexes import FormerIndex, KeyCounts, count_former, delete_former
from django_redis_components.management.progress import progress, scan_progress
from django_redis_components.management.redis import groups
from django_redis_components.management.tables import TextTable


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
            " interrupted command continues where it was when it is run again. It lists the indexes of search and"
            " autocomplete that this release does not read, and what rebuilds them."
        )
        parser.epilog = EXIT_CODES
        add_common(parser)
        parser.add_argument("--dry-run", action="store_true", help="print what would be converted, and write nothing")
        parser.add_argument(
            "--delete-former",
            action="store_true",
            help="also delete the indexes that this release does not read (asks for confirmation). The release before"
            " reads them: delete them when no process of it is left, and you will not return to it",
        )
        add_yes(parser)
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
        former, deleted, note = self._former(client, options)
        if not pending:
            shown = ", ".join(f"{name} {number}" for name, number in formats.items())
            lines = [f"Nothing to {'convert' if former else 'do'}. Formats: {shown}."]
        if is_dry_run:
            lines.append("Dry run: nothing was written.")
        if former:
            lines.append(_advice(using, deleted))
        indexes = [
            {**dataclasses.asdict(each), "keys": keys.former, "new_keys": keys.new} for each, keys in former.items()
        ]
        data = {"formats": formats, "dry_run": is_dry_run, "migrations": done, "indexes": indexes, "deleted": deleted}
        return CommandResult(data, "\n".join(lines), _former_table(former), note)

    def _former(self, client: SyncClient, options: dict[str, object]) -> tuple[dict[FormerIndex, KeyCounts], int, str]:
        """Return the former indexes with their keys, how many keys were deleted, and why it was not looked for them."""
        try:
            with scan_progress("former indexes", client) as advance:
                former = count_former(client, advance)
        except NoPermissionError as exc:
            return {}, 0, f"Indexes of former releases were not looked for: {exc}"
        if not former or not options["delete_former"] or options["dry_run"]:
            return former, 0, ""
        if not options["yes"]:
            names = ", ".join(f"{each.name} {each.stored}" for each in former)
            self.command.ask(f"Delete the keys of {names}? The release before reads them.", "Nothing was deleted.")
        with scan_progress("delete former indexes", client) as advance:
            return former, delete_former(client, str(options["using"]), advance), ""

    def _convert(self, migration: FormatMigration, client: SyncClient) -> int:
        converted = 0
        try:
            with progress(str(migration), partial(migration.count, client), "objects") as advance:
                for count in migration.convert(client):
                    converted += count
                    advance(count)
        except BaseException as exc:
            text = f"{migration}: stopped after {counted(converted, 'object')}. Run the command again to continue."
            self.command.stderr.write(text, self.command.style.WARNING)
            if isinstance(exc, ValueError):  # of stored data, not of an argument
                raise CommandError(str(exc)) from exc
            raise
        client.execute(record_migrated(migration.component, migration.number))
        return converted


def _advice(using: str, deleted: int) -> str:
    if deleted:
        return f"Deleted {counted(deleted, 'key')} of former indexes."
    command = command_line("redis", "migrate", options=["--delete-former"], using=using)
    return (
        "This release reads the NEW KEYS: in an index without them it finds nothing until you rebuild it. When no"
        f" process of the release before is left, delete them: {command}"
    )


def _former_table(former: dict[FormerIndex, KeyCounts]) -> TextTable | None:
    headers = ("COMPONENT", "INDEX", "STORED", "READS", "FORMER KEYS", "NEW KEYS", "REBUILD BY")
    rows = [
        (each.component, each.name, each.stored, each.reads, f"{keys.former:,}", f"{keys.new:,}", each.rebuild)
        for each, keys in former.items()
    ]
    return TextTable(headers, rows, frozenset({"FORMER KEYS", "NEW KEYS"})) if rows else None


def _count(migration: FormatMigration, client: SyncClient) -> int:
    return migration.count(client)
