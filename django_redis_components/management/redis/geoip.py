"""`manage.py redis geoip`: removes ranges of IP addresses."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.geoip import IpLookup
from django_redis_components.management.arguments import name
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes
from django_redis_components.management.redis import groups

#: Commands and their descriptions.
VERBS = {"delete": "remove ranges that `load_ip_ranges` has loaded (asks for confirmation)"}


class Group(groups.CommandGroup):
    """Removes ranges of IP addresses."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS)
        made["delete"].add_argument(
            "name",
            type=name,
            nargs="?",
            default="default",
            metavar="NAME",
            help="name of the ranges (default: default)",
        )
        add_yes(made["delete"])

    def perform_delete(self, options: dict[str, Any]) -> CommandResult:
        """Remove the ranges after a confirmation."""
        lookup = IpLookup(options["name"], source="ranges", using=options["using"])
        if not options["yes"]:
            self.command.ask(f'Remove the ranges "{lookup.name}"?', "Nothing was removed.")
        deleted = lookup.delete()
        text = f'The ranges "{lookup.name}" are removed.' if deleted else f'There are no ranges "{lookup.name}".'
        return CommandResult({"name": lookup.name, "deleted": deleted}, text)
