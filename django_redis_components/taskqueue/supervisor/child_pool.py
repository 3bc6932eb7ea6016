"""The pool of one worker process as its supervisor knows it, and what was changed since its start."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from django_redis_components.taskqueue.exceptions import UnknownQueue
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.pool import POOL_VALUES, Pool, PoolChange, check_change
from django_redis_components.taskqueue.stats.worker_reports import ChangedValue
from django_redis_components.taskqueue.worker.ipc import Heartbeat
from django_redis_components.taskqueue.worker.options import WorkerOptions

NONE_KEPT: Mapping[str, PoolChange] = MappingProxyType({})


class ChildPool:
    """The pool of a worker process. The process confirms each change with its next heartbeat.

    Attributes:
        current: the pool, as confirmed last.
        is_short: whether the system had too few threads for the last change.
    """

    def __init__(self, options: WorkerOptions, kept: Mapping[str, PoolChange] = NONE_KEPT) -> None:
        """
        Args:
            options: of the command line.
            kept: the changes that the process takes at its start.
        """
        self._options = options
        self._configured = pool_of(options)
        self._changes: dict[str, PoolChange] = {}
        self._apply_changes(accepted(kept))
        self.current = self._wanted = self._changed_pool()
        self._number = self._confirmed = 0
        self.is_short = False

    def options(self) -> WorkerOptions:
        """Return the options that the process starts with."""
        pool = self.current
        return dataclasses.replace(
            self._options,
            queues=pool.queues,
            weights=pool.weights,
            threads=pool.threads,
            async_concurrency=pool.coroutines,
        )

    def change(self, changes: Mapping[str, PoolChange]) -> Pool:
        """Note changes that are sent to the process now; return the pool that it is to have."""
        self._apply_changes(changes)
        return self._send()

    def reset(self, kept: Mapping[str, PoolChange]) -> Pool:
        """Note that the process gets the pool that it would have at its start."""
        self._changes = {}
        self._apply_changes(accepted(kept))
        return self._send()

    def message(self) -> list[Any]:
        """Return the last change as the process takes it."""
        pool = self._wanted
        return [self._number, pool.threads, pool.coroutines, pool.queues, pool.weights]

    def is_confirmed(self) -> bool:
        """Return whether the process has made the last change."""
        return self._confirmed == self._number

    def confirm(self, heartbeat: Heartbeat) -> bool:
        """Note a heartbeat; return False if the last change must be sent again."""
        if not self.is_confirmed() and heartbeat.pool == self._number:
            self._confirmed = self._number
            self.is_short = heartbeat.threads < self._wanted.threads
            self.current = dataclasses.replace(self._wanted, threads=heartbeat.threads or self._wanted.threads)
        return self.is_confirmed()

    def report(self) -> dict[str, Any]:
        """Return the fields of the `WorkerReport`."""
        pool = self.current
        return {
            "queues": pool.queues,
            "weights": pool.weights,
            "threads": pool.threads,
            "async_concurrency": pool.coroutines,
            "command_line": command_line_of(self._options),
            "changes": tuple(
                ChangedValue(name, self._configured.value(name), change.author, change.at, change.is_kept)
                for name in POOL_VALUES
                if (change := self._changes.get(name)) is not None
            ),
        }

    def _apply_changes(self, changes: Mapping[str, PoolChange]) -> None:
        """Note changes. A value that equals that of the command line is none."""
        for name, change in changes.items():
            self._changes.pop(name, None)
            if change.value != self._configured.value(name):
                self._changes[name] = change

    def _send(self) -> Pool:
        self._number += 1
        self._wanted = self._changed_pool()
        return self._wanted

    def _changed_pool(self) -> Pool:
        return self._configured.changed({name: change.value for name, change in self._changes.items()})


def pool_of(options: WorkerOptions) -> Pool:
    """Return the pool of the command line."""
    return Pool(options.threads, options.async_concurrency, options.queues, options.weights)


def command_line_of(options: WorkerOptions) -> str:
    """Return what changes are kept for, beside the host."""
    return pool_of(options).command_line(burst=options.burst)


def accepted(kept: Mapping[str, PoolChange]) -> dict[str, PoolChange]:
    """Return the kept changes that this release and the site's settings accept; log the others."""
    found = {}
    for name, change in kept.items():
        try:
            found[name] = change._replace(value=check_change({name: change.value})[name])
        except (ValueError, UnknownQueue) as exc:
            logger.error("A kept change of the pool is not accepted: %s", exc)
    return found
