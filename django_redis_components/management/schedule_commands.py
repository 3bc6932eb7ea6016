"""The operations of `manage.py schedules`, independent of argparse and of the terminal."""

from __future__ import annotations

import dataclasses
import difflib

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.management import task_listing as listing
from django_redis_components.management.base import CommandResult
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.schedules import schedule, status


def list_schedules(using: str) -> CommandResult:
    """Return the periodic tasks with their next run and their last task."""
    registry.autodiscover()
    found = run(connections.client(using), status.read_schedules(using))
    data = {"at": found.at, "schedules": [dataclasses.asdict(each) for each in found.schedules]}
    if not found.schedules:
        return CommandResult(data, "No schedules yet. Add `@every(60)` or `@cron(…)` above a task.")
    return CommandResult(data, table=listing.of_schedules(found))


def run_schedule(name: str, using: str) -> CommandResult:
    """Enqueue the task of a schedule at once. Its next slot does not change.

    Raises:
        ValueError: this process's code declares no such schedule.
    """
    registry.autodiscover()
    declared = {each.name: each for each in schedule.registered(using)}
    # The list shows names without the times that a default name includes.
    labels = {each.name.replace(f" {each.slots.text}", "", 1): each for each in declared.values()}
    found = declared.get(name) or labels.get(name)
    if found is None:
        near = difflib.get_close_matches(name, [*declared, *labels], n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"Declared: {', '.join(declared) or 'none'}."
        raise ValueError(f"Schedule {name!r} is not declared in this project's code. {hint}")
    result = found.task.enqueue(*found.args, **found.kwargs)
    data = {"schedule": found.name, "id": result.id, "queue": found.task.options.queue_name}
    text = f"Enqueued task {result.id} of schedule {found.name!r} on queue {data['queue']!r}."
    return CommandResult(data, text)
