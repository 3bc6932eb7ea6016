"""`manage.py schedules`: lists periodic tasks, runs one now, pauses, resumes and removes them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management import schedule_commands
from django_redis_components.management.base import EXIT_CODES, CommandResult, OperatorCommand, add_subcommands, add_yes

#: Subcommands and their descriptions.
VERBS = {
    "list": "list periodic tasks with their next run and their last task",
    "run": "enqueue the task of a schedule now; its next run does not change",
    "pause": "enqueue nothing of a schedule until it is resumed; times that pass meanwhile are not made up for",
    "resume": "end a pause",
    "remove": "remove a schedule that was added at run time",
}


class Command(OperatorCommand):
    """Inspect and change periodic tasks."""

    help = f"List periodic tasks; run, pause, resume or remove one. See `schedules COMMAND --help`. {EXIT_CODES}"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        made = add_subcommands(parser, VERBS)
        for verb in ("run", "pause", "resume", "remove"):
            made[verb].add_argument("name", metavar="NAME", help="name of the schedule, as listed")
        add_yes(made["remove"])

    def perform_list(self, options: dict[str, Any]) -> CommandResult:
        """See `schedule_commands.list_schedules`."""
        return schedule_commands.list_schedules(options["using"])

    def perform_run(self, options: dict[str, Any]) -> CommandResult:
        """See `schedule_commands.run_schedule`."""
        return schedule_commands.run_schedule(options["name"], options["using"])

    def perform_pause(self, options: dict[str, Any]) -> CommandResult:
        """See `Schedules.pause`."""
        return schedule_commands.change("pause", options["name"], options["using"])

    def perform_resume(self, options: dict[str, Any]) -> CommandResult:
        """See `Schedules.resume`."""
        return schedule_commands.change("resume", options["name"], options["using"])

    def perform_remove(self, options: dict[str, Any]) -> CommandResult:
        """Remove an added schedule after a confirmation."""
        if not options["yes"]:
            self.ask(f"Remove the schedule {options['name']!r}? It cannot be restored.", "Nothing was removed.")
        return schedule_commands.change("remove", options["name"], options["using"])
