"""The commands of `manage.py redis tasks`: their arguments."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management.arguments import queue, seconds, whole_number
from django_redis_components.management.base import CommandResult, add_subcommands
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.tasks import operations
from django_redis_components.taskqueue.queue import MAX_OFFSET, MAX_PAGE
from django_redis_components.taskqueue.store.control import LISTED

#: Commands and their descriptions.
VERBS = {
    "list": "list the tasks of a queue in one state",
    "show": "show a task: its state, why it does not run, its runs and its last error",
    "cancel": "cancel a pending task, or stop a running one",
    "run-now": "make a scheduled task, or one that waits for its next attempt, due at once",
}


class Group(groups.CommandGroup):
    """Shows and changes single tasks."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS)
        _add_page_arguments(made["list"])
        for verb in ("show", "cancel", "run-now"):
            made[verb].add_argument("id", metavar="ID", help="id of the task")
        for verb in ("list", "show"):
            made[verb].add_argument(
                "--args", action="store_true", dest="with_arguments", help="show arguments, which may be confidential"
            )
        made["cancel"].add_argument(
            "--force-after",
            type=seconds,
            metavar="SECONDS",
            help='grace period of a running task, in seconds (default: TASKQUEUE["CANCEL_GRACE"])',
        )

    def perform_list(self, options: dict[str, Any]) -> CommandResult:
        """See `operations.list_tasks`."""
        return operations.list_tasks(
            options["queue"],
            options["state"],
            limit=options["limit"],
            offset=options["offset"],
            with_arguments=options["with_arguments"],
            using=options["using"],
        )

    def perform_show(self, options: dict[str, Any]) -> CommandResult:
        """See `operations.show_task`."""
        return operations.show_task(options["id"], with_arguments=options["with_arguments"], using=options["using"])

    def perform_cancel(self, options: dict[str, Any]) -> CommandResult:
        """See `operations.cancel_task`."""
        return operations.cancel_task(options["id"], options["force_after"], using=options["using"])

    def perform_run_now(self, options: dict[str, Any]) -> CommandResult:
        """See `operations.run_task_now`."""
        return operations.run_task_now(options["id"], using=options["using"])


def _add_page_arguments(parser: CommandParser) -> None:
    parser.add_argument("queue", type=queue, metavar="QUEUE", help="name of the queue")
    parser.add_argument("state", metavar="STATE", choices=LISTED, help=", ".join(LISTED))
    parser.add_argument(
        "--limit",
        type=whole_number(1, MAX_PAGE),
        default=50,
        metavar="N",
        help=f"number of tasks, 1 to {MAX_PAGE:,} (default: 50)",
    )
    parser.add_argument(
        "--offset",
        type=whole_number(0, MAX_OFFSET),
        default=0,
        metavar="N",
        help="number of tasks to skip (default: 0)",
    )
