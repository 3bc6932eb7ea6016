"""Commands to workers, for `manage.py workers`: send one and wait until it was executed."""

from __future__ import annotations

import time

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.management.base import CommandResult
from django_redis_components.taskqueue.exceptions import WorkerDoesNotExist
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.stats.workers import find_workers
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.workers import command_worker

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


def describe(target: str, using: str) -> str:
    """Return what a command concerns, in one sentence.

    Raises:
        WorkerDoesNotExist: no worker or supervisor has this id.
    """
    found = run(connections.client(using), find_workers(home(using), target)).workers
    if not found:
        raise WorkerDoesNotExist(f'No worker or supervisor has the id "{target}". List them: manage.py workers')
    busy, count = sum(worker.busy for worker in found), len(found)
    return f"{target}: {count:,} {'process' if count == 1 else 'processes'}, {busy:,} running tasks."


def send(target: str, verb: str, author: str, using: str) -> CommandResult:
    """Send a command, and wait a few seconds for its outcome."""
    client = connections.client(using)
    run(client, command_worker(home(using), target, verb, author, new_op()))
    deadline = time.monotonic() + WAIT_S
    while True:
        time.sleep(LOOK_S)
        page = run(client, find_workers(home(using), target))
        if target not in page.waiting:
            return _result(target, verb, _outcome(target, page.workers))
        if time.monotonic() > deadline:
            text = f"Sent: {verb} {target}. It has not been executed yet; it expires after a minute."
            return CommandResult({"id": target, "command": verb, "outcome": None}, text)


def _outcome(target: str, workers: list[WorkerInfo]) -> str:
    """Return the outcome that the supervisor reports; "done" if the processes have exited since."""
    commands = [worker.command for worker in workers if worker.command and worker.command.target == target]
    return commands[0].outcome if commands else "done"


def _result(target: str, verb: str, outcome: str) -> CommandResult:
    data = {"id": target, "command": verb, "outcome": outcome}
    if outcome == "done":
        return CommandResult(data, f"Executed: {verb} {target}.")
    return CommandResult(data, problem=f"Not executed: {verb} {target}: {PROBLEMS.get(outcome, outcome)}.")
