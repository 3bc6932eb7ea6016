"""The commands of `manage.py redis queues`: arguments, and the confirmation."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.core.text import counted
from django_redis_components.management.arguments import queue, seconds, wait_seconds, whole_number
from django_redis_components.management.base import CommandResult, ExitCode, add_subcommands, add_yes, system_user
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.queues.operations import QueueOperations
from django_redis_components.taskqueue.stats.errors import MAX_ERRORS
from django_redis_components.taskqueue.stats.groups import MAX_GROUPS
from django_redis_components.taskqueue.stats.metrics import MAX_MINUTES
from django_redis_components.taskqueue.store.workers import THREADS

#: Commands and their descriptions.
VERBS = {
    "status": "show the depths and the throughput of queues, workers and poller",
    "plan": "state how many workers the load of the last hours needs",
    "errors": "list the errors of a queue in groups, newest first",
    "groups": "list the groups of a queue that are served in turn",
    "pause": "stop fetching tasks of a queue, or of one of its groups; running tasks finish",
    "resume": "resume a paused queue or group",
    "purge": "remove all pending tasks of a queue (asks for confirmation; can be restored for 24 h)",
    "restore": "restore the tasks that a purge removed",
    "retry": "retry failed tasks",
    "delete": "delete failed or unregistered tasks permanently (asks for confirmation if no ids are given)",
}


class Group(groups.CommandGroup):
    """Shows and changes task queues."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS)
        for verb in ("status", "plan"):
            made[verb].add_argument("names", nargs="*", type=queue, metavar="NAME", help="queues (default: all)")
        _add_plan_arguments(made["plan"])
        for verb in VERBS:
            if verb not in ("status", "plan"):
                made[verb].add_argument("name", type=queue, metavar="NAME", help="name of the queue")
        made["errors"].add_argument(
            "--limit",
            type=whole_number(1, MAX_ERRORS),
            default=20,
            metavar="N",
            help=f"number of error groups, 1 to {MAX_ERRORS} (default: 20)",
        )
        made["groups"].add_argument(
            "--limit",
            type=whole_number(1, MAX_GROUPS),
            default=20,
            metavar="N",
            help=f"number of groups, 1 to {MAX_GROUPS} (default: 20); all paused ones are listed, too",
        )
        _add_pause_arguments(made["pause"])
        for verb in ("pause", "resume"):
            made[verb].add_argument("--group", metavar="GROUP", help="only this group (default: the whole queue)")
        made["restore"].add_argument("purge_id", metavar="PURGE_ID", help="the id that the purge printed")
        for verb in ("retry", "delete"):
            made[verb].add_argument("ids", nargs="*", metavar="ID", help="task ids (default: all failed tasks)")
        made["delete"].add_argument(
            "--unregistered", action="store_true", help="delete unregistered tasks, not failed ones"
        )
        for verb in ("purge", "delete"):
            add_yes(made[verb])

    def perform_status(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueOperations.status`."""
        return _operations(options).status(options["names"])

    def perform_plan(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueOperations.plan`."""
        names, minutes = options["names"], options["minutes"]
        share, threads = options["share"] / 100, options["threads"]
        return _operations(options).plan(names, minutes=minutes, wait_s=options["wait"], share=share, threads=threads)

    def perform_errors(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueOperations.errors`."""
        return _operations(options).errors(options["name"], options["limit"])

    def perform_groups(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueOperations.groups`."""
        return _operations(options).groups(options["name"], options["limit"])

    def perform_pause(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueOperations.pause` and `pause_group`."""
        operations, name, reason, until = _operations(options), options["name"], options["reason"], options["until"]
        if options["group"] is None:
            return operations.pause(name, reason=reason, until=until)
        if until is not None:
            raise CommandError(
                "--until is not accepted with --group: a group stays paused until it is resumed.",
                returncode=ExitCode.INVALID_ARGUMENTS,
            )
        return operations.pause_group(name, options["group"], reason=reason)

    def perform_resume(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueOperations.resume` and `resume_group`."""
        if options["group"] is None:
            return _operations(options).resume(options["name"])
        return _operations(options).resume_group(options["name"], options["group"])

    def perform_purge(self, options: dict[str, Any]) -> CommandResult:
        """Purge a queue after a confirmation."""
        name = options["name"]
        if not options["yes"] and (waiting := _operations(options).purgeable(name)):
            self.command.ask(f"Purge {counted(waiting, 'waiting task')} of queue {name!r}?", "Nothing was purged.")
        return _operations(options).purge(name)

    def perform_restore(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueOperations.restore`."""
        return _operations(options).restore(options["name"], options["purge_id"])

    def perform_retry(self, options: dict[str, Any]) -> CommandResult:
        """See `QueueOperations.retry`."""
        return _operations(options).retry(options["name"], options["ids"])

    def perform_delete(self, options: dict[str, Any]) -> CommandResult:
        """Delete tasks, all of them after a confirmation."""
        name, ids, unregistered = options["name"], options["ids"], options["unregistered"]
        operations = _operations(options)
        if not ids and not options["yes"] and (count := operations.deletable(name, unregistered=unregistered)):
            kind = "unregistered" if unregistered else "failed"
            self.command.ask(f"Delete the {count:,} {kind} tasks of queue {name!r} for good?", "Nothing was deleted.")
        return operations.delete(name, ids, unregistered=unregistered)


def _add_plan_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "--minutes",
        type=whole_number(1, MAX_MINUTES),
        default=60,
        metavar="N",
        help=f"plan for the busiest of the last N minutes, 1 to {MAX_MINUTES} (default: 60)",
    )
    parser.add_argument(
        "--wait", type=wait_seconds, default=1.0, metavar="SECONDS", help="longest wait of a ready task (default: 1)"
    )
    parser.add_argument(
        "--share", type=whole_number(1, 99), default=95, metavar="PERCENT", help="of the tasks (default: 95)"
    )
    parser.add_argument(
        "--threads",
        type=whole_number(1, 1_000),
        default=THREADS,
        metavar="N",
        help=f"threads of a worker process, 1 to 1000 (default: {THREADS})",
    )


def _add_pause_arguments(parser: CommandParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="reason to display (default: none)")
    parser.add_argument(
        "--until", type=seconds, metavar="SECONDS", help="resume after this many seconds (default: never)"
    )


def _operations(options: dict[str, Any]) -> QueueOperations:
    return QueueOperations(using=options["using"], author=system_user())
