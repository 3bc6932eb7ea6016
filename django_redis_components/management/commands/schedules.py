"""`manage.py schedules`: lists periodic tasks, and runs one now."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management import schedule_commands
from django_redis_components.management.base import EXIT_CODES, CommandResult, OperatorCommand, add_subcommands

#: Subcommands and their descriptions.
VERBS = {
    "list": "list periodic tasks with their next run and their last task",
    "run": "enqueue the task of a schedule now; its next run does not change",
}


class Command(OperatorCommand):
    """Inspect periodic tasks."""

    help = f"List periodic tasks, and run one now. See `schedules COMMAND --help`. {EXIT_CODES}"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        made = add_subcommands(parser, VERBS)
        made["run"].add_argument("name", metavar="NAME", help="name of the schedule, as listed")

    def perform_list(self, options: dict[str, Any]) -> CommandResult:
        """See `schedule_commands.list_schedules`."""
        return schedule_commands.list_schedules(options["using"])

    def perform_run(self, options: dict[str, Any]) -> CommandResult:
        """See `schedule_commands.run_schedule`."""
        return schedule_commands.run_schedule(options["name"], options["using"])
