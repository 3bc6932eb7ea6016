"""Renewing the leases of all processes of a supervisor together.

One round trip, and one timeout, for all: who waited for each in turn, while nothing answers, would lose the leases of
the last ones.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Call
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.scripts import RENEW_LEASES
from django_redis_components.taskqueue.supervisor.child import Child

logger = logging.getLogger("django_redis_components.taskqueue")


def renew(children: Sequence[Child], lease_s: float, using: str) -> str:
    """Renew their leases, and pass on what Redis says of them; the value tells what went wrong, if anything did."""
    replies = connections.client(using).execute_many([_renewal_of(child, lease_s) for child in children])
    failed: list[str] = []
    error: RedisError | None = None
    for child, reply in zip(children, replies, strict=True):
        if isinstance(reply, RedisError):
            failed.append(str(child.pid))
            error = reply
        else:
            _renewed(child, *reply)
    return f"The leases of process {', '.join(failed)} could not be renewed ({error})." if failed else ""


def _renewal_of(child: Child, lease_s: float) -> Call:
    return RENEW_LEASES(
        base=base_key(),
        worker=child.worker_id,
        lease_ms=round(lease_s * 1_000),
        info=child.info(),
        leases=[part for pair in child.beacon.leases.items() for part in pair],
    )


def _renewed(child: Child, lost: Sequence[bytes], asked: Sequence[Any]) -> None:
    """Redis has heard of a process: it may have lost leases, and tasks of it may have been asked to end."""
    child.renewed_at = time.monotonic()
    for task_id in lost:
        if child.has_lost(task_id.decode()):
            logger.warning("Process %d has lost its lease of task %s.", child.pid, task_id.decode())
    for task_id, force_ms in zip(asked[::2], asked[1::2], strict=True):
        child.cancel(task_id.decode(), force_ms / 1_000)
