"""The commands of `manage.py redis workers`."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.protocol import run
from django_redis_components.core.text import counted
from django_redis_components.management.arguments import ordered_queues, whole_number
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes, system_user
from django_redis_components.management.listings import worker_listing
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.queues.operations import away_note, shards_data
from django_redis_components.management.redis.workers import pools
from django_redis_components.taskqueue.exceptions import WorkerDoesNotExist
from django_redis_components.taskqueue.pool import MAX_COROUTINES, MAX_THREADS, POOL_VALUES, check_change
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
    "set": "change the threads, coroutines or queues of live processes (asks for confirmation)",
    "reset": "end the changes of `set` (asks for confirmation); without an argument: list them",
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
        for verb in ("set", "reset", "restart", "stop"):
            add_yes(made[verb])
        for verb in ("set", "reset"):
            _add_target(made[verb])
        _add_values(made["set"])

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """List the workers, or send a command to one."""
        verb, using = options["verb"], options["using"]
        if verb == "list":
            return list_workers(using)
        if verb == "set":
            return self._set_pools(options)
        if verb == "reset":
            return self._reset_pools(options)
        text = describe(options["id"], using)
        if verb in ("restart", "stop") and not options["yes"]:
            self.command.ask(f"{text} {verb.capitalize()}?", "Nothing was sent.")
        return send(options["id"], verb, system_user(), using)

    def _set_pools(self, options: dict[str, Any]) -> CommandResult:
        change = check_change({name: str(options[name]) for name in POOL_VALUES if options[name] is not None})
        targets = pools.PoolTargets(_target(options), options["using"])
        values = ", ".join(f"{name} {value}" for name, value in change.items())
        kept = ", also for those that start later" if options["keep"] else ""
        if not options["yes"] and targets.workers:
            self.command.ask(f"{targets.describe()} Set {values}{kept}?", "Nothing was sent.")
        return pools.set_pools(targets, change, system_user(), keep=options["keep"])

    def _reset_pools(self, options: dict[str, Any]) -> CommandResult:
        using = options["using"]
        if not (options["worker"] or options["all"]):
            return pools.list_pools(using)
        try:
            targets = pools.PoolTargets(_target(options), using)
        except WorkerDoesNotExist:
            if not options["all"]:
                raise
            forgotten = pools.forget_all(using)
            return CommandResult({"forgotten": forgotten}, f"Ended {counted(forgotten, 'kept change')}.")
        if not options["yes"]:
            question = f"{targets.describe()} Reset to the threads, coroutines and queues of the command line?"
            self.command.ask(question, "Nothing was sent.")
        return pools.reset_pools(targets, system_user())


def _add_target(parser: CommandParser) -> None:
    parser.add_argument(
        "worker",
        nargs="?",
        metavar="HOST[:PID]",
        help="a host, the process id of a worker process or of a supervisor on it, or an id, as listed",
    )
    parser.add_argument("--all", action="store_true", help="the worker processes of all hosts")


def _add_values(parser: CommandParser) -> None:
    parser.add_argument(
        "--threads",
        type=whole_number(1, MAX_THREADS),
        metavar="N",
        help=f"concurrent tasks in one process, 1 to {MAX_THREADS} (default: unchanged)",
    )
    parser.add_argument(
        "--coroutines",
        type=whole_number(1, MAX_COROUTINES),
        metavar="N",
        help=f"concurrent async def tasks of one process, 1 to {MAX_COROUTINES} (default: unchanged)",
    )
    parser.add_argument(
        "--queues",
        type=ordered_queues,
        metavar="NAME,…",
        help="queue names in strict order, or NAME=WEIGHT,… (default: unchanged)",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="processes with the same host and command line that start later take it, too; with --all of any host"
        " (default: until the restart of the process)",
    )


def _target(options: dict[str, Any]) -> str:
    """Return which workers are concerned; "" for all.

    Raises:
        ValueError: neither a worker nor --all is given, or both.
    """
    if bool(options["worker"]) == options["all"]:
        raise ValueError("Which workers? Expected either HOST, HOST:PID or an id, or --all.")
    return options["worker"] or ""


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
    text = "\n".join([text, *pools.pool_notes([worker for worker in workers if worker.is_alive])])
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
