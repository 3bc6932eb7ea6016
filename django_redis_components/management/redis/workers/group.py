"""`manage.py redis workers`: lists the worker processes, and sends commands to them."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.protocol import run
from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes, system_user
from django_redis_components.management.listings import worker_listing
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.queues.operations import away_note, shards_data
from django_redis_components.taskqueue.exceptions import WorkerDoesNotExist
from django_redis_components.taskqueue.shard_clients import prompt_client, read_each
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.stats.merging import merged_overview
from django_redis_components.taskqueue.stats.queue_stats import MAX_ALL_WORKERS, read_overview
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.stats.workers import find_workers
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.workers import VERBS as CONTROL_VERBS
from django_redis_components.taskqueue.store.workers import command_worker

#: Commands and their descriptions.
VERBS = {
    "list": f"list the worker processes of all hosts, lost ones included, at most {MAX_ALL_WORKERS:,}",
    "quiet": "have a worker fetch no more tasks; its running tasks finish",
    "resume": "have a quiet worker fetch tasks again",
    "restart": "replace each process of a worker after its running tasks (asks for confirmation)",
    "stop": "stop each process; running tasks have the grace period (asks for confirmation)",
}


class Group(groups.CommandGroup):
    """Lists worker processes, and commands them."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS)
        for verb in CONTROL_VERBS:
            made[verb].add_argument(
                "id", metavar="ID", help="id of a process, or of a supervisor for all of its processes, as listed"
            )
        for verb in ("restart", "stop"):
            add_yes(made[verb])

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """List the workers, or send a command to one."""
        verb, using = options["verb"], options["using"]
        if verb == "list":
            return list_workers(using)
        text = describe(options["id"], using)
        if verb in ("restart", "stop") and not options["yes"]:
            self.command.ask(f"{text} {verb.capitalize()}?", "Nothing was sent.")
        return send(options["id"], verb, system_user(), using)


#: Seconds that a command waits for its outcome, and between two looks.
WAIT_S, LOOK_S = 5.0, 0.2
#: Why a command could not be executed, by its outcome.
PROBLEMS = {
    "gone": "the process had exited",
    "stopping": "it was stopping",
    "restarting": "it was restarting",
    "quiet": "its supervisor is quiet; resume that",
    "not_quiet": "it was not quiet",
}


def list_workers(using: str) -> CommandResult:
    """Return the workers, those with the latest heartbeat first."""
    found, away = read_each(using, lambda shard: read_overview(shard, with_metrics=False, with_all_workers=True))
    overview = merged_overview(list(found.values()))
    workers = overview.workers
    data = {
        "at": overview.at,
        "poller": overview.poller,
        "workers": [{**dataclasses.asdict(worker), "is_lost": not worker.is_alive} for worker in workers],
    }
    if len(shards_of(using)) > 1:
        data["shards"] = shards_data(found, away)
    note = away_note(away)
    if not workers:
        return CommandResult(data, "No workers. Start one: python manage.py runworker", note=note)
    alive = overview.live_count
    busy = sum(worker.busy for worker in workers if worker.is_alive)
    text = f"{alive:,} live, {overview.worker_count - alive:,} lost. Busy threads: {busy:,}."
    return CommandResult(data, text, worker_listing.of_workers(workers, with_ids=True), note)


def describe(target: str, using: str) -> str:
    """Return what a command concerns, in one sentence.

    Raises:
        WorkerDoesNotExist: no worker or supervisor has this id.
    """
    pages, _ = read_each(using, lambda shard: find_workers(shard, target))
    found = next((page.workers for page in pages.values() if page.workers), [])
    if not found:
        raise WorkerDoesNotExist(
            f'No worker or supervisor has the id "{target}". List them: manage.py redis workers list'
        )
    busy, count = sum(worker.busy for worker in found), len(found)
    return f"{target}: {counted(count, 'process', 'processes')}, {counted(busy, 'running task')}."


def send(target: str, verb: str, author: str, using: str) -> CommandResult:
    """Send a command, and wait a few seconds for its outcome."""
    shard = _shard_for(target, using)
    client = prompt_client(shard)
    run(client, command_worker(shard, target, verb, author, new_op()))
    deadline = time.monotonic() + WAIT_S
    while True:
        time.sleep(LOOK_S)
        page = run(client, find_workers(shard, target))
        if target not in page.pending_commands:
            return _result(target, verb, _outcome(target, page.workers))
        if time.monotonic() > deadline:
            text = f"Sent: {verb} {target}. It has not been executed yet; it expires after a minute."
            return CommandResult({"id": target, "command": verb, "outcome": None}, text)


def _shard_for(target: str, using: str) -> Shard:
    """Return a shard that answers and knows a worker: each process reads its commands from all shards."""
    pages, _ = read_each(using, lambda shard: find_workers(shard, target))
    return next((shard for shard, page in pages.items() if page.workers), next(iter(pages)))


def _outcome(target: str, workers: list[WorkerInfo]) -> str:
    """Return the outcome that the supervisor reports; "done" if the processes have exited since."""
    commands = [worker.command for worker in workers if worker.command and worker.command.target == target]
    return commands[0].outcome if commands else "done"


def _result(target: str, verb: str, outcome: str) -> CommandResult:
    data = {"id": target, "command": verb, "outcome": outcome}
    if outcome == "done":
        return CommandResult(data, f"Executed: {verb} {target}.")
    return CommandResult(data, problem=f"Not executed: {verb} {target}: {PROBLEMS.get(outcome, outcome)}.")
