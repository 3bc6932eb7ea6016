"""`manage.py redis schedules`: lists and changes periodic tasks; exports and imports those added at run time."""

from __future__ import annotations

import dataclasses
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.core.protocol import Flow
from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes, system_user
from django_redis_components.management.jobs import celery_beat
from django_redis_components.management.listings import task_listing
from django_redis_components.management.redis import groups
from django_redis_components.management.tables import TextTable
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import ScheduleDoesNotExist
from django_redis_components.taskqueue.schedules import status, transfer
from django_redis_components.taskqueue.schedules.changes import Schedules, remove_elsewhere
from django_redis_components.taskqueue.shard_clients import over, run_over
from django_redis_components.taskqueue.shards import shards_of

#: Commands and their descriptions.
VERBS = {
    "list": "list periodic tasks with their next run and their last task",
    "run": "enqueue the task of a schedule now; its next run does not change",
    "pause": "enqueue nothing of a schedule until it is resumed; times that pass meanwhile are not made up for",
    "resume": "resume a paused schedule",
    "remove": "remove a schedule that was added at run time (asks for confirmation)",
    "export": "write the schedules that were added at run time to standard output, a line of JSON for each",
    "import": "add or replace schedules from such lines: all of them, or none",
    "import-celery-beat": "add or replace schedules from the tables of django-celery-beat; says what has no equivalent",
}


class Group(groups.CommandGroup):
    """Lists and changes periodic tasks."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS)
        for verb in ("run", "pause", "resume", "remove"):
            made[verb].add_argument("name", metavar="NAME", help="name of the schedule, as listed")
        add_yes(made["remove"])
        made["import"].add_argument("file", metavar="FILE", help="file of an export; - for standard input")
        made["import-celery-beat"].add_argument(
            "--database", default="default", metavar="ALIAS", help="database with the tables (default: default)"
        )
        for verb in ("import", "import-celery-beat"):
            made[verb].add_argument("--dry-run", action="store_true", help="check and report, and import nothing")

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
        return remove(options["name"], options["using"])

    def perform_export(self, options: dict[str, Any]) -> CommandResult:
        """See `export`."""
        return export(options["using"])

    def perform_import(self, options: dict[str, Any]) -> CommandResult:
        """See `import_lines`."""
        return import_lines(_read_lines(options["file"]), options["using"], dry_run=options["dry_run"])

    def perform_import_celery_beat(self, options: dict[str, Any]) -> CommandResult:
        """See `import_celery_beat`."""
        return import_celery_beat(options["database"], options["using"], dry_run=options["dry_run"])


#: What a change reports: if it was made, and if there was nothing to change.
TEXTS = {
    "pause": ("Paused: {name}.", "It was paused already: {name}."),
    "resume": ("Resumed: {name}.", "Not paused: {name}."),
}

#: Why a schedule was not removed: a poller would register one of the code again.
NOT_ADDED = (
    "Not removed: '{name}' was not added at run time, or was removed before. A schedule of the code ends with its "
    "decorator; `redis schedules pause` stops it until it is resumed."
)


def list_schedules(using: str) -> CommandResult:
    """Return the periodic tasks with their next run and their last task."""
    registry.autodiscover()
    found = run_over(using, status.read_schedules(using))
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
    """Pause or resume a schedule.

    Raises:
        ScheduleDoesNotExist: there is no such schedule.
    """
    found, schedules = _name_of(name, using), Schedules(using=using)
    has_changed = schedules.pause(found, author=system_user()) if verb == "pause" else schedules.resume(found)
    text = TEXTS[verb][0 if has_changed else 1].format(name=found)
    return CommandResult({"schedule": found, "changed": has_changed}, text)


def remove(name: str, using: str) -> CommandResult:
    """Remove a schedule that was added at run time.

    Raises:
        ScheduleDoesNotExist: there is no such schedule.
    """
    found = _name_of(name, using)
    has_changed = Schedules(using=using).remove(found)
    text, problem = (f"Removed: {found}.", "") if has_changed else ("", NOT_ADDED.format(name=found))
    return CommandResult({"schedule": found, "changed": has_changed}, text, problem=problem)


def export(using: str) -> CommandResult:
    """Return the schedules that were added at run time, a line of JSON for each."""
    lines, damaged = [], []
    for stored in _read_added(using):
        try:
            lines.append(stored.line)
        except (ValueError, RecursionError):
            damaged.append(stored.name)
    data = {"schedules": [json.loads(line) for line in lines], "damaged": damaged}
    problem = f"Not exported, since the definition is damaged: {', '.join(damaged)}." if damaged else ""
    return CommandResult(data, "\n".join(lines), problem=problem, log=f"{counted(len(lines), 'schedule')} exported.")


def import_lines(lines: Sequence[str], using: str, *, dry_run: bool) -> CommandResult:
    """Add or replace the schedules of an export; nothing if a line is refused."""
    accepted, refused = transfer.parse_lines(lines, using)
    if refused:
        errors = [dataclasses.asdict(each) for each in refused]
        problem = f"Refused: {len(refused)} of {counted(len(refused) + len(accepted), 'line')}. Nothing was imported."
        text = "\n".join(map(str, refused))
        return CommandResult({"refused": errors}, text, problem=problem, log=problem)
    counts = _import(accepted, using, dry_run=dry_run)
    return CommandResult(counts, _import_text(counts))


def import_celery_beat(database: str, using: str, *, dry_run: bool) -> CommandResult:
    """Add or replace schedules from the tables of django-celery-beat."""
    found = celery_beat.read_translations(database, using)
    counts = _import([each.new for each in found if each.new], using, dry_run=dry_run)
    rows = [(each.name, each.task, _times_of(each), _outcome_of(each)) for each in found]
    data = counts | {
        "entries": [{"name": each.name, "task": each.task, "error": each.error, "notes": each.notes} for each in found]
    }
    left = sum(each.new is None and each.is_needed for each in found)
    problem = f"No equivalent for {left} of {counted(len(found), 'entry', 'entries')}: see the table." if left else ""
    table = TextTable(("NAME", "TASK", "SCHEDULE", "RESULT"), rows, frozenset())
    return CommandResult(data, _import_text(counts), table if rows else None, problem=problem, log=_import_text(counts))


def _import(new: Sequence[transfer.NewSchedule], using: str, *, dry_run: bool) -> dict[str, Any]:
    """Import schedules, or count what an import would do."""
    if dry_run:
        known = {each.name for each in _read_added(using)}
        replaced = sum(each.name in known for each in new)
        added = len(new) - replaced
        transfer.check_total(len(known) + added)
    else:
        added, replaced = run_over(using, _import_all(using, new))
    return {"added": added, "replaced": replaced, "dry_run": dry_run}


def _import_all(using: str, new: Sequence[transfer.NewSchedule]) -> Flow[tuple[int, int]]:
    """Import schedules into the shards of their queues; return how many were added, and how many replaced."""
    shards = shards_of(using)
    by_shard = {shard: [each for each in new if each.schedule.shard == shard] for shard in shards}
    elsewhere = {each.name for each in (yield from _added_of(using))} if len(shards) > 1 else set[str]()
    moved = 0
    counts = [(0, 0)]
    for shard, some in by_shard.items():
        before = {each.name for each in (yield from transfer.read_added(shard))} if elsewhere else set[str]()
        if some:
            counts.append((yield from transfer.import_all(shard, some)))
        for each in some:
            if each.name in elsewhere - before:
                yield from remove_elsewhere(shard, each.name)
                moved += 1
    added, replaced = map(sum, zip(*counts, strict=True))
    return added - moved, replaced + moved


def _read_added(using: str) -> list[transfer.StoredSchedule]:
    return run_over(using, _added_of(using))


def _added_of(using: str) -> Flow[list[transfer.StoredSchedule]]:
    parts = yield from over(shards_of(using), transfer.read_added)
    return [each for part in parts for each in part]


def _import_text(counts: dict[str, Any]) -> str:
    if counts["dry_run"]:
        return f"Nothing was imported (dry run). Would add {counts['added']:,} and replace {counts['replaced']:,}."
    return f"Added {counts['added']:,}, replaced {counts['replaced']:,}."


def _times_of(translation: celery_beat.Translation) -> str:
    return translation.new.schedule.recurrence.text if translation.new else ""


def _outcome_of(translation: celery_beat.Translation) -> str:
    if translation.new is None:
        return f"{'not translated' if translation.is_needed else 'not needed'}: {translation.error}"
    paused = () if translation.new.paused is None else ("paused",)
    return ", ".join(["ok", *paused, *translation.notes])


def _read_lines(path: str) -> list[str]:
    """Return the lines of a file in UTF-8.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return text.decode("utf-8-sig").split("\n")
    except (OSError, ValueError) as exc:
        raise CommandError(f"{path!r} cannot be read: {exc}") from exc


def _name_of(name: str, using: str) -> str:
    """Return the name of a schedule from its name or its label: the list shows names without the times."""
    registry.autodiscover()
    found = run_over(using, status.read_schedules(using)).schedules
    names = {each.name for each in found}
    labels = {each.label: each.name for each in found}
    if name in names or name in labels:
        return name if name in names else labels[name]
    near = difflib.get_close_matches(name, [*names, *labels], n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(sorted(names)) or 'none'}."
    raise ScheduleDoesNotExist(name, hint)
