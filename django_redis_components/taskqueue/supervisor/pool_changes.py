"""Changes of the pools of a supervisor's worker processes: requested by operators, or kept for processes that start.

A change is sent to the processes at once, and again with their heartbeats until they confirm it; then its outcome is
reported. A process that exits before takes nothing along: the one after it starts with the pool of the command line,
and what is kept for that.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Iterator, Sequence

from redis.exceptions import RedisError

from django_redis_components.core.protocol import run
from django_redis_components.taskqueue.exceptions import UnknownQueue
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.pool import PoolChange, decode_change
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.pools import read_kept
from django_redis_components.taskqueue.store.workers import RESET, RemoteCommand
from django_redis_components.taskqueue.supervisor.child import Child
from django_redis_components.taskqueue.supervisor.child_pool import ChildPool, command_line_of
from django_redis_components.taskqueue.worker.options import WorkerOptions


class PoolChanges:
    """Changes the pools of worker processes.

    Attributes:
        queues: all that any of the processes has served: leases and reports of exited ones may be in each.
    """

    def __init__(self, options: WorkerOptions, using: str) -> None:
        self._options = options
        self._using = using
        self.queues = list(options.queues)
        self._kept: dict[str, PoolChange] = {}
        #: Commands that are not confirmed by all of their processes.
        self._pending: list[tuple[RemoteCommand, list[Child]]] = []

    def new_pool(self) -> ChildPool:
        """Return the pool of a process that starts now. While Redis is away it is that of the process before."""
        with contextlib.suppress(RedisError):
            self._read_kept()
        pool = ChildPool(self._options, self._kept)
        self._add_queues(pool.current.queues)
        for change in pool.report()["changes"]:
            value = pool.current.value(change.name)
            message = "A worker process starts with %s %s instead of %s, as %s has requested for later processes."
            logger.info(message, change.name, value, change.configured, change.author or "an operator")
        return pool

    def execute(self, command: RemoteCommand, children: Sequence[Child]) -> str:
        """Send a change to processes; return why that is not possible, "" if it is."""
        fit = [child for child in children if child.state() == "working"]
        if not fit:
            return children[0].state() if children else "gone"
        problem = self._reset(fit) if command.verb == RESET else self._change(command, fit)
        if not problem:
            self._pending.append((command, fit))
        return problem

    def is_pending(self) -> bool:
        """Return whether a change is not confirmed yet."""
        return bool(self._pending)

    def take_finished(self, children: Iterable[Child]) -> Iterator[tuple[RemoteCommand, str]]:
        """Yield the commands that their processes have confirmed, with the outcomes.

        Args:
            children: those that have not exited.
        """
        present = list(children)
        for entry in list(self._pending):
            command, changed = entry
            left = [child for child in changed if child in present]
            if all(child.pool.is_confirmed() for child in left):
                self._pending.remove(entry)
                yield command, _outcome(left)

    def _change(self, command: RemoteCommand, children: Iterable[Child]) -> str:
        try:
            change, keep = decode_change(command.argument)
        except UnknownQueue as exc:
            logger.error("The pool is not changed: %s", exc)
            return "queue"
        except (ValueError, TypeError) as exc:
            logger.error("The pool is not changed: %s", exc)
            return "unknown"
        changes = {name: PoolChange(value, command.author, command.at, keep) for name, value in change.items()}
        for child in children:
            self._add_queues(child.change_pool(changes).queues)
        return ""

    def _reset(self, children: Iterable[Child]) -> str:
        try:
            self._read_kept()
        except RedisError as exc:
            logger.error("The pool is not reset, because what is kept cannot be read: %s", exc)
            return "unavailable"
        for child in children:
            self._add_queues(child.reset_pool(self._kept).queues)
        return ""

    def _read_kept(self) -> None:
        shard = home(self._using)
        flow = read_kept(shard, socket.gethostname(), command_line_of(self._options))
        self._kept = run(prompt_client(shard), flow)

    def _add_queues(self, queues: Iterable[str]) -> None:
        self.queues += [queue for queue in queues if queue not in self.queues]


def _outcome(children: Sequence[Child]) -> str:
    if not children:
        return "gone"
    return "threads" if any(child.pool.is_short for child in children) else "done"
