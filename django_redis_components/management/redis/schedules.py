"""`manage.py redis schedules`: lists periodic tasks, runs one now, pauses, resumes and removes them."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes, system_user
from django_redis_components.management.listings import task_listing
from django_redis_components.management.redis import groups
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import ScheduleDoesNotExist
from django_redis_components.taskqueue.schedules import status
from django_redis_components.taskqueue.schedules.changes import Schedules

#: Commands and their descriptions.
VERBS = {
    "list": "list periodic tasks with their next run and their last task",
    "run": "enqueue the task of a schedule now; its next run does not change",
    "pause": "enqueue nothing of a schedule until it is resumed; times that pass meanwhile are not made up for",
    "resume": "resume a paused schedule",
    "remove": "remove a schedule that was added at run time (asks for confirmation)",
}


class Group(groups.CommandGroup):
    """Lists and changes periodic tasks."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS)
        for verb in ("run", "pause", "resume", "remove"):
            made[verb].add_argument("name", metavar="NAME", help="name of the schedule, as listed")
        add_yes(made["remove"])

    def perform_list(self, options: dict[str, Any]) -> CommandResult:
        """See `list_schedules`."""
        return list_schedules(options["using"])

    def perform_run(self, options: dict[str, Any]) -> CommandResult:
        """See `run_schedule`."""
        return run_schedule(options["name"], options["using"])

    def perform_pause(self, options: dict[str, Any]) -> CommandResult:
        """See `change`."""
        return change("pause", options["name"], options["using"])

    def perform_resume(self, options: dict[str, Any]) -> CommandResult:
        """See `change`."""
        return change("resume", options["name"], options["using"])

    def perform_remove(self, options: dict[str, Any]) -> CommandResult:
        """Remove an added schedule after a confirmation."""
        if not options["yes"]:
            question = f"Remove the schedule {options['name']!r}? It cannot be restored."
            self.command.ask(question, "Nothing was removed.")
        return change("remove", options["name"], options["using"])


#: What a change reports: if it was made, and if there was nothing to change.
TEXTS = {
    "pause": ("Paused: {name}.", "It was paused already: {name}."),
    "resume": ("Resumed: {name}.", "Not paused: {name}."),
    "remove": ("Removed: {name}.", "Not removed: it was not added at run time: {name}."),
}


def list_schedules(using: str) -> CommandResult:
    """Return the periodic tasks with their next run and their last task."""
    registry.autodiscover()
    found = run(connections.client(using), status.read_schedules(using))
    data = {"at": found.at, "schedules": [dataclasses.asdict(each) for each in found.schedules]}
    if not found.schedules:
        return CommandResult(data, "No schedules yet. Add `@every(60)` or `@cron(…)` above a task.")
    return CommandResult(data, table=task_listing.of_schedules(found))


def run_schedule(name: str, using: str) -> CommandResult:
    """Enqueue the task of a schedule at once. Its next due time does not change.

    Raises:
        ScheduleDoesNotExist: this process's code declares no such schedule, and none was added.
    """
    found = _name_of(name, using)
    result = Schedules(using=using).run_now(found)
    data = {"schedule": found, "id": result.id, "queue": result.queue_name}
    text = f"Enqueued task {result.id} of schedule {found!r} on queue {data['queue']!r}."
    return CommandResult(data, text)


def change(verb: str, name: str, using: str) -> CommandResult:
    """Pause, resume or remove a schedule.

    Raises:
        ScheduleDoesNotExist: there is no such schedule.
    """
    found, schedules = _name_of(name, using), Schedules(using=using)
    if verb == "pause":
        has_changed = schedules.pause(found, author=system_user())
    else:
        has_changed = schedules.resume(found) if verb == "resume" else schedules.remove(found)
    text = TEXTS[verb][0 if has_changed else 1].format(name=found)
    return CommandResult({"schedule": found, "changed": has_changed}, text)


def _name_of(name: str, using: str) -> str:
    """Return the name of a schedule from its name or its label: the list shows names without the times."""
    registry.autodiscover()
    found = run(connections.client(using), status.read_schedules(using)).schedules
    names = {each.name for each in found}
    labels = {each.label: each.name for each in found}
    if name in names or name in labels:
        return name if name in names else labels[name]
    near = difflib.get_close_matches(name, [*names, *labels], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(sorted(names)) or 'none'}."
    raise ScheduleDoesNotExist(name, hint)
