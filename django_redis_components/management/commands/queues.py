"""`manage.py queues`: parses arguments and prints the results of `QueueCommands`."""

from __future__ import annotations

import argparse
import getpass
import json
import shutil
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.core.serializers.json import DjangoJSONEncoder
from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.management.arguments import queue, seconds, whole_number
from django_redis_components.management.queue_commands import CommandResult, QueueCommands
from django_redis_components.management.tables import escape_controls, table
from django_redis_components.taskqueue.queue import MAX_OFFSET, MAX_PAGE
from django_redis_components.taskqueue.store.queues import LISTED

#: Subcommands and their descriptions.
VERBS = {
    "status": "show the depths and the throughput of queues, workers and poller",
    "pause": "stop fetching tasks of a queue; running tasks finish",
    "resume": "resume a paused queue",
    "purge": "remove all pending tasks of a queue (asks for confirmation; can be restored for 24 h)",
    "restore": "restore the tasks that a purge removed",
    "retry": "retry failed tasks",
    "delete": "delete failed or unregistered tasks permanently (asks for confirmation if no ids are given)",
    "tasks": "list the tasks of a queue in one state",
    "schedules": "list periodic tasks with their next run and their last task",
    "cancel": "cancel a pending task, or stop a running one",
}


class Command(BaseCommand):
    """Inspect and operate task queues."""

    help = (
        "Inspect and operate task queues. See `queues COMMAND --help`."
        " Exit codes: 0 done; 1 not or only partly done, with the reason on standard error; 2 invalid arguments."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
        made = {}
        for verb, does in VERBS.items():
            made[verb] = verbs.add_parser(verb, help=does, description=f"{does.capitalize()}.")
            made[verb].add_argument("--using", default="default", help="connection alias (default: default)")
            made[verb].add_argument("--json", action="store_true", help="print one line of JSON instead of text")
        made["status"].add_argument("names", nargs="*", type=queue, metavar="NAME", help="queues (default: all)")
        for verb in ("pause", "resume", "purge", "restore", "retry", "delete", "tasks"):
            made[verb].add_argument("name", type=queue, metavar="NAME", help="name of the queue")
        _add_pause_arguments(made["pause"])
        made["restore"].add_argument("purge_id", metavar="PURGE_ID", help="the id that the purge printed")
        for verb in ("purge", "delete"):
            made[verb].add_argument("--yes", action="store_true", help="do not ask for confirmation")
        for verb, default in (("retry", "all failed tasks"), ("delete", "all failed tasks")):
            made[verb].add_argument("ids", nargs="*", metavar="ID", help=f"task ids (default: {default})")
        made["delete"].add_argument(
            "--unregistered", action="store_true", help="delete unregistered tasks, not failed ones"
        )
        _add_task_arguments(made["tasks"])
        made["cancel"].add_argument("id", metavar="ID", help="id of the task")
        made["cancel"].add_argument(
            "--force-after",
            type=seconds,
            metavar="SECONDS",
            help='grace period of a running task, in seconds (default: TASKQUEUE["CANCEL_GRACE"])',
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Execute the subcommand."""
        commands = QueueCommands(using=options["using"], author=_author())
        try:
            result: CommandResult = getattr(self, f"_{options['verb']}")(commands, options)
        except (RedisComponentsError, RedisError, ValueError) as exc:
            raise CommandError(escape_controls(str(exc))) from exc
        self._print(result, as_json=options["json"])
        if result.problem:
            raise CommandError(escape_controls(result.problem))

    def _status(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        return commands.status(options["names"])

    def _schedules(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        return commands.schedules()

    def _pause(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        return commands.pause(options["name"], reason=options["reason"], until=options["until"])

    def _resume(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        return commands.resume(options["name"])

    def _purge(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        name = options["name"]
        if not options["yes"] and (waiting := commands.purgeable(name)):
            self._ask(f"Purge the {waiting:,} waiting tasks of queue {name!r}?", "Nothing was purged.")
        return commands.purge(name)

    def _restore(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        return commands.restore(options["name"], options["purge_id"])

    def _retry(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        return commands.retry(options["name"], options["ids"])

    def _delete(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        name, ids, unregistered = options["name"], options["ids"], options["unregistered"]
        if not ids and not options["yes"] and (count := commands.deletable(name, unregistered=unregistered)):
            kind = "unregistered" if unregistered else "failed"
            self._ask(f"Delete the {count:,} {kind} tasks of queue {name!r} for good?", "Nothing was deleted.")
        return commands.delete(name, ids, unregistered=unregistered)

    def _tasks(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        return commands.tasks(
            options["name"],
            options["state"],
            limit=options["limit"],
            offset=options["offset"],
            with_arguments=options["with_arguments"],
        )

    def _cancel(self, commands: QueueCommands, options: dict[str, Any]) -> CommandResult:
        return commands.cancel(options["id"], options["force_after"])

    def _ask(self, question: str, refused: str) -> None:
        """Ask for confirmation on standard error, because standard output may be piped. Raise unless confirmed."""
        if not sys.stdin.isatty():
            raise CommandError(f"{refused} No terminal to ask for confirmation; pass --yes.")
        self.stderr.write(f"{escape_controls(question)} [y/N] ", self.style.NOTICE, ending="")
        self.stderr.flush()
        try:
            reply = sys.stdin.readline().strip().lower()
        except KeyboardInterrupt:
            reply = ""
        if reply not in ("y", "yes"):
            raise CommandError(refused)

    def _print(self, result: CommandResult, *, as_json: bool) -> None:
        if result.note:
            self.stderr.write(escape_controls(result.note), self.style.WARNING)
        if as_json:
            self.stdout.write(json.dumps(result.data, cls=DjangoJSONEncoder))
            return
        if result.table is not None:
            columns = shutil.get_terminal_size().columns if self.stdout.isatty() else None
            rows = table(result.table.headers, result.table.rows, right=result.table.numbers, columns=columns)
            self.stdout.write(f"{rows}\n\n", ending="")
        if result.text:
            self.stdout.write(escape_controls(result.text))


def _add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="reason to display (default: none)")
    parser.add_argument(
        "--until", type=seconds, metavar="SECONDS", help="resume after this many seconds (default: never)"
    )


def _add_task_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("state", metavar="STATE", choices=LISTED, help=", ".join(LISTED))
    parser.add_argument(
        "--limit", type=whole_number(1, MAX_PAGE), default=50, help=f"number of tasks, 1 to {MAX_PAGE:,} (default: 50)"
    )
    parser.add_argument(
        "--offset",
        type=whole_number(0, MAX_OFFSET),
        default=0,
        help="number of tasks to skip (default: 0)",
    )
    parser.add_argument(
        "--args",
        action="store_true",
        dest="with_arguments",
        help="show arguments, which may be confidential",
    )


def _author() -> str:
    """Return the name of the system user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return ""
