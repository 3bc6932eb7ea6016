"""Tables of worker processes, for `manage.py redis workers` and `manage.py redis top`."""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.management.listings.task_listing import age, clock
from django_redis_components.management.tables import TextTable
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo

_NUMBERS = frozenset({"BUSY", "THREADS", "FINISHED", "HEARTBEAT"})


def of_workers(workers: Sequence[WorkerInfo], *, with_ids: bool = False) -> TextTable:
    """Return a table of workers."""
    rows = [
        (
            f"{worker.host}:{worker.pid}" if worker.pid else worker.id,
            worker.state if worker.is_alive else "lost",
            f"{worker.busy:,}",
            f"{worker.threads:,}",
            f"{worker.finished:,}",
            f"{age(worker.heartbeat_age)} ago",
            clock(worker.started_at),
            *([worker.id] if with_ids else []),
            ", ".join(worker.queues),
        )
        for worker in workers
    ]
    ids = ("ID",) if with_ids else ()
    headers = ("WORKER", "STATE", "BUSY", "THREADS", "FINISHED", "HEARTBEAT", "STARTED", *ids, "QUEUES")
    return TextTable(headers, rows, _NUMBERS)
