"""The list of the groups of `manage.py redis`, their base class and their parser."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management.base import CommandResult, OperatorCommand, accept_django_options

#: What each group is for. To add one, add its line, and a module of its name with a class `Group`.
GROUPS = {
    "doctor": "find problems of the installation, with their fixes",
    "migrate": "convert stored data to the formats of this release",
    "top": "watch queues, workers and running tasks live",
    "queues": "show queues; pause, resume, purge and restore one; retry or delete its failed tasks",
    "tasks": "list, find and show tasks; start one by hand; retry, reschedule, update, move, cancel or delete them",
    "shards": "show the shards of the task queue; plan where queues go; move tasks; check that one is empty",
    "workers": "list worker processes; quiet, resume, restart or stop them; change their pools",
    "schedules": "list periodic tasks; run, pause, resume or remove one; export and import them",
    "flows": "show the tasks of a flow (a chain or a group)",
    "outbox": "show the rows that wait in the outbox, and the active relay",
    "locks": "list the holders of locks and semaphores; release one",
    "limits": "list rate limits; show, reset, block or unblock a key",
    "analytics": "report, export and erase what analytics has counted",
    "aggregation": "delete the counts of access logs; have files counted again",
    "geoip": "remove ranges of IP addresses",
    "autocomplete": "compare indexes with the database, repair them; delete what is left of unregistered ones",
    "search": "compare search indexes with the database, and repair them",
}


class CommandGroup:
    """A group of commands: declares their arguments, and executes one of them.

    Each method `perform_VERB` executes the command of its name, with an underscore for each hyphen. A group without
    commands overrides `perform`.
    """

    def __init__(self, command: OperatorCommand) -> None:
        self.command = command

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        raise NotImplementedError

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Execute the command that the options name."""
        method = getattr(self, f"perform_{options['verb'].replace('-', '_')}")
        result: CommandResult = method(options)
        return result


class GroupParser(CommandParser):
    """The parser of a group, whose module is imported when the parser is used: it imports its component."""

    def __init__(self, *, command: OperatorCommand, group: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._command = command
        self._group = group
        self._is_loaded = False

    def load(self) -> None:
        """Import the module of the group, and declare its arguments, unless that was done."""
        if self._is_loaded:
            return
        self._is_loaded = True
        group: CommandGroup = import_module(f"{__package__}.{self._group}").Group(self._command)
        accept_django_options(self)
        group.add_arguments(self)
        self.set_defaults(perform=group.perform)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Namespace, list[str]]:  # type: ignore[override]
        """Declare the arguments of the group, and parse them."""
        self.load()
        found, rest = super().parse_known_args(args, namespace)
        # `call_command` accepts by keyword what this command line may have.
        self._command.stealth_options = tuple(vars(found))
        return found, rest
