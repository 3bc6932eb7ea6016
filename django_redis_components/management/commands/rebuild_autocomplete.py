"""`manage.py rebuild_autocomplete`: rebuilds the indexes of models, or compares them with the database."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.autocomplete.leftovers import delete_leftovers, find_leftovers
from django_redis_components.autocomplete.model_index import ModelIndex
from django_redis_components.autocomplete.registry import registered
from django_redis_components.management.base import CommandResult, ExitCode, OperatorCommand, add_yes
from django_redis_components.management.rebuilding import add_arguments, examples_of, progress_of, shown
from django_redis_components.management.tables import TextTable


class Command(OperatorCommand):
    """Rebuild the indexes of models, or compare them with the database."""

    help = (
        "Rebuild the indexes of models: each new index replaces the old one in one step, and changes meanwhile are"
        " kept. With --check, compare indexes and database instead; with --repair, also write what differs."
        " With --unregistered, list the indexes in Redis that no code registers; with --delete, delete the named ones."
        " Exit codes: 0 done, or no differences; 1 differences were found, or an index was not rebuilt;"
        " 2 invalid arguments; 3 Redis is unavailable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        add_arguments(parser)
        parser.add_argument(
            "--unregistered",
            action="store_true",
            help="list what belongs to no registered index: removed indexes, and old versions of others",
        )
        parser.add_argument(
            "--delete",
            action="store_true",
            help="delete what --unregistered lists for the named indexes and their scopes (asks for confirmation)",
        )
        parser.add_argument("--using", default="default", help="connection alias of --unregistered and --delete")
        add_yes(parser)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Rebuild or compare each index, or list or delete what is left of others."""
        if options["unregistered"] or options["delete"]:
            return self._leftovers(options)
        perform = self._compare if options["check"] or options["repair"] else self._rebuild
        rows = [perform(index, options) for index in _chosen(options["names"])]
        data = {"indexes": [row.pop("data") for row in rows]}
        headers = tuple(rows[0]) if rows else ("INDEX",)
        numbers = frozenset(headers[1:-1] if options["check"] or options["repair"] else headers[1:])
        table = TextTable(headers, [tuple(map(str, row.values())) for row in rows], numbers)
        differ = options["check"] and any(one["missing"] or one["stale"] or one["extra"] for one in data["indexes"])
        hint = "Repair them: manage.py rebuild_autocomplete --repair" if differ else ""
        return CommandResult(data, hint, table, exit_code=ExitCode.FAILED if differ else ExitCode.DONE)

    def _leftovers(self, options: dict[str, Any]) -> CommandResult:
        names, using = options["names"], options["using"]
        if options["check"] or options["repair"] or (options["unregistered"] and options["delete"]):
            raise CommandError("Choose one of --check, --repair, --unregistered and --delete.", returncode=2)
        if options["delete"] and not names:
            raise CommandError("--delete needs the names of indexes. --unregistered lists them.", returncode=2)
        found = {
            name: keys
            for name, keys in sorted(find_leftovers(using).items())
            if not names or any(name == one or name.startswith(f"{one}:") for one in names)
        }
        data = {"unregistered": [{"name": name, "keys": len(keys)} for name, keys in found.items()]}
        if options["delete"] and found:
            if not options["yes"]:
                self.ask(f"Delete the keys of {shown(list(found))}?", "Nothing was deleted.")
            delete_leftovers([key for keys in found.values() for key in keys], using)
        rows = [(name, f"{len(keys):,}") for name, keys in found.items()]
        heading = "DELETED" if options["delete"] else "UNREGISTERED"
        return CommandResult(data, table=TextTable((heading, "NUMBER OF KEYS"), rows, frozenset({"NUMBER OF KEYS"})))

    def _rebuild(self, index: ModelIndex, options: dict[str, Any]) -> dict[str, Any]:
        started_at = time.monotonic()
        with progress_of(index.name, index.queryset()) as progress:
            entries = index.rebuild(progress=progress)
        seconds = time.monotonic() - started_at
        data = {"name": index.name, "entries": entries, "seconds": round(seconds, 3)}
        return {"INDEX": index.name, "ENTRIES": f"{entries:,}", "SECONDS": f"{seconds:.1f}", "data": data}

    def _compare(self, index: ModelIndex, options: dict[str, Any]) -> dict[str, Any]:
        with progress_of(index.name, index.queryset()) as progress:
            drift = index.find_drift(progress=progress)
        if options["repair"]:
            index.repair(drift)
        counts = {"missing": len(drift.missing), "stale": len(drift.stale), "extra": len(drift.extra)}
        data = {"name": index.name, "objects": drift.objects, **counts, "repaired": options["repair"]}
        return {
            "INDEX": index.name,
            "OBJECTS": f"{drift.objects:,}",
            **{kind.upper(): f"{count:,}" for kind, count in counts.items()},
            "FOR EXAMPLE": examples_of(drift),
            "data": data,
        }


def _chosen(names: list[str]) -> list[ModelIndex]:
    known = {one.name: one for one in registered() if isinstance(one, ModelIndex)}
    if unknown := [name for name in names if name not in known]:
        listed = ", ".join(known) or "none"
        raise CommandError(f"Unknown index {unknown[0]!r}. Indexes of models: {listed}.", returncode=2)
    return [known[name] for name in names or known]
