"""`manage.py queues`: a thin door to `taskqueue.desk`."""

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
from django_redis_components.management.queue_commands import Answer, Desk
from django_redis_components.management.tables import harmless, table
from django_redis_components.taskqueue.queue import MAX_OFFSET, MAX_PAGE
from django_redis_components.taskqueue.store.queues import LISTED

#: The verbs, and what each does.
VERBS = {
    "status": "depths of queues, workers and poller",
    "pause": "fetch nothing more from a queue; what runs goes on",
    "resume": "fetch from a paused queue again",
    "purge": "remove all pending tasks of a queue (asks for confirmation; can be restored for 24 h)",
    "restore": "restore the tasks that a purge removed",
    "retry": "let failed tasks run again",
    "delete": "delete failed or unregistered tasks permanently (asks for confirmation if no ids are given)",
    "tasks": "list the tasks of a queue in one state",
    "schedules": "list periodic tasks: when they come next, and what they have sent last",
    "cancel": "cancel a task that waits, or ask one that runs to end",
}


class Command(BaseCommand):
    """Look at queues, and operate them."""

    help = (
        "Look at task queues, and operate them. `queues VERB --help` tells more."
        " Exit codes: 0 done; 1 not done, or not wholly, with the reason on standard error; 2 wrong usage."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the verbs."""
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        made = {}
        for verb, does in VERBS.items():
            made[verb] = verbs.add_parser(verb, help=does, description=f"{does.capitalize()}.")
            made[verb].add_argument("--using", default="default", help="connection alias (default: default)")
            made[verb].add_argument(
                "--json", action="store_true", help="one line of JSON instead of text, for programs"
            )
        made["status"].add_argument("names", nargs="*", type=queue, metavar="NAME", help="queues (default: all)")
        for verb in ("pause", "resume", "purge", "restore", "retry", "delete", "tasks"):
            made[verb].add_argument("name", type=queue, metavar="NAME", help="the queue")
        _add_arguments_of_pausing(made["pause"])
        made["restore"].add_argument("purge_id", metavar="PURGE_ID", help="the id that the purge printed")
        for verb in ("purge", "delete"):
            made[verb].add_argument("--yes", action="store_true", help="do not ask")
        for verb, default in (("retry", "all that have failed until now"), ("delete", "all until now")):
            made[verb].add_argument("ids", nargs="*", metavar="ID", help=f"tasks (default: {default})")
        made["delete"].add_argument(
            "--unregistered", action="store_true", help="delete unregistered tasks, not failed ones"
        )
        _add_arguments_of_listing(made["tasks"])
        made["cancel"].add_argument("id", metavar="ID", help="the task")
        made["cancel"].add_argument(
            "--force-after",
            type=seconds,
            metavar="SECONDS",
            help='what one that runs has to end by itself (default: TASKQUEUE["CANCEL_GRACE"])',
        )

    def handle(self, *_: Any, **options: Any) -> None:
        """Do what the verb says."""
        desk = Desk(using=options["using"], author=_author())
        try:
            answer: Answer = getattr(self, f"_{options['verb']}")(desk, options)
        except (RedisComponentsError, RedisError, ValueError) as exc:
            raise CommandError(harmless(str(exc))) from exc
        self._tell(answer, as_json=options["json"])
        if answer.problem:
            raise CommandError(harmless(answer.problem))

    def _status(self, desk: Desk, options: dict[str, Any]) -> Answer:
        return desk.status(options["names"])

    def _schedules(self, desk: Desk, options: dict[str, Any]) -> Answer:
        return desk.schedules()

    def _pause(self, desk: Desk, options: dict[str, Any]) -> Answer:
        return desk.pause(options["name"], reason=options["reason"], until=options["until"])

    def _resume(self, desk: Desk, options: dict[str, Any]) -> Answer:
        return desk.resume(options["name"])

    def _purge(self, desk: Desk, options: dict[str, Any]) -> Answer:
        name = options["name"]
        if not options["yes"] and (waiting := desk.waiting(name)):
            self._ask(f"Purge the {waiting:,} waiting tasks of queue {name!r}?", "Nothing was purged.")
        return desk.purge(name)

    def _restore(self, desk: Desk, options: dict[str, Any]) -> Answer:
        return desk.restore(options["name"], options["purge_id"])

    def _retry(self, desk: Desk, options: dict[str, Any]) -> Answer:
        return desk.retry(options["name"], options["ids"])

    def _delete(self, desk: Desk, options: dict[str, Any]) -> Answer:
        name, ids, unregistered = options["name"], options["ids"], options["unregistered"]
        if not ids and not options["yes"] and (count := desk.deletable(name, unregistered=unregistered)):
            kind = "unregistered" if unregistered else "failed"
            self._ask(f"Delete the {count:,} {kind} tasks of queue {name!r} for good?", "Nothing was deleted.")
        return desk.delete(name, ids, unregistered=unregistered)

    def _tasks(self, desk: Desk, options: dict[str, Any]) -> Answer:
        return desk.tasks(
            options["name"],
            options["state"],
            limit=options["limit"],
            offset=options["offset"],
            with_arguments=options["with_arguments"],
        )

    def _cancel(self, desk: Desk, options: dict[str, Any]) -> Answer:
        return desk.cancel(options["id"], options["force_after"])

    def _ask(self, question: str, refused: str) -> None:
        """Go on after a yes only. The question goes to standard error: standard output may be a program's."""
        if not sys.stdin.isatty():
            raise CommandError(f"{refused} Nobody is there to be asked: say --yes.")
        self.stderr.write(f"{harmless(question)} [y/N] ", self.style.NOTICE, ending="")
        self.stderr.flush()
        try:
            said = sys.stdin.readline().strip().lower()
        except KeyboardInterrupt:
            said = ""
        if said not in ("y", "yes"):
            raise CommandError(refused)

    def _tell(self, answer: Answer, *, as_json: bool) -> None:
        if answer.note:
            self.stderr.write(harmless(answer.note), self.style.WARNING)
        if as_json:
            self.stdout.write(json.dumps(answer.data, cls=DjangoJSONEncoder))
            return
        if answer.table is not None:
            columns = shutil.get_terminal_size().columns if self.stdout.isatty() else None
            rows = table(answer.table.headers, answer.table.rows, right=answer.table.numbers, columns=columns)
            self.stdout.write(f"{rows}\n\n", ending="")
        if answer.text:
            self.stdout.write(harmless(answer.text))


def _add_arguments_of_pausing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="TEXT", help="shown to others (default: none)")
    parser.add_argument(
        "--until", type=seconds, metavar="SECONDS", help="seconds after which it resumes by itself (default: never)"
    )


def _add_arguments_of_listing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("state", metavar="STATE", choices=LISTED, help=", ".join(LISTED))
    parser.add_argument(
        "--limit", type=whole_number(1, MAX_PAGE), default=50, help=f"most tasks, 1 to {MAX_PAGE:,} (default: 50)"
    )
    parser.add_argument(
        "--offset", type=whole_number(0, MAX_OFFSET), default=0, help="how many to pass over (default: 0)"
    )
    parser.add_argument(
        "--args", action="store_true", dest="with_arguments", help="show the tasks' arguments too; they may be private"
    )


def _author() -> str:
    """Who types, as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return ""
