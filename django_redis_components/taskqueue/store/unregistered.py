"""Unregistered tasks: those whose name no worker knew that fetched them. They wait for one that does."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.scripts import REQUEUE_UNREGISTERED

logger = logging.getLogger("django_redis_components.taskqueue")


def unpark(queues: Sequence[str], using: str) -> None:
    """Unregistered tasks whose names are known by now go back to the front of their queues."""
    client, names = connections.client(using), registry.names()
    for queue in queues:
        seen, skip, total, up_to_ms = 1, 0, 0, b""
        while seen:
            call = REQUEUE_UNREGISTERED(base=base_key(), queue=queue, skip=skip, up_to_ms=up_to_ms, names=names)
            seen, stayed, back, up_to_ms = client.execute(call)
            skip, total = skip + stayed, total + back
        if total:
            logger.info("Requeued %d tasks of queue %s whose names are registered now.", total, queue)
