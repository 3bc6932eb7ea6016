"""`manage.py flows`: shows the tasks of a flow."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management import flow_commands
from django_redis_components.management.base import EXIT_CODES, CommandResult, OperatorCommand, add_subcommands

#: Subcommands and their descriptions.
VERBS = {"show": "show the tasks of a flow, their states and what each depends on"}


class Command(OperatorCommand):
    """Inspect flows: chains and groups of tasks."""

    help = f"Show the tasks of a flow (a chain or a group). See `flows COMMAND --help`. {EXIT_CODES}"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        made = add_subcommands(parser, VERBS)
        made["show"].add_argument(
            "id", metavar="ID", help="id of the flow, as `queues show` and `queues tasks` list it"
        )

    def perform_show(self, options: dict[str, Any]) -> CommandResult:
        """See `flow_commands.show_flow`."""
        return flow_commands.show_flow(options["id"], options["using"])
