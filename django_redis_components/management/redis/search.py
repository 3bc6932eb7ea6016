"""`manage.py redis search`: compares the search indexes of models with the database, and repairs them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.client import connections
from django_redis_components.core.command_line import command_line
from django_redis_components.management.base import CommandResult, add_subcommands
from django_redis_components.management.jobs.rebuilding import COMPARISONS, USING, add_names, choose, compare
from django_redis_components.management.redis import groups
from django_redis_components.search import ModelSearch, registered


class Group(groups.CommandGroup):
    """Compares search indexes."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        for made in add_subcommands(parser, COMPARISONS, using=dict.fromkeys(COMPARISONS, USING)).values():
            add_names(made)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Compare each index, and repair it if wanted."""
        indexes = choose(indexes_of_models(options["using"]), options["names"])
        return compare(indexes, command_line("redis", "search", "repair"), repair=options["verb"] == "repair")


def indexes_of_models(using: str | None = None) -> dict[str, ModelSearch]:
    """Return the search indexes of models by name, on all connections or on one."""
    if using is not None:
        connections.client(using)  # an unknown alias is an error
    return {one.name: one for one in registered() if using in (None, one.index.using)}
