"""The options of a worker process."""

from __future__ import annotations

import dataclasses

#: Default number of concurrent coroutines in one process.
ASYNC_CONCURRENCY = 100


@dataclasses.dataclass(frozen=True)
class WorkerOptions:
    """The options of a worker process.

    Attributes:
        queues: names, in strict order unless they have weights.
        weights: one for each queue, or none: see `fetcher.QueueOrder`.
        threads: concurrent tasks in one process.
        burst: exit when there is nothing left to fetch.
        max_tasks, max_memory_mib: see `restart_policy.RestartPolicy`; 0 for no limit.
        async_concurrency: concurrent coroutines on its event loop, beside the threads.
    """

    queues: tuple[str, ...]
    weights: tuple[int, ...] = ()
    threads: int = 1
    burst: bool = False
    max_tasks: int = 0
    max_memory_mib: int = 0
    async_concurrency: int = ASYNC_CONCURRENCY
