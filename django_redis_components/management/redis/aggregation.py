"""`manage.py redis aggregation`: deletes the counts of access logs, or has files counted again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.aggregation import LogAggregator
from django_redis_components.core.text import counted
from django_redis_components.management.arguments import name
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes
from django_redis_components.management.redis import groups

#: Commands and their descriptions.
VERBS = {
    "recount": "have the next `aggregate_logs` count files from their start; the counts that they have stay",
    "delete": "delete all counts of an aggregator, and which lines it has counted (asks for confirmation)",
}


class Group(groups.CommandGroup):
    """Changes what aggregators have counted."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS)
        for each in made.values():
            each.add_argument(
                "name", type=name, metavar="NAME", help="name of the aggregator, as in `aggregate_logs --name`"
            )
        made["recount"].add_argument("files", nargs="+", metavar="FILE", help="log files")
        add_yes(made["delete"])

    def perform_recount(self, options: dict[str, Any]) -> CommandResult:
        """Have each file counted again."""
        aggregator = LogAggregator(options["name"], using=options["using"])
        paths, problems = list(dict.fromkeys(options["files"])), []
        for path in paths:
            try:
                aggregator.recount_file(path)
            except (OSError, ImportError) as exc:  # ImportError: it is compressed, and the package for that is missing
                problems.append(f"{path}: {(getattr(exc, 'strerror', None) or str(exc)).rstrip('.')}.")
        count = len(paths) - len(problems)
        text = f"The next run counts {counted(count, 'file')} from the start."
        return CommandResult({"to_recount": count}, text, problem=" ".join(problems))

    def perform_delete(self, options: dict[str, Any]) -> CommandResult:
        """Delete the counts after a confirmation."""
        aggregator = LogAggregator(options["name"], using=options["using"])
        if not options["yes"]:
            self.command.ask(f'Remove all counts of "{aggregator.name}"?', "Nothing was removed.")
        deleted = aggregator.delete()
        text = f'The counts of "{aggregator.name}" are removed.' if deleted else f'"{aggregator.name}" has no counts.'
        return CommandResult({"name": aggregator.name, "deleted": deleted}, text)
