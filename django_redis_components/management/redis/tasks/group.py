"""The commands of `manage.py redis tasks`: their arguments."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.core.command_line import command_line
from django_redis_components.management.arguments import (
    duration,
    moment,
    past_moment,
    queue,
    seconds,
    wait_seconds,
    whole_number,
)
from django_redis_components.management.base import CommandResult, ExitCode, add_subcommands, add_yes
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.queues.operations import count_of_tasks
from django_redis_components.management.redis.tasks import bulk, enqueue, operations
from django_redis_components.management.redis.tasks.selection import filters_of, select_ids, select_matching
from django_redis_components.taskqueue.exceptions import TaskResultDoesNotExist
from django_redis_components.taskqueue.options import MAX_PRIORITY, check_moment, check_queue, when
from django_redis_components.taskqueue.queue import MAX_OFFSET, MAX_PAGE, get_queue
from django_redis_components.taskqueue.store.control import LISTED
from django_redis_components.taskqueue.store.scan import STATES, Filters
from django_redis_components.taskqueue.store.task_records import is_generated_id

#: Commands and their descriptions.
VERBS = {
    "list": "list the tasks of a queue in one state",
    "find": "search the tasks of all queues and states",
    "show": "show a task: its state, why it does not run, its runs and its last error; or the options of a name",
    "enqueue": "start a task by hand",
    "retry": "retry failed tasks: these, or those that match",
    "run-now": "make scheduled tasks, or ones that wait for their next attempt, due at once",
    "reschedule": "change when ready and scheduled tasks are due: of these, or of those that match",
    "update": "change a pending task: its arguments, priority, queue or expiry",
    "move": "move pending tasks to another queue: these, or those that match",
    "cancel": "cancel pending tasks, or stop running ones (asks for confirmation if no ids are given)",
    "delete": "delete failed or unregistered tasks permanently (asks for confirmation if no ids are given)",
}
#: Commands that change the tasks of these ids, or those that match filters.
CHANGES = ("retry", "run-now", "reschedule", "move", "cancel", "delete")
#: Options that select tasks.
FILTERS = ("queue", "name", "text", "error", "since", "until")
#: Most tasks that `find` looks at.
MAX_BUDGET = 10_000_000


class Group(groups.CommandGroup):
    """Finds, shows and changes tasks."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS, using={"enqueue": "connection alias (default: that of the task)"})
        _add_page_arguments(made["list"])
        _add_find_arguments(made["find"])
        made["show"].add_argument("id", metavar="ID", help="id of the task, or the name of a registered one")
        for verb in ("list", "find", "show"):
            made[verb].add_argument(
                "--args", action="store_true", dest="with_arguments", help="show arguments, which may be confidential"
            )
        for verb in CHANGES:
            _add_selection(made[verb], _states_of(verb))
        due = made["reschedule"].add_mutually_exclusive_group(required=True)
        due.add_argument("--in", dest="delay", type=duration, metavar="DURATION", help="from now: 90s, 15m, 1h, 2d")
        due.add_argument(
            "--at", type=_due_time, metavar="TIME", help="a time such as '2026-11-23 11:20', in the site's time zone"
        )
        _add_enqueue_arguments(made["enqueue"])
        _add_changes(made["update"])
        made["move"].add_argument("--to", type=queue, required=True, metavar="QUEUE", help="name of the other queue")
        made["cancel"].add_argument(
            "--force-after",
            type=seconds,
            metavar="SECONDS",
            help='grace period of a running task, in seconds (default: TASKQUEUE["CANCEL_GRACE"])',
        )
        for verb in ("cancel", "delete"):
            add_yes(made[verb])

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Execute a command. The error for a word that is no id names the command that searches tasks by name."""
        try:
            return super().perform(options)
        except TaskResultDoesNotExist as exc:
            if is_generated_id(exc.id):
                raise
            find = command_line("redis", "tasks", "find", arguments=[exc.id], using=options["using"] or "default")
            raise CommandError(f"{exc} To search tasks by name: {find}") from exc

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

    def perform_find(self, options: dict[str, Any]) -> CommandResult:
        """See `bulk.find`."""
        if not options["words"] and not options["state"]:
            _require_filters(options, "a text")
        return bulk.find(
            _filters(options, anywhere=" ".join(options["words"])),
            queue=options["queue"] or "",
            state=options["state"],
            limit=options["limit"],
            budget=options["budget"],
            with_arguments=options["with_arguments"],
            using=options["using"],
        )

    def perform_show(self, options: dict[str, Any]) -> CommandResult:
        """See `operations.show_task`."""
        return operations.show_task(options["id"], with_arguments=options["with_arguments"], using=options["using"])

    def perform_enqueue(self, options: dict[str, Any]) -> CommandResult:
        """See `enqueue.enqueue_task`."""
        run_after = options["at"] if options["delay"] is None else options["delay"]
        chosen = {"queue_name": options["queue"], "priority": options["priority"], "id": options["task_id"]}
        chosen = {name: value for name, value in (chosen | {"run_after": run_after}).items() if value is not None}
        task = enqueue.find_task(options["task"], options["using"])
        result = enqueue.enqueue_task(task, options["words"], options["named"], chosen)
        if options["wait"] is False:
            return enqueue.result_of_enqueue(result)
        self.command.stderr.write(enqueue.describe(result))
        return enqueue.wait_for(result, options["wait"])

    def perform_retry(self, options: dict[str, Any]) -> CommandResult:
        """See `bulk.retry`."""
        return self._change(options, bulk.retry())

    def perform_run_now(self, options: dict[str, Any]) -> CommandResult:
        """See `operations.run_task_now` and `bulk.reschedule`."""
        if _is_single(options):
            return operations.run_task_now(options["ids"][0], using=options["using"])
        return self._change(options, bulk.reschedule(""))

    def perform_reschedule(self, options: dict[str, Any]) -> CommandResult:
        """See `bulk.reschedule`."""
        return self._change(options, bulk.reschedule(when(options["at"] or options["delay"], "at")))

    def perform_update(self, options: dict[str, Any]) -> CommandResult:
        """See `operations.update_task`."""
        changes = {name: options[f"new_{name}"] for name in ("args", "kwargs", "priority", "queue_name", "expires")}
        changes = {name: value for name, value in changes.items() if value is not None}
        if options["no_expiry"]:
            changes["expires"] = None
        if not changes:
            raise CommandError(
                "Pass at least one of --args, --kwargs, --priority, --to, --expires-in, --expires-at, --no-expiry.",
                returncode=ExitCode.INVALID_ARGUMENTS,
            )
        return operations.update_task(options["id"], changes, using=options["using"])

    def perform_move(self, options: dict[str, Any]) -> CommandResult:
        """See `bulk.move`."""
        target = get_queue(options["to"], using=options["using"]).name
        if target == options["queue"]:
            raise CommandError(
                f"--to {target}: expected another queue than --queue.", returncode=ExitCode.INVALID_ARGUMENTS
            )
        return self._change(options, bulk.move(target))

    def perform_cancel(self, options: dict[str, Any]) -> CommandResult:
        """See `operations.cancel_task` and `bulk.cancel`."""
        if _is_single(options):
            return operations.cancel_task(options["ids"][0], options["force_after"], using=options["using"])
        with_running = bool(options["ids"]) or options["state"] == "running"
        return self._change(options, bulk.cancel(options["force_after"], with_running=with_running))

    def perform_delete(self, options: dict[str, Any]) -> CommandResult:
        """See `bulk.delete`."""
        return self._change(options, bulk.delete(options["state"]))

    def _change(self, options: dict[str, Any], verb: bulk.BulkVerb) -> CommandResult:
        """Change the tasks that the options select."""
        using = options["using"]
        if options["ids"]:
            if any(options[name] for name in FILTERS):
                raise CommandError("Pass ids of tasks or filters, not both.", returncode=ExitCode.INVALID_ARGUMENTS)
            return bulk.apply(verb, select_ids(using, options["ids"]))
        _require_filters(options, "ids of tasks")
        queue = options["queue"] or ""
        selected = select_matching(using, queue, options["state"], _filters(options))
        if not selected.count and queue:
            check_queue(queue)  # one that is no longer declared may have tasks
        if selected.count and not options.get("yes", True):
            tasks = (
                f"{count_of_tasks(selected.count, options['state'])} of {bulk.count_of_queues(len(selected.queues))}"
            )
            self.command.ask(f"{verb.name} {tasks}?", "Nothing was changed.")
        return bulk.apply(verb, selected)


def _states_of(verb: str) -> tuple[str, ...]:
    """Return the states of which filters select tasks; the first is the default."""
    verbs: dict[str, Callable[[], bulk.BulkVerb]] = {
        "retry": bulk.retry,
        "run-now": lambda: bulk.reschedule(""),
        "reschedule": lambda: bulk.reschedule("+1"),
        "move": lambda: bulk.move(""),
        "cancel": lambda: bulk.cancel(None, with_running=False),
        "delete": lambda: bulk.delete("failed"),
    }
    return verbs[verb]().states


def _due_time(text: str) -> datetime:
    """Parse a time at which a task may be due."""
    found = moment(text)
    try:
        check_moment(found, "due")
    except ValueError:
        raise ArgumentTypeError(f"{text!r}: expected a time up to 9999-12-30.") from None
    return found


def _is_single(options: dict[str, Any]) -> bool:
    """Return whether the command changes the task of one id."""
    return len(options["ids"]) == 1 and not any(options[name] for name in FILTERS)


def _filters(options: dict[str, Any], anywhere: str = "") -> Filters:
    names = ("name", "text", "error", "since", "until")
    return filters_of(anywhere=anywhere, **{name: options[name] for name in names})


def _require_filters(options: dict[str, Any], other: str) -> None:
    if not any(options[name] for name in FILTERS):
        names = ", ".join(f"--{name}" for name in FILTERS)
        raise CommandError(f"Pass {other}, or at least one of {names}.", returncode=ExitCode.INVALID_ARGUMENTS)


def _add_selection(parser: CommandParser, states: tuple[str, ...]) -> None:
    """Add ids, and the filters that select tasks without ids."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="ids of the tasks (default: those that match the filters)")
    _add_filters(parser)
    parser.add_argument(
        "--state",
        choices=states,
        default=states[0],
        metavar="STATE",
        help=f"state of those that match: {', '.join(states)} (default: {states[0]})",
    )


def _add_changes(parser: CommandParser) -> None:
    """Add the options of `update`. Django takes "args" of the parsed options for itself."""
    parser.add_argument("id", metavar="ID", help="id of the task")
    option, expiry = parser.add_argument, parser.add_mutually_exclusive_group()
    example = "all positional arguments, such as '[7, \"a\"]'"
    option("--args", type=_json(list, "a list"), dest="new_args", metavar="JSON", help=example)
    example = "all named arguments, such as '{\"order_id\": 7}'"
    option("--kwargs", type=_json(dict, "an object"), dest="new_kwargs", metavar="JSON", help=example)
    bounds = -MAX_PRIORITY, MAX_PRIORITY
    priority = f"{bounds[0]} to {bounds[1]}; higher first"
    option("--priority", type=whole_number(*bounds), dest="new_priority", metavar="N", help=priority)
    option("--to", type=queue, dest="new_queue_name", metavar="QUEUE", help="name of the other queue")
    expires: dict[str, Any] = {"dest": "new_expires", "metavar": "DURATION"}
    text = "from now, or from when it is due: 90s, 15m, 1h, 2d"
    expiry.add_argument("--expires-in", type=duration, help=text, **expires)
    text = "a time such as '2026-11-23 11:20', in the site's time zone"
    expiry.add_argument("--expires-at", type=_due_time, help=text, **expires | {"metavar": "TIME"})
    expiry.add_argument("--no-expiry", action="store_true", help="the task does not expire")


def _add_enqueue_arguments(parser: CommandParser) -> None:
    option, start = parser.add_argument, parser.add_mutually_exclusive_group()
    option("task", metavar="NAME", help="name of the task, such as shop.tasks.send_invoice, or an alias")
    text = (
        "positional arguments, directly after the name: JSON where a word is JSON, else text; 7 is a number, '\"7\"'"
        " and abc are texts. After --, words may begin with a hyphen"
    )
    option("words", nargs="*", type=enqueue.json_or_text, metavar="ARGUMENT", help=text)
    example = "named arguments, such as '{\"order_id\": 7}' (default: none)"
    option("--kwargs", type=_json(dict, "an object"), default={}, dest="named", metavar="JSON", help=example)
    option("--queue", type=queue, metavar="QUEUE", help="name of the queue (default: that of the task)")
    bounds = -MAX_PRIORITY, MAX_PRIORITY
    text = f"{bounds[0]} to {bounds[1]}; higher first (default: that of the task)"
    option("--priority", type=whole_number(*bounds), metavar="N", help=text)
    text = "start after: 90s, 15m, 1h, 2d (default: at once)"
    start.add_argument("--in", dest="delay", type=duration, metavar="DURATION", help=text)
    text = "start at a time such as '2026-11-23 11:20', in the site's time zone (default: at once)"
    start.add_argument("--at", type=_due_time, metavar="TIME", help=text)
    text = "id of the task: a second command with the same id and arguments enqueues nothing (default: a random one)"
    option("--id", dest="task_id", metavar="ID", help=text)
    text = (
        "wait for the result, and print it as JSON: for this many seconds at most, without a limit if no number is"
        " given (default: do not wait). The exit code is 1 if the task fails, is cancelled, expires or does not finish"
        " in time; it is not cancelled then"
    )
    option("--wait", nargs="?", type=wait_seconds, default=False, const=None, metavar="SECONDS", help=text)


def _json(kind: type[Any], what: str) -> Callable[[str], Any]:
    """Return a parser of JSON of this kind."""

    def parse(text: str) -> Any:
        try:
            found = json.loads(text)
        except ValueError as exc:
            raise ArgumentTypeError(f"{text!r}: expected {what} as JSON: {exc}.") from None
        if not isinstance(found, kind):
            raise ArgumentTypeError(f"{text!r}: expected {what} as JSON.")
        return found

    return parse


def _add_filters(parser: CommandParser) -> None:
    parser.add_argument("--queue", type=queue, metavar="QUEUE", help="name of the queue (default: all)")
    parser.add_argument("--name", default="", metavar="TEXT", help="part of the name (default: any)")
    parser.add_argument(
        "--text", default="", metavar="TEXT", help="part of the arguments, such as order_id=7 (default: any)"
    )
    parser.add_argument(
        "--error",
        default="",
        metavar="TEXT",
        help="part of the last error, or its fingerprint, 16 hexadecimal digits (default: any)",
    )
    for name, bound in (("since", "earliest"), ("until", "latest")):
        parser.add_argument(
            f"--{name}",
            type=past_moment,
            metavar="TIME",
            help=f"{bound} time of the failure, of the next run of a scheduled task, else of the enqueue: a duration"
            " before now (90s, 15m, 1h, 2d), or a time such as '2026-11-23 11:20' (default: any)",
        )


def _add_find_arguments(parser: CommandParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="TEXT",
        help="part of the name, the arguments or the last error; upper and lower case differ",
    )
    _add_filters(parser)
    parser.add_argument(
        "--state", choices=STATES, default="", metavar="STATE", help=f"{', '.join(STATES)} (default: all)"
    )
    _add_limit(parser)
    parser.add_argument(
        "--budget",
        type=whole_number(1, MAX_BUDGET),
        default=100_000,
        metavar="N",
        help=f"number of tasks to look at, 1 to {MAX_BUDGET:,} (default: 100000)",
    )


def _add_page_arguments(parser: CommandParser) -> None:
    parser.add_argument("queue", type=queue, metavar="QUEUE", help="name of the queue")
    parser.add_argument("state", metavar="STATE", choices=LISTED, help=", ".join(LISTED))
    _add_limit(parser)
    parser.add_argument(
        "--offset",
        type=whole_number(0, MAX_OFFSET),
        default=0,
        metavar="N",
        help="number of tasks to skip (default: 0)",
    )


def _add_limit(parser: CommandParser) -> None:
    parser.add_argument(
        "--limit",
        type=whole_number(1, MAX_PAGE),
        default=50,
        metavar="N",
        help=f"number of tasks, 1 to {MAX_PAGE:,} (default: 50)",
    )
