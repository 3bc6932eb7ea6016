"""`manage.py limits`: lists rate limits, and shows or resets the state of a key."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management import limit_commands
from django_redis_components.management.base import (
    EXIT_CODES,
    CommandResult,
    OperatorCommand,
    add_subcommands,
    add_yes,
)

#: Subcommands and their descriptions.
VERBS = {
    "list": "list the rate limits that the site has used",
    "show": "show what the next hit of a key would get; nothing is counted",
    "reset": "delete the counts and the penalty block of a key (asks for confirmation)",
}


class Command(OperatorCommand):
    """Inspect and reset rate limits."""

    help = f"List rate limits, and show or reset the state of a key. See `limits COMMAND --help`. {EXIT_CODES}"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands. A limit determines its connection."""
        made = add_subcommands(parser, VERBS, with_connection=False)
        for verb in ("show", "reset"):
            made[verb].add_argument("name", metavar="NAME", help="name or id of the limit, as listed")
            made[verb].add_argument("key", metavar="KEY", help="the key, such as an address or a user's id")
        add_yes(made["reset"])

    def perform_list(self, options: dict[str, Any]) -> CommandResult:
        """See `limit_commands.list_limits`."""
        return limit_commands.list_limits()

    def perform_show(self, options: dict[str, Any]) -> CommandResult:
        """See `limit_commands.show_key`."""
        return limit_commands.show_key(options["name"], options["key"])

    def perform_reset(self, options: dict[str, Any]) -> CommandResult:
        """See `limit_commands.reset_key`."""
        name, key = options["name"], options["key"]
        limit_commands.find(name)
        if not options["yes"]:
            self.ask(f"Reset key {key!r} of limit {name!r}?", "Nothing was reset.")
        return limit_commands.reset_key(name, key)
