"""Commands to a supervisor from the dashboard and from `manage.py redis workers`: quiet, resume, set, restart and stop.

A command is stored under the supervisor's id, and wakes the supervisor as a cancellation does. The supervisor reads
it in the round trip of its heartbeat, executes it once, and states its id in the next heartbeat, which removes it. A
heartbeat whose reply was lost returns the command again; its id is known by then. A command that is not read expires
after `Ttl.command_ms`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_plus

from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.shards import HOME
from django_redis_components.taskqueue.stats.worker_reports import WorkerCommand
from django_redis_components.taskqueue.store.workers import POOL, STACK, RemoteCommand
from django_redis_components.taskqueue.supervisor.measurements import code_version

#: Ids of commands that are remembered: more than can wait at once.
MAX_REMEMBERED = 200


class RemoteControl:
    """The commands to one supervisor, and what it reports with its heartbeats.

    Attributes:
        supervisor: its id; "" if no commands are read.
        version: of the site's code, read once.
        round_trip_s: of the latest heartbeat; None before the first.
        poller: state of the embedded poller: active, standby or none.
    """

    def __init__(self, supervisor: str) -> None:
        self.supervisor = supervisor
        self.version = code_version() if supervisor else ""
        self.round_trip_s: float | None = None
        self.poller = "none"
        #: The shards that have sent the commands, by their ids, the newest last.
        self._received: dict[str, str] = {}
        self._pending: list[RemoteCommand] = []
        self._executed: dict[str, list[str]] = {}
        #: The latest command of each target, with its outcome.
        self._latest: dict[str, WorkerCommand] = {}

    def executed(self, shard: str = HOME) -> str:
        """Return the ids of the executed commands that a shard still lists, as `renew_leases.lua` takes them."""
        ops = self._executed.get(shard)
        return f" {' '.join(ops)} " if ops else ""

    def receive(self, entries: Sequence[bytes], executed: str, shard: str = HOME) -> None:
        """Note the commands in a reply.

        Args:
            executed: the ids that were sent with the request: Redis has removed them.
            shard: name of the shard that has replied.
        """
        removed = executed.split()
        self._executed[shard] = [op for op in self._executed.get(shard, ()) if op not in removed]
        for entry in entries:
            try:
                command = RemoteCommand.parse(entry)
            except ValueError:
                logger.warning("Ignored a corrupt command: %r.", entry[:100])
                continue
            if command.op not in self._received:
                self._received[command.op] = shard
                self._pending.append(command)
            elif self._received[command.op] != shard and command.op not in self._executed[shard]:
                self._executed[shard].append(command.op)
        while len(self._received) > MAX_REMEMBERED:
            del self._received[next(iter(self._received))]

    def take(self) -> list[RemoteCommand]:
        """Return the commands to execute, each once."""
        taken, self._pending = self._pending, []
        return taken

    def finish(self, command: RemoteCommand, outcome: str) -> None:
        """Report the outcome with the next heartbeat."""
        author = command.author
        what = f"{command.verb} ({unquote_plus(command.argument)})" if command.verb == POOL else command.verb
        logger.warning("Remote command of %s: %s %s: %s.", author, what, command.target, outcome)
        self._executed.setdefault(self._received.get(command.op, HOME), []).append(command.op)
        if command.verb == STACK:  # it changes nothing: the page of workers shows the command before
            return
        self._latest.pop(command.target, None)
        self._latest[command.target] = WorkerCommand(command.verb, author, command.at, outcome, command.target)
        while len(self._latest) > MAX_REMEMBERED:
            del self._latest[next(iter(self._latest))]

    def facts(self, worker: str) -> dict[str, Any]:
        """Return the fields that the supervisor adds to the `WorkerReport` of a worker process."""
        latest = [self._latest[target] for target in (worker, self.supervisor) if target in self._latest]
        return {
            "supervisor_pid": os.getpid(),
            "version": self.version,
            "poller": self.poller,
            "round_trip": None if self.round_trip_s is None else round(self.round_trip_s, 5),
            "command": max(latest, key=lambda command: command.at, default=None),
        }
