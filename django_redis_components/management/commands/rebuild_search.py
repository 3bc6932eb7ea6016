"""`manage.py rebuild_search`: indexes the objects of models again, or compares indexes with the database."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.management.base import CommandResult, ExitCode, OperatorCommand
from django_redis_components.management.rebuilding import add_arguments, examples_of, progress_of
from django_redis_components.management.tables import TextTable
from django_redis_components.search import ModelSearch, registered


class Command(OperatorCommand):
    """Index the objects of models again, or compare indexes with the database."""

    help = (
        "Replace search indexes by all objects of their models; searches use the old documents meanwhile. With --check,"
        " compare indexes and database instead; with --repair, also write what differs. Exit codes: 0 done, or no"
        " differences; 1 differences were found, or an index was not rebuilt; 2 invalid arguments; 3 Redis is"
        " unavailable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        add_arguments(parser)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Rebuild or compare each index."""
        searches = _chosen(options["names"])
        if not (options["check"] or options["repair"]):
            counts = [_rebuild(search) for search in searches]
            rows = [(search.name, f"{count:,}") for search, count in zip(searches, counts, strict=True)]
            data = [{"name": search.name, "documents": count} for search, count in zip(searches, counts, strict=True)]
            return CommandResult(
                {"indexes": data}, table=TextTable(("INDEX", "DOCUMENTS"), rows, frozenset({"DOCUMENTS"}))
            )
        found = [_compare(search, repair=options["repair"]) for search in searches]
        kinds = ("missing", "stale", "extra")
        headers = ("INDEX", "OBJECTS", *map(str.upper, kinds), "FOR EXAMPLE")
        rows = [
            (one["name"], f"{one['objects']:,}", *(f"{one[kind]:,}" for kind in kinds), examples)
            for one, examples in found
        ]
        data = [one for one, _ in found]
        differ = options["check"] and any(one[kind] for one in data for kind in kinds)
        hint = "Repair them: manage.py rebuild_search --repair" if differ else ""
        table = TextTable(headers, rows, frozenset(headers[1:-1]))
        return CommandResult({"indexes": data}, hint, table, exit_code=ExitCode.FAILED if differ else ExitCode.DONE)


def _rebuild(search: ModelSearch) -> int:
    with progress_of(search.name, search.queryset()) as progress:
        return search.rebuild(progress=progress)


def _compare(search: ModelSearch, *, repair: bool) -> tuple[dict[str, Any], str]:
    with progress_of(search.name, search.queryset()) as progress:
        drift = search.find_drift(progress=progress)
    if repair:
        search.repair(drift)
    counts = {"missing": len(drift.missing), "stale": len(drift.stale), "extra": len(drift.extra)}
    data = {"name": search.name, "objects": drift.objects, **counts, "repaired": repair}
    return data, examples_of(drift)


def _chosen(names: list[str]) -> list[ModelSearch]:
    known = {one.name: one for one in registered()}
    if unknown := [name for name in names if name not in known]:
        listed = ", ".join(known) or "none"
        raise CommandError(f"Unknown index {unknown[0]!r}. Indexes of models: {listed}.", returncode=2)
    return [known[name] for name in names or known]
