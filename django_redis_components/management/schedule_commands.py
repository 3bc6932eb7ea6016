"""The operations of `manage.py schedules`, independent of argparse and of the terminal."""

from __future__ import annotations

import dataclasses
import difflib

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.management import task_listing
from django_redis_components.management.base import CommandResult, system_user
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.schedules import status
from django_redis_components.taskqueue.schedules.changes import Schedules

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
        ValueError: this process's code declares no such schedule, and none was added.
    """
    found = _name_of(name, using)
    result = Schedules(using=using).run_now(found)
    data = {"schedule": found, "id": result.id, "queue": result.queue_name}
    text = f"Enqueued task {result.id} of schedule {found!r} on queue {data['queue']!r}."
    return CommandResult(data, text)


def change(verb: str, name: str, using: str) -> CommandResult:
    """Pause, resume or remove a schedule.

    Raises:
        ValueError: there is no such schedule.
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
    raise ValueError(f"There is no schedule {name!r}. {hint}")
