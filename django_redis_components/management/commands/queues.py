"""`manage.py queues`: parses arguments and prints the results of `QueueCommands`."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management.arguments import queue, seconds, whole_number
from django_redis_components.management.base import (
    EXIT_CODES,
    CommandResult,
    OperatorCommand,
    add_subcommands,
    add_yes,
    system_user,
)
from django_redis_components.management.queue_commands import QueueCommands
from django_redis_components.taskqueue.queue import MAX_OFFSET, MAX_PAGE
from django_redis_components.taskqueue.stats.errors import MAX_ERRORS
from django_redis_components.taskqueue.store.control import LISTED

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
    "show": "show a task: its state, its runs and its last error",
    "errors": "list the errors of a queue in groups, newest first",
    "cancel": "cancel a pending task, or stop a running one",
    "run-now": "make a scheduled task, or one that waits for its next attempt, due at once",
}


class Command(OperatorCommand):
    """Inspect and operate task queues."""

    help = f"Inspect and operate task queues. See `queues COMMAND --help`. {EXIT_CODES}"

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the subcommands."""
        made = add_subcommands(parser, VERBS)
        made["status"].add_argument("names", nargs="*", type=queue, metavar="NAME", help="queues (default: all)")
        for verb in ("pause", "resume", "purge", "restore", "retry", "delete", "tasks", "errors"):
            made[verb].add_argument("name", type=queue, metavar="NAME", help="name of the queue")
        _add_pause_arguments(made["pause"])
        made["restore"].add_argument("purge_id", metavar="PURGE_ID", help="the id that the purge printed")
        for verb in ("purge", "delete"):
            add_yes(made[verb])
        for verb, default in (("retry", "all failed tasks"), ("delete", "all failed tasks")):
            made[verb].add_argument("ids", nargs="*", metavar="ID", help=f"task ids (default: {default})")
        made["delete"].add_argument(
            "--unregistered", action="store_true", help="delete unregistered tasks, not failed ones"
        )
        _add_task_arguments(made["tasks"])
        made["errors"].add_argument(
            "--limit",
            type=whole_number(1, MAX_ERRORS),
            default=20,
            help=f"number of error groups, 1 to {MAX_ERRORS} (default: 20)",
        )
        for verb in ("show", "cancel", "run-now"):
            made[verb].add_argument("id", metavar="ID", help="id of the task")
        _add_arguments_option(made["show"])
        made["cancel"].add_argument(
            "--force-after",
            type=seconds,
            metavar="SECONDS",
            help='grace period of a running task, in seconds (default: TASKQUEUE["CANCEL_GRACE"])',
        )

    def perform_status(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.status`."""
        return _commands(options).status(options["names"])

    def perform_pause(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.pause`."""
        return _commands(options).pause(options["name"], reason=options["reason"], until=options["until"])

    def perform_resume(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.resume`."""
        return _commands(options).resume(options["name"])

    def perform_purge(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.purge`."""
        name = options["name"]
        if not options["yes"] and (waiting := _commands(options).purgeable(name)):
            self.ask(f"Purge the {waiting:,} waiting tasks of queue {name!r}?", "Nothing was purged.")
        return _commands(options).purge(name)

    def perform_restore(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.restore`."""
        return _commands(options).restore(options["name"], options["purge_id"])

    def perform_retry(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.retry`."""
        return _commands(options).retry(options["name"], options["ids"])

    def perform_delete(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.delete`."""
        name, ids, unregistered = options["name"], options["ids"], options["unregistered"]
        if not ids and not options["yes"] and (count := _commands(options).deletable(name, unregistered=unregistered)):
            kind = "unregistered" if unregistered else "failed"
            self.ask(f"Delete the {count:,} {kind} tasks of queue {name!r} for good?", "Nothing was deleted.")
        return _commands(options).delete(name, ids, unregistered=unregistered)

    def perform_tasks(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.tasks`."""
        return _commands(options).tasks(
            options["name"],
            options["state"],
            limit=options["limit"],
            offset=options["offset"],
            with_arguments=options["with_arguments"],
        )

    def perform_show(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.show`."""
        return _commands(options).show(options["id"], with_arguments=options["with_arguments"])

    def perform_errors(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.errors`."""
        return _commands(options).errors(options["name"], options["limit"])

    def perform_run_now(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.run_now`."""
        return _commands(options).run_now(options["id"])

    def perform_cancel(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueCommands.cancel`."""
        return _commands(options).cancel(options["id"], options["force_after"])


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
    _add_arguments_option(parser)


def _add_arguments_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--args", action="store_true", dest="with_arguments", help="show arguments, which may be confidential"
    )


def _commands(options: dict[str, Any]) -> QueueCommands:
    return QueueCommands(using=options["using"], author=system_user())
