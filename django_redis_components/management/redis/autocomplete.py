"""`manage.py redis autocomplete`: compares indexes with the database, and deletes what is left of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.autocomplete.leftovers import Leftovers, delete_keys, find_leftovers
from django_redis_components.autocomplete.model_index import ModelIndex
from django_redis_components.autocomplete.registry import registered
from django_redis_components.core.client import connections
from django_redis_components.core.command_line import command_line
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes
from django_redis_components.management.jobs.rebuilding import COMPARISONS, USING, add_names, choose, compare, shown
from django_redis_components.management.progress import scan_progress
from django_redis_components.management.redis import groups
from django_redis_components.management.tables import TextTable

#: Commands about keys that belong to no registered index, and their descriptions.
LEFTOVERS = {
    "unregistered": "list what belongs to no registered index: removed indexes, and old versions of others",
    "delete": "delete what `unregistered` lists of some indexes and their scopes (asks for confirmation)",
}


class Group(groups.CommandGroup):
    """Compares indexes, and deletes unregistered ones."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, COMPARISONS | LEFTOVERS, using=dict.fromkeys(COMPARISONS, USING))
        for verb in COMPARISONS:
            add_names(made[verb])
        made["unregistered"].add_argument("names", nargs="*", metavar="NAME", help="names of indexes (default: all)")
        made["delete"].add_argument("names", nargs="+", metavar="NAME", help="names of indexes, as listed")
        add_yes(made["delete"])

    def perform_check(self, options: dict[str, Any]) -> CommandResult:
        """Compare each index."""
        return _compare(options, repair=False)

    def perform_repair(self, options: dict[str, Any]) -> CommandResult:
        """Compare each index, and write what differs."""
        return _compare(options, repair=True)

    def perform_unregistered(self, options: dict[str, Any]) -> CommandResult:
        """List what is left of other indexes."""
        return _listed(_leftovers(options["names"], options["using"]), "UNREGISTERED")

    def perform_delete(self, options: dict[str, Any]) -> CommandResult:
        """Delete what is left of some indexes, after a confirmation."""
        found = _leftovers(options["names"], options["using"])
        if found:
            if not options["yes"]:
                self.command.ask(f"Delete the keys of {shown(list(found))}?", "Nothing was deleted.")
            delete_keys([key for keys in found.values() for key in keys], options["using"])
        return _listed(found, "DELETED")


def indexes_of_models(using: str | None = None) -> dict[str, ModelIndex]:
    """Return the indexes of models by name, on all connections or on one."""
    if using is not None:
        connections.client(using)  # an unknown alias is an error
    return {one.name: one for one in registered() if isinstance(one, ModelIndex) and using in (None, one.using)}


def _compare(options: dict[str, Any], *, repair: bool) -> CommandResult:
    indexes = choose(indexes_of_models(options["using"]), options["names"])
    return compare(indexes, command_line("redis", "autocomplete", "repair"), repair=repair)


def _leftovers(names: Sequence[str], using: str) -> Leftovers:
    with scan_progress("unregistered indexes", connections.client(using)) as advance:
        found = find_leftovers(using, advance)
    return {
        name: keys
        for name, keys in sorted(found.items())
        if not names or any(name == one or name.startswith(f"{one}:") for one in names)
    }


def _listed(found: Leftovers, heading: str) -> CommandResult:
    data = {"unregistered": [{"name": name, "keys": len(keys)} for name, keys in found.items()]}
    rows = [(name, f"{len(keys):,}") for name, keys in found.items()]
    return CommandResult(data, table=TextTable((heading, "NUMBER OF KEYS"), rows, frozenset({"NUMBER OF KEYS"})))
