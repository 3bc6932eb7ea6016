"""`manage.py workers`: lists the worker processes, and sends commands to them."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.management import worker_commands, worker_listing
from django_redis_components.management.base import (
    EXIT_CODES,
    CommandResult,
    ExitCode,
    OperatorCommand,
    add_common,
    add_yes,
    system_user,
)
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.queue_stats import MAX_ALL_WORKERS, read_overview
from django_redis_components.taskqueue.store.workers import VERBS


class Command(OperatorCommand):
    """List worker processes, and command them."""

    help = (
        f"List the worker processes of all hosts, lost ones included, at most {MAX_ALL_WORKERS:,}. With a command and"
        " an ID: quiet (fetch nothing more), resume, restart (replace each process after its running tasks) or stop"
        " (asks for confirmation, like restart)."
        f" {EXIT_CODES}"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument(
            "verb", nargs="?", default="list", choices=("list", *VERBS), metavar="COMMAND", help="default: list"
        )
        parser.add_argument(
            "id", nargs="?", default="", metavar="ID", help="of a process, or of a supervisor for all of its processes"
        )
        add_common(parser)
        add_yes(parser)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """List the workers, or send a command to one."""
        verb, target, using = options["verb"], options["id"], options["using"]
        if (verb == "list") == bool(target):
            problem = f"workers {verb} takes no ID." if target else f"workers {verb} requires an ID."
            raise CommandError(problem, returncode=ExitCode.INVALID_ARGUMENTS)
        if verb == "list":
            return self._list(using)
        text = worker_commands.describe(target, using)
        if verb in ("restart", "stop") and not options["yes"]:
            self.ask(f"{text} {verb.capitalize()}?", "Nothing was sent.")
        return worker_commands.send(target, verb, system_user(), using)

    def _list(self, using: str) -> CommandResult:
        """List the workers, those with the latest heartbeat first."""
        shard = home(using)
        overview = shard.run(read_overview(shard, with_metrics=False, with_all_workers=True))
        workers = overview.workers
        data = {
            "at": overview.at,
            "poller": overview.poller,
            "workers": [{**dataclasses.asdict(worker), "is_lost": not worker.is_alive} for worker in workers],
        }
        if not workers:
            return CommandResult(data, "No workers. Start one: python manage.py runworker")
        alive = overview.live_count
        busy = sum(worker.busy for worker in workers if worker.is_alive)
        text = f"{alive:,} live, {overview.worker_count - alive:,} lost. Busy threads: {busy:,}."
        return CommandResult(data, text, worker_listing.of_workers(workers, with_ids=True))
